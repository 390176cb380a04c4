# SPDX-License-Identifier: Apache-2.0
"""Selection of a robot, object or sensor of the scene, and of joints and bodies in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from forcelab.physics.errors import near


def match_names(
    keys: str | Sequence[str], names: Sequence[str], preserve_order: bool, path: str, what: str
) -> tuple[list[int], list[str]]:
    """Indices and names of the entries of ``names`` that full-match a key (a name or a regex).

    The order is that of ``names``, or with ``preserve_order`` that of the keys.

    Raises:
        ValueError: A key matches nothing, two keys match one name, or a key is no regular expression.
    """
    key_list = [keys] if isinstance(keys, str) else list(keys)
    found: dict[int, str] = {}
    for key in key_list:
        try:
            pattern = re.compile(key)
        except (re.error, TypeError) as error:
            raise ValueError(f"{path} has {key!r}, which is no regular expression: {error}.") from None
        hits = [i for i, name in enumerate(names) if name == key or pattern.fullmatch(name)]
        if not hits:
            raise ValueError(f"{path}: {key!r} matches no {what}.{near(key, names)}")
        for i in hits:
            if i in found:
                raise ValueError(
                    f"{path}: {names[i]!r} is matched by {found[i]!r} and by {key!r}; name it once."
                )
            found[i] = key
    ids = list(found) if preserve_order else sorted(found)
    return ids, [names[i] for i in ids]


@dataclass
class SceneEntityCfg:
    """A scene entity by name, with joints or bodies of it by name or full-match regular expression.

    Attributes:
        name: Name of a robot, object or sensor in the scene.
        joint_names: A name, a regex or a list of them; None selects all. After :meth:`resolve` the list
            of selected names.
        joint_ids: Filled by :meth:`resolve`: ``slice(None)`` when every joint is selected in natural
            order, else a device LongTensor. Given instead of names it selects by index.
        body_names, body_ids: The same for bodies (a contact sensor's are its sensing bodies).
        preserve_order: Keep the order of the given names instead of the entity's.
    """

    name: str
    joint_names: str | list[str] | None = None
    joint_ids: Any = field(default_factory=lambda: slice(None))
    body_names: str | list[str] | None = None
    body_ids: Any = field(default_factory=lambda: slice(None))
    preserve_order: bool = False

    def resolve(self, scene: Any, path: str = "SceneEntityCfg") -> None:
        """Look the names up in ``scene``, in place.

        Args:
            scene: The :class:`forcelab.scene.InteractiveScene`.
            path: Key path of this selection, for error messages.

        Raises:
            ValueError: The scene has no such entity, the entity has no joints or bodies, a name matches
                nothing, or names and given indices disagree.
        """
        known = list(scene.keys())
        if self.name not in known:
            raise ValueError(f"{path}.name: the scene has no {self.name!r}.{near(str(self.name), known)}")
        entity = scene[self.name]
        self._resolve_part(entity, scene.device, path, "joint", "joints")
        self._resolve_part(entity, scene.device, path, "body", "bodies")

    def _resolve_part(self, entity: Any, device: Any, path: str, part: str, plural: str) -> None:
        wanted = getattr(self, f"{part}_names")
        ids = getattr(self, f"{part}_ids")
        untouched = isinstance(ids, slice) and ids == slice(None)
        if wanted is None and untouched:
            return
        names = getattr(entity, f"{part}_names", None)
        field = f"{path}.{part}_names" if wanted is not None else f"{path}.{part}_ids"
        if names is None:
            raise ValueError(f"{field}: {self.name!r} ({type(entity).__name__}) has no {plural}.")
        if wanted is not None and not wanted:
            raise ValueError(
                f"{field} is {wanted!r}, which selects no {part}; leave it out to select all {plural}."
            )
        given = None if untouched else self._given_ids(ids, len(names), field, plural)
        if wanted is None:
            assert given is not None
            chosen, chosen_names = given, [names[i] for i in given]
        else:
            chosen, chosen_names = match_names(
                wanted, names, self.preserve_order, field, f"{part} of {self.name!r}"
            )
            if given is not None and given != chosen:
                raise ValueError(f"{field} selects {plural} {chosen}, but {path}.{part}_ids says {given}.")
        setattr(self, f"{part}_names", chosen_names)
        setattr(self, f"{part}_ids", self._device_ids(chosen, len(names), device))

    @staticmethod
    def _given_ids(ids: Any, count: int, field: str, plural: str) -> list[int]:
        if isinstance(ids, slice):
            return list(range(count))[ids]
        values = ids.tolist() if hasattr(ids, "tolist") else ids
        values = [values] if isinstance(values, int) else list(values)
        for i in values:
            if not -count <= i < count:
                raise ValueError(f"{field} has index {i}, but there are {count} {plural}.")
        return [i % count for i in values]

    @staticmethod
    def _device_ids(ids: list[int], count: int, device: Any) -> Any:
        if ids == list(range(count)):
            return slice(None)
        import torch

        return torch.tensor(ids, dtype=torch.long, device=device)
