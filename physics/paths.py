# SPDX-License-Identifier: Apache-2.0
"""Paths: one environment's namespace, and full-match regular expressions over body paths."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from .errors import near

ENV_REGEX_NS = "{ENV_REGEX_NS}"
_NAMESPACE = re.compile(r"^(?:\{ENV_REGEX_NS\}|/World/envs/env_(?:\.\*|\[0-9\]\+|\\d\+|\*))(?:/|$)")


def in_environment(path: str, what: str) -> str:
    """The part of ``path`` below one environment's namespace.

    Args:
        path: ``{ENV_REGEX_NS}/Robot/LF_FOOT`` or ``/World/envs/env_.*/Robot/LF_FOOT``.
        what: Where the path was found, for the error.

    Raises:
        ValueError: The path lies outside the namespace, or names a single environment.
    """
    if not isinstance(path, str) or not path:
        raise ValueError(f"{what} is {path!r}; give a path such as '{ENV_REGEX_NS}/Robot'.")
    found = _NAMESPACE.match(path)
    if found is None or found.end() == len(path):
        raise ValueError(
            f"{what} is {path!r}; it must begin with '{ENV_REGEX_NS}/' (or '/World/envs/env_.*/') and name "
            "something below it, the same in every environment."
        )
    return path[found.end() :]


def compile_regex(pattern: str, what: str) -> re.Pattern[str]:
    """Compile, with an error that says where the expression stands."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{what}: {pattern!r} is not a regular expression: {error}.") from None


class BodyIndex:
    """All bodies of one environment, found by their flat or tree paths.

    Args:
        paths: Canonical (flat) paths: ``Robot/LF_FOOT``.
        tree_paths: The same bodies by their place in the robot's tree: ``Robot/base/LF_HIP/…``.
        statics: Absolute paths of shared static geometry.
        shapes: Paths of single shapes, ``<body path>/<shape name>``.
        static_shapes: The same of static geometry, absolute.
    """

    def __init__(
        self,
        paths: Sequence[str],
        tree_paths: Sequence[str] = (),
        statics: Sequence[str] = (),
        shapes: Sequence[str] = (),
        static_shapes: Sequence[str] = (),
    ):
        self.paths = list(paths)
        self.tree_paths = list(tree_paths) or self.paths
        self.statics = list(dict.fromkeys(statics))
        self.shapes = list(shapes)
        self.static_shapes = list(static_shapes)

    def match(self, pattern: str, what: str = "path") -> list[str]:
        """Canonical paths that ``pattern`` (relative to the namespace) fully matches, each once, in order."""
        regex = compile_regex(pattern, what)
        return [
            flat
            for flat, tree in zip(self.paths, self.tree_paths)
            if regex.fullmatch(flat) or regex.fullmatch(tree)
        ]

    def _below(self, regex: re.Pattern[str]) -> list[str]:
        """Bodies with something above them that ``regex`` fully matches."""

        def above(path: str) -> list[str]:
            parts = path.split("/")
            return ["/".join(parts[:i]) for i in range(1, len(parts))]

        return [
            flat
            for flat, tree in zip(self.paths, self.tree_paths)
            if any(regex.fullmatch(p) for p in (*above(flat), *above(tree)))
        ]

    def sensing(self, path: str, what: str) -> list[str]:
        """Bodies that a sensor's ``prim_path`` names.

        Raises:
            ValueError: None; the error lists the rigid bodies below the path, or near names.
        """
        pattern = in_environment(path, what)
        found = self.match(pattern, what)
        if found:
            return found
        below = self._below(compile_regex(pattern.rstrip("/"), what))
        if below:
            names = ", ".join(f"{ENV_REGEX_NS}/{b}" for b in below)
            raise ValueError(f"{what} {path!r} is no rigid body. Rigid bodies below it: {names}.")
        raise ValueError(f"{what} {path!r} matches no rigid body.{near(pattern, self.paths)}")

    def partners(self, path: str, what: str) -> list[str]:
        """Bodies or static geometry that a filter expression names."""
        if _NAMESPACE.match(path or ""):
            return self.sensing(path, what)
        regex = compile_regex(path, what)
        found = [s for s in self.statics if regex.fullmatch(s)]
        if not found:
            raise ValueError(
                f"{what} {path!r} matches neither a body ('{ENV_REGEX_NS}/…') nor static geometry."
                f"{near(path, [*self.statics, *(f'{ENV_REGEX_NS}/{p}' for p in self.paths)])}"
            )
        return found

    def sensing_shapes(self, path: str, bodies: Sequence[str], what: str) -> list[str]:
        """Shapes of the given bodies that an expression names.

        Raises:
            ValueError: None; the shapes that there are, or near names.
        """
        regex = compile_regex(in_environment(path, what), what)
        found = self._match_shapes(regex)
        of_bodies = [s for s in found if s.rsplit("/", 1)[0] in bodies]
        if of_bodies:
            return of_bodies
        own = [f"{ENV_REGEX_NS}/{s}" for s in self.shapes if s.rsplit("/", 1)[0] in bodies]
        if found:
            raise ValueError(
                f"{what} {path!r} matches only shapes of other bodies than prim_path names ("
                f"{', '.join(f'{ENV_REGEX_NS}/{s}' for s in found[:4])}). Shapes there: {', '.join(own)}."
            )
        raise ValueError(f"{what} {path!r} matches no collision shape.{near(path, own)}")

    def partner_shapes(self, path: str, what: str) -> list[str]:
        """Shapes of bodies or of static geometry that a filter expression names."""
        if _NAMESPACE.match(path or ""):
            found = self._match_shapes(compile_regex(in_environment(path, what), what))
        else:
            regex = compile_regex(path, what)
            found = [s for s in self.static_shapes if regex.fullmatch(s)]
        if found:
            return found
        known = [*self.static_shapes, *(f"{ENV_REGEX_NS}/{s}" for s in self.shapes)]
        raise ValueError(f"{what} {path!r} matches no collision shape.{near(path, known)}")

    def _match_shapes(self, regex: re.Pattern[str]) -> list[str]:
        tree = dict(zip(self.paths, self.tree_paths))
        found = []
        for shape in self.shapes:
            body, name = shape.rsplit("/", 1)
            if regex.fullmatch(shape) or regex.fullmatch(f"{tree[body]}/{name}"):
                found.append(shape)
        return found


def find_names(
    keys: str | Sequence[str], names: Sequence[str], preserve_order: bool, what: str
) -> tuple[list[int], list[str]]:
    """Indices and names that full-match any of ``keys``.

    Args:
        preserve_order: Order by the keys instead of by ``names``.
        what: For the error: ``joint of 'robot'``.

    Raises:
        ValueError: A key matches nothing; near names are listed.
        TypeError: A key is no string.
    """
    if isinstance(keys, str):
        keys = [keys]
    if not isinstance(keys, Iterable):
        raise TypeError(f"{what}: {keys!r} is no name; give an expression, or a list of them.")
    found: list[int] = []
    for key in keys:
        if not isinstance(key, str):
            raise TypeError(f"{what}: {key!r} is no name; give an expression, or a list of them.")
        regex = compile_regex(key, what)
        hits = [i for i, n in enumerate(names) if regex.fullmatch(n)]
        if not hits:
            raise ValueError(f"No {what} matches {key!r}.{near(key, names)}")
        found += [i for i in hits if i not in found]
    if not preserve_order:
        found.sort()
    return found, [names[i] for i in found]
