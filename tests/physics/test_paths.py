# SPDX-License-Identifier: Apache-2.0
"""Selection of bodies and shapes by expression, against a naive reference and by example."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from forcelab.physics.paths import BodyIndex, find_names, in_environment

NS = "{ENV_REGEX_NS}"
PROPERTY = settings(max_examples=150, deadline=None, derandomize=True)

# Few letters, so that expressions hit.
words = st.text("abAB_0", min_size=1, max_size=4)
names = st.lists(words, min_size=1, max_size=8, unique=True)
atoms = st.one_of(words, st.sampled_from([".*", ".", "a?", "[ab]+", "(a|b)", "[^_]*", "_.+"]))
expressions = st.lists(atoms, min_size=1, max_size=3).map("".join) | st.tuples(atoms, atoms).map("|".join)


def hits(expression: str, name: str) -> bool:
    return re.compile(rf"(?:{expression})\Z").match(name) is not None


@PROPERTY
@given(names, st.lists(expressions, min_size=1, max_size=4), st.booleans())
def test_names_are_found_as_a_plain_loop_finds_them(pool: list[str], keys: list[str], ordered: bool) -> None:
    """Full matches, each name once; by the keys' order or by the names'; ids and names correspond."""
    expected: list[str] = []
    for key in keys:
        found = [n for n in pool if hits(key, n)]
        if not found:
            with pytest.raises(ValueError, match=re.escape(repr(key))):
                find_names(keys, pool, ordered, "joint of 'robot'")
            return
        expected += [n for n in found if n not in expected]
    if not ordered:
        expected = [n for n in pool if n in expected]
    ids, got = find_names(keys, pool, ordered, "joint of 'robot'")
    assert got == expected and [pool[i] for i in ids] == got
    if len(keys) == 1:
        assert find_names(keys[0], pool, ordered, "joint") == (ids, got)


@PROPERTY
@given(names, st.permutations(range(8)))
def test_a_list_of_all_names_in_any_order(pool: list[str], shuffle: list[int]) -> None:
    keys = [re.escape(pool[i]) for i in shuffle if i < len(pool)]
    ids, got = find_names(keys, pool, True, "joint")
    assert got == [re.sub(r"\\(.)", r"\1", k) for k in keys] and [pool[i] for i in ids] == got
    assert find_names(keys, pool, False, "joint") == (list(range(len(pool))), pool)


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """Flat and tree paths of a random robot."""
    pool = draw(names)
    tree: list[str] = []
    for i, name in enumerate(pool):
        above = draw(st.integers(-1, i - 1))
        tree.append(f"R/{name}" if above < 0 else f"{tree[above]}/{name}")
    return [f"R/{n}" for n in pool], tree


@PROPERTY
@given(trees(), expressions)
def test_bodies_are_found_at_any_depth_each_once(robot: tuple[list[str], list[str]], expression: str) -> None:
    flat, tree = robot
    index = BodyIndex(flat, tree)
    pattern = f"R/{expression}" if "|" not in expression else f"R/({expression})"
    expected = [f for f, t in zip(flat, tree) if hits(pattern, f) or hits(pattern, t)]
    path = f"{NS}/{pattern}"
    if expected:
        assert index.sensing(path, "prim_path") == expected
        assert index.partners(path, "filter") == expected
    else:
        with pytest.raises(ValueError, match=r"prim_path .*(no rigid body|below it)"):
            index.sensing(path, "prim_path")
    # A body's own paths name it, whatever else they name.
    for f, t in zip(flat, tree):
        assert f in index.sensing(f"{NS}/{re.escape(f)}", "x") and f in index.sensing(
            f"{NS}/{re.escape(t)}", "x"
        )


@PROPERTY
@given(
    trees(), st.lists(st.tuples(st.integers(0, 7), words), min_size=1, max_size=8, unique=True), expressions
)
def test_shapes_are_found_by_both_paths_of_their_body(
    robot: tuple[list[str], list[str]], parts: list[tuple[int, str]], expression: str
) -> None:
    flat, tree = robot
    parts = [(b, n) for b, n in parts if b < len(flat)]
    assume(parts)
    shapes = [f"{flat[b]}/{n}" for b, n in parts]
    index = BodyIndex(flat, tree, ["/World/ground"], shapes, ["/World/ground/0"])
    for own in (flat, tree):
        b = parts[0][0]
        path = f"{NS}/{re.escape(own[b])}/({expression})"
        expected = [
            s
            for s, (k, n) in zip(shapes, parts)
            if hits(f"{re.escape(own[b])}/({expression})", s)
            or hits(f"{re.escape(own[b])}/({expression})", f"{tree[k]}/{n}")
        ]
        if expected:
            assert index.partner_shapes(path, "filter") == expected
        else:
            with pytest.raises(ValueError, match="matches no collision shape"):
                index.partner_shapes(path, "filter")
        on_body = [s for s in expected if s.rsplit("/", 1)[0] == flat[b]]
        if on_body:
            assert index.sensing_shapes(path, [flat[b]], "shape") == on_body
        else:
            with pytest.raises(ValueError, match="shape"):
                index.sensing_shapes(path, [flat[b]], "shape")


ROBOT = BodyIndex(
    ["Robot/base", "Robot/leg", "Robot/foot", "Other/base", "Cup"],
    ["Robot/base", "Robot/base/leg", "Robot/base/leg/foot", "Other/base", "Cup"],
    ["/World/ground", "/World/wall"],
    ["Robot/base/0", "Robot/foot/ball", "Cup/0"],
    ["/World/ground/0", "/World/wall/0"],
)


@pytest.mark.parametrize(
    ("path", "below"),
    [
        ("Robot", ["Robot/base", "Robot/leg", "Robot/foot"]),
        ("Robot/", ["Robot/base", "Robot/leg", "Robot/foot"]),
        ("Robot|Other", ["Robot/base", "Robot/leg", "Robot/foot", "Other/base"]),
        ("(?i)ROBOT", ["Robot/base", "Robot/leg", "Robot/foot"]),
    ],
)
def test_a_path_above_bodies_lists_them(path: str, below: list[str]) -> None:
    with pytest.raises(ValueError, match=r"scene\.touch\.prim_path") as error:
        ROBOT.sensing(f"{NS}/{path}", "scene.touch.prim_path")
    listed = str(error.value).rpartition("below it: ")[2].rstrip(".").split(", ")
    assert listed == [f"{NS}/{b}" for b in below]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("Robot/fot", "Did you mean 'Robot/foot'"),
        ("Robot/foot/", "Did you mean 'Robot/foot'"),
        ("Robot/fo", "Did you mean 'Robot/foot'"),
        ("xyz", "Known: 'Robot/base', 'Robot/leg', 'Robot/foot', 'Other/base', 'Cup'"),
    ],
)
def test_a_path_to_nothing_gives_near_names(path: str, expected: str) -> None:
    with pytest.raises(ValueError, match=f"prim_path '.*' matches no rigid body. {expected}"):
        ROBOT.sensing(f"{NS}/{path}", "prim_path")


def test_partners_are_bodies_or_static_geometry() -> None:
    assert ROBOT.partners("/World/ground", "x") == ["/World/ground"]
    assert ROBOT.partners("/World/.*", "x") == ["/World/ground", "/World/wall"]
    assert ROBOT.partner_shapes("/World/.*/0", "x") == ["/World/ground/0", "/World/wall/0"]
    with pytest.raises(
        ValueError, match=r"x '/World/groud' matches neither a body .* Did you mean '/World/ground'"
    ):
        ROBOT.partners("/World/groud", "x")
    with pytest.raises(ValueError, match=r"x: '.*' is not a regular expression"):
        ROBOT.partners("/World/(", "x")


@pytest.mark.parametrize(
    "path", [f"{NS}/A/b", "/World/envs/env_.*/A/b", "/World/envs/env_[0-9]+/A/b", r"/World/envs/env_\d+/A/b"]
)
def test_the_namespace_has_several_spellings(path: str) -> None:
    assert in_environment(path, "x") == "A/b"


@pytest.mark.parametrize(
    "path", ["A/b", "/A/b", "/World/envs/env_0/A", NS, f"{NS}/", "/World/envs/env_.*", "", None, 3]
)
def test_a_path_outside_of_the_namespace_is_refused(path: object) -> None:
    with pytest.raises(ValueError, match=r"scene.a.prim_path is .*(must begin with|give a path)"):
        in_environment(path, "scene.a.prim_path")  # type: ignore[arg-type]


@pytest.mark.parametrize("keys", [5, None, True, [5], [None], b"LF_FOOT"])
def test_a_key_that_is_no_text_is_named(keys: object) -> None:
    with pytest.raises(TypeError, match=r"body of 'robot': .* is no name; give an expression"):
        find_names(keys, ["LF_FOOT"], False, "body of 'robot'")  # type: ignore[arg-type]
