# SPDX-License-Identifier: Apache-2.0
"""Settings of the Newton engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import checks
from .errors import near
from .physics_cfg import PhysicsCfg

if TYPE_CHECKING:
    from .description import SceneDesc
    from .engine import Engine

INTEGRATORS = ("auto", "discrete", "implicitfast", "implicit", "euler")
CONES = ("elliptic", "pyramidal")


@dataclass
class NewtonCfg(PhysicsCfg):
    """Newton with its MuJoCo solver, on the CPU or CUDA.

    Attributes:
        integrator: ``discrete`` reports exact accelerations and joint wrenches while things move;
            ``implicitfast`` is faster. ``auto`` takes the first where the scene has a sensor that
            reads them, else the second; printing the scene says which.
        iterations, ls_iterations: limits of the constraint solver and its line search.
        cone: friction cone, ``elliptic`` or ``pyramidal``.
        impratio: ratio of friction to normal impedance; larger values creep less when sticking.
        contact_time_constant, contact_damping_ratio: softness of contact along the normal [s, -].
        friction_time_constant, friction_damping_ratio: the same along the tangents. A large time
            constant keeps the normal force of sliding contact steady, but friction of a coasting body
            is dry only above about 0.47 · time constant · μ · g [m/s].
        contact_impedance: how much of the constraint acts at zero depth, at full depth, and the
            full depth [m]. A soft onset gives a body depth to rest in, so that friction does not
            lift a sliding one off.
        on_overflow: ``warn`` or ``raise`` when a capacity was too small.
        capture: replay the step as a captured graph (CPU and CUDA).
    """

    integrator: str = "auto"
    iterations: int = 20
    ls_iterations: int = 20
    tolerance: float = 1e-6
    cone: str = "elliptic"
    impratio: float = 100.0
    contact_time_constant: float = 0.02
    contact_damping_ratio: float = 1.0
    friction_time_constant: float = 0.1
    friction_damping_ratio: float = 1.0
    contact_impedance: tuple[float, float, float] = (0.05, 0.95, 0.001)
    on_overflow: str = "warn"
    capture: bool = True

    def validate(self) -> None:
        super().validate()
        for key, value, known in (
            ("integrator", self.integrator, INTEGRATORS),
            ("cone", self.cone, CONES),
            ("on_overflow", self.on_overflow, ("warn", "raise")),
        ):
            if value not in known:
                raise ValueError(f"physics.{key} is {value!r}.{near(str(value), known)}")
        for key in ("iterations", "ls_iterations"):
            checks.whole(getattr(self, key), f"physics.{key}", at_least=1)
        for key in (
            "impratio",
            "tolerance",
            "contact_time_constant",
            "contact_damping_ratio",
            "friction_time_constant",
            "friction_damping_ratio",
        ):
            checks.number(getattr(self, key), f"physics.{key}", above=0.0)
        checks.flag(self.capture, "physics.capture")
        low, high, width = checks.vector(self.contact_impedance, 3, "physics.contact_impedance")
        if not (0 < low <= high < 1 and width > 0):
            raise ValueError(
                f"physics.contact_impedance is {self.contact_impedance!r}; it must be (low, high, width) with "
                "0 < low <= high < 1 and a positive width [m]."
            )

    def create(self, desc: SceneDesc, device: str) -> Engine:
        self.validate()
        from .newton import NewtonEngine

        return NewtonEngine(self, desc, device)
