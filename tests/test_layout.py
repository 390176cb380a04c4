# SPDX-License-Identifier: Apache-2.0
"""The rooms of the package: who imports whom, what stays unloaded, the licence line of every file."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "forcelab"
# Each room and the rooms it may import: those to its right.
CHAIN = [
    ("configs",),
    ("learning", "viewers"),
    ("envs",),
    ("mdp",),
    ("managers",),
    ("scene",),
    ("sensors",),
    ("physics",),
]
RANK = {room: rank for rank, rooms in enumerate(CHAIN) for room in rooms}
FREE = ("examples", "benchmarks")
OWNERS = {"newton": "newton.py", "ovphysx": "ovphysx.py", "ovstage": "ovphysx.py"}


def files(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


def modules(path: Path, package: str) -> Iterator[tuple[int, str]]:
    """(line, absolute name) of everything a file imports, inside functions and for type checkers as well."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            name = ".".join([*base, *([node.module] if node.module else [])])
            yield node.lineno, name
            # `from forcelab import mdp` imports a room as well.
            yield from ((node.lineno, f"{name}.{alias.name}") for alias in node.names)


def package_of(path: Path) -> str:
    return ".".join(["forcelab", *path.relative_to(ROOT).parent.parts])


def test_every_room_is_linked_and_named():
    links = {p.name for p in SOURCE.iterdir() if p.is_symlink()}
    assert links == {*RANK, *FREE}
    for name in links:
        assert (SOURCE / name).readlink() == Path("..") / ".." / name


@pytest.mark.parametrize("room", RANK)
def test_imports_go_one_way(room):
    wrong = []
    for path in files(room):
        for line, name in modules(path, package_of(path)):
            parts = name.split(".")
            if parts[0] != "forcelab" or len(parts) < 2:
                continue
            other = parts[1]
            if other in FREE or (other in RANK and other != room and RANK[other] <= RANK[room]):
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports {name}")
    # What draws is looked up by learning only when somebody asks for a picture.
    wrong = [w for w in wrong if not (w.startswith("learning/play.py") and "forcelab.viewers" in w)]
    assert not wrong, "\n".join(wrong)


def test_engines_are_imported_by_their_adapters_only():
    wrong = []
    for room in (*RANK, *FREE, "src/forcelab"):
        for path in sorted((ROOT / room).rglob("*.py")):
            for line, name in modules(path, ""):
                owner = OWNERS.get(name.split(".")[0])
                if owner and path != ROOT / "physics" / owner:
                    wrong.append(f"{path.relative_to(ROOT)}:{line} imports {name}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "code",
    [
        "import forcelab",
        "import forcelab.configs",
        "from forcelab import mdp",
        "from forcelab.scene import InteractiveSceneCfg, ArticulationCfg",
        "from forcelab.envs import ManagerBasedRlEnvCfg",
        "from forcelab.cli import main; main(['list'])",
    ],
)
def test_light_imports(code):
    check = "import sys; found = {'torch', 'warp', 'newton', 'ovphysx'} & set(sys.modules); assert not found, found"
    result = subprocess.run([sys.executable, "-c", f"{code}; {check}"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_licence_line_of_every_file():
    places = (*RANK, *FREE, "tests", "src/forcelab")
    paths = {p.resolve() for place in places for p in (ROOT / place).rglob("*.py")}
    assert len(paths) > 100
    wrong = [
        str(p.relative_to(ROOT))
        for p in sorted(paths)
        if not p.read_text(encoding="utf-8").startswith("# SPDX-License-Identifier: Apache-2.0\n")
    ]
    assert not wrong, wrong
