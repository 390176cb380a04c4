# SPDX-License-Identifier: Apache-2.0
"""The README and the pages of docs/: their code runs, their commands parse, their links lead somewhere."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import shlex
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from forcelab import cli
from forcelab.configs import compose, list_tasks

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PAGES = [README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    return [code for kind, code in _BLOCK.findall(page.read_text(encoding="utf-8")) if kind == language]


def id_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("number", range(len(blocks(README, "python"))))
def test_python_of_the_readme_runs(number, capsys, monkeypatch):
    code = blocks(README, "python")[number]
    # Dataclasses look their module up.
    module = types.ModuleType(f"readme_{number}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    namespace: dict[str, Any] = module.__dict__
    exec(compile(code, f"README.md, block {number}", "exec", dont_inherit=True), namespace)
    out = capsys.readouterr().out
    if "StackCfg" in code:
        net = namespace["touch"].net_forces_w.torch
        matrix = namespace["touch"].force_matrix_w.torch
        assert net.shape == (4, 1, 3) and matrix.shape == (4, 1, 2, 3)
        assert net[..., 2].flatten().tolist() == pytest.approx([49.05] * 4, rel=1e-3)
        for column, force in enumerate((-19.62, 68.67)):
            assert matrix[:, 0, column, 2].tolist() == pytest.approx([force] * 4, rel=1e-3)
    assert out


@pytest.mark.parametrize("page", PAGES, ids=id_of)
def test_python_of_the_pages_is_valid_and_its_imports_exist(page):
    for code in blocks(page, "python"):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("forcelab"):
                module = importlib.import_module(node.module)
                for alias in node.names:
                    found = hasattr(module, alias.name) or importlib.util.find_spec(
                        f"{node.module}.{alias.name}"
                    )
                    assert found, f"{node.module} has no {alias.name}"


def commands(page: Path) -> list[str]:
    lines = [line for code in blocks(page, "bash") for line in code.splitlines()]
    return [line for line in lines if line.startswith("forcelab ")]


@pytest.mark.parametrize("command", dict.fromkeys(c for page in PAGES for c in commands(page)))
def test_commands_parse(command, capsys, monkeypatch, tmp_path):
    """What a command would run is composed and printed; nothing is trained."""
    monkeypatch.chdir(tmp_path)
    words = shlex.split(command, comments=True)[1:]
    if words[0] in ("list", "example"):
        assert cli.main([words[0], "-h"]) == 0
        return
    if words[0] in ("play", "evaluate", "export"):
        # Checkpoints of one's own do not exist here, and shipped ones belong to another test.
        words.append("checkpoint=pretrained")
    code = cli.main([*words, "--cfg"])
    out, err = capsys.readouterr()
    assert code == 0, f"{command}\n{err}"
    assert "_target_: ManagerBasedRlEnvCfg" in out


@pytest.mark.parametrize("page", PAGES, ids=id_of)
def test_links_and_pictures_exist(page):
    text = page.read_text(encoding="utf-8")
    anchors = {
        re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-")
        for h in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    }
    missing = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        if path.startswith(("http:", "https:")):
            continue
        if not ((page.parent / path).is_file() if path else anchor in anchors):
            missing.append(target)
    assert not missing, missing


def test_a_task_of_ones_own_as_documented(monkeypatch, tmp_path):
    page = ROOT / "docs" / "configuration.md"
    files = {}
    for text in blocks(page, "python"):
        if match := re.match(r"# (my_\S+)\n", text):
            files[match.group(1)] = text
    (task,) = (text for text in blocks(page, "yaml") if "soft_walk" in text)
    files["my_configs/task/soft_walk.yaml"] = task
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    cfg = compose("soft_walk", ["hydra.searchpath=[my_configs]", "num_envs=256"])
    assert cfg.env.rewards.uneven_load.func.__module__ == "my_terms"
    assert "feet_gait" not in cfg.env.rewards and cfg.agent.experiment_name == "soft_walk"
    cfg = compose(
        "velocity_flat",
        [
            "+rewards.mine.func=my_terms.uneven_load",
            "+rewards.mine.weight=-1",
            "+rewards.mine.params.sensor_cfg.name=feet_contact",
        ],
    )
    assert cfg.env.rewards.mine.weight == -1.0


def test_override_forms_of_the_configuration_page(monkeypatch, tmp_path):
    """Every override in the table is accepted (sweeps are expanded by the command line)."""
    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    table = text.partition("## Overrides")[2].partition("## Your own")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    found = [o for row in rows for o in re.findall(r"`([^`]+)`", row)]
    assert len(found) > 20
    for override in found:
        if any(word in override for word in ("…", "my_", "_target_", " -m", "++", "logger=wandb")):
            continue
        compose("velocity_flat", override.split())


def number(text: str) -> float:
    return float(text.replace("\N{MINUS SIGN}", "-"))


@pytest.mark.parametrize("task", [t.name for t in list_tasks()])
def test_tables_of_the_tasks_agree_with_their_configuration(task):
    text = (ROOT / "docs" / "environments.md").read_text(encoding="utf-8")
    section = text.partition(f"\n## {task}\n")[2].partition("\n## ")[0]
    assert section, f"docs/environments.md has no section {task}"
    tables = dict(re.findall(r"### (\w+)\n\n(.*?)(?=\n#|\Z)", section, re.DOTALL))
    env = compose(task).env

    def rows(title: str) -> dict[str, list[str]]:
        lines = [x for x in tables.get(title, "").splitlines() if x.startswith("| `")]
        cells = [[c.strip() for c in re.split(r"(?<!\\)\|", x)[1:-1]] for x in lines]
        return {re.match(r"`(\w+)`", c[0]).group(1): c[1:] for c in cells}  # type: ignore[union-attr]

    weights = {name: number(cells[0]) for name, cells in rows("Rewards").items()}
    assert weights == {name: term.weight for name, term in env.rewards.items()}
    kinds = {name: cells[0] == "truncated" for name, cells in rows("Terminations").items()}
    assert kinds == {name: term.time_out for name, term in env.terminations.items()}
    modes = {name: cells[0].partition(",")[0] for name, cells in rows("Events").items()}
    assert modes == {name: term.mode for name, term in env.events.items()}
    if "Observations" in tables:
        terms = {name for _, group in env.observations.items() for name, _ in group.terms()}
        assert set(rows("Observations")) == terms


@pytest.mark.parametrize("name", cli._examples())
def test_examples_run(name, capsys):
    assert cli.main(["example", name]) == 0
    assert capsys.readouterr().out
