# SPDX-License-Identifier: Apache-2.0
"""Configuration of an environment. Importable without torch."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
from dataclasses import dataclass, field
from typing import Any, Literal

from forcelab.physics import checks
from forcelab.physics.errors import near
from forcelab.physics.newton_cfg import NewtonCfg
from forcelab.physics.physics_cfg import PhysicsCfg
from forcelab.scene.collection_cfg import CollectionCfg

MODES = ("auto", "required", "off")
NAN_POLICIES = ("raise", "reset", "flag")


def _empty_scene() -> CollectionCfg:
    from forcelab.scene import InteractiveSceneCfg

    return InteractiveSceneCfg()


@dataclass
class ManagerBasedRlEnvCfg:
    """Everything that makes an environment.

    A subclass may override fields by plain class attributes, annotated or not; every instance gets its
    own copies. Names that are no field are refused, in subclasses (unless annotated) and on instances.

    Attributes:
        scene: Robots, objects, terrain and sensors, and ``num_envs``.
        physics: The engine; its ``dt`` is the physics time step, s.
        decimation: Physics steps per environment step.
        episode_length_s: Time limit of an episode, s, for terms such as ``mdp.time_out``.
        seed: Seeds everything. None: one is drawn and written here.
        device: ``"cpu"``, ``"cuda:0"`` …
        observations: Observation groups by name.
        actions, commands: Action and command terms by name.
        rewards, terminations, events, curriculum, metrics: Terms by name.
        step_graph: Whether a step on CUDA is captured as a graph. ``"auto"``: as far as its terms allow; those
            that cannot be captured run by themselves, with one warning. ``"required"``: such a term is an
            error, also on the CPU, where only physics is captured. ``"off"``: physics alone.
        validate: Read checks from the device at once on CUDA as well (slow; the CPU always does).
        final_obs: Give the observations at the end of episodes in ``info["final_obs"]``.
        nan_policy: What happens when state, rewards or observations of an environment are not finite.
            ``"raise"``: an error that names environment and term, at once on the CPU and with
            ``validate``, otherwise from ``pop_logs()``. ``"reset"``: the environment is terminated and
            reset, with reward 0. ``"flag"``: nothing but a warning from ``pop_logs()``.
    """

    scene: CollectionCfg = field(default_factory=_empty_scene)
    physics: PhysicsCfg = field(default_factory=NewtonCfg)
    decimation: int = 1
    episode_length_s: float = 20.0
    seed: int | None = None
    device: str = "cpu"
    observations: CollectionCfg = field(default_factory=CollectionCfg)
    actions: CollectionCfg = field(default_factory=CollectionCfg)
    commands: CollectionCfg = field(default_factory=CollectionCfg)
    rewards: CollectionCfg = field(default_factory=CollectionCfg)
    terminations: CollectionCfg = field(default_factory=CollectionCfg)
    events: CollectionCfg = field(default_factory=CollectionCfg)
    curriculum: CollectionCfg = field(default_factory=CollectionCfg)
    metrics: CollectionCfg = field(default_factory=CollectionCfg)
    step_graph: Literal["auto", "required", "off"] = "auto"
    validate: bool = False
    final_obs: bool = False
    nan_policy: Literal["raise", "reset", "flag"] = "raise"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        known: dict[str, Any] = {}
        for base in reversed(cls.__mro__[1:]):
            known.update({f.name: f.type for f in getattr(base, "__dataclass_fields__", {}).values()})
        annotations = dict(inspect.get_annotations(cls))
        own: dict[str, dataclasses.Field[Any]] = {}
        for name, value in list(vars(cls).items()):
            if name.startswith("_") or inspect.isroutine(value) or isinstance(value, (property, type)):
                continue
            if isinstance(value, (staticmethod, classmethod)):
                continue
            if "ClassVar" in str(annotations.get(name, "")):
                continue
            if name not in annotations:
                if name not in known:
                    raise TypeError(
                        f"{cls.__name__}.{name} is no field of an environment's configuration."
                        f"{near(name, known)} Annotate it to add a field."
                    )
                annotations[name] = known[name]
            if not isinstance(value, dataclasses.Field):
                own[name] = dataclasses.field(default_factory=functools.partial(copy.deepcopy, value))
                setattr(cls, name, own[name])
        cls.__annotations__ = annotations
        dataclass(cls)
        # dataclass() took the fields off the class; a decorator on the subclass must find them again.
        for name, entry in own.items():
            setattr(cls, name, dataclasses.field(default_factory=entry.default_factory))  # type: ignore[arg-type]

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in type(self).__dataclass_fields__ and not name.startswith("_"):
            raise AttributeError(
                f"{type(self).__name__} has no field {name!r}.{near(name, self.__dataclass_fields__)}"
            )
        object.__setattr__(self, name, value)

    def replace(self, **changes: Any) -> ManagerBasedRlEnvCfg:
        """A deep copy with some fields replaced."""
        new = copy.deepcopy(self)
        for name, value in changes.items():
            setattr(new, name, value)
        return new

    def check(self) -> None:
        """Raise ValueError, naming the field, for settings no environment can have."""
        if not isinstance(self.scene, CollectionCfg):
            raise TypeError(f"scene is {self.scene!r}; it must be an InteractiveSceneCfg.")
        if not isinstance(self.physics, PhysicsCfg):
            raise TypeError(f"physics is {self.physics!r}; it must be a NewtonCfg or an OvPhysxCfg.")
        checks.whole(getattr(self.scene, "num_envs", None), "scene.num_envs", at_least=1)
        checks.whole(self.decimation, "decimation", at_least=1)
        checks.number(self.episode_length_s, "episode_length_s", above=0.0, unit="s")
        if self.seed is not None:
            checks.whole(self.seed, "seed")
        checks.flag(self.validate, "validate")
        checks.flag(self.final_obs, "final_obs")
        if self.step_graph not in MODES:
            raise ValueError(f"step_graph is {self.step_graph!r}.{near(str(self.step_graph), MODES)}")
        if self.nan_policy not in NAN_POLICIES:
            raise ValueError(f"nan_policy is {self.nan_policy!r}.{near(str(self.nan_policy), NAN_POLICIES)}")


ManagerBasedRLEnvCfg = ManagerBasedRlEnvCfg
