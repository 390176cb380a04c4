# SPDX-License-Identifier: Apache-2.0
"""A stack of two boxes: what each of them feels, from whom, with and without an extra push."""

from __future__ import annotations

import torch

from forcelab.physics import NewtonCfg
from forcelab.scene import CuboidCfg, InteractiveScene, InteractiveSceneCfg, PlaneCfg, RigidObjectCfg
from forcelab.sensors import ContactSensorCfg


class StackCfg(InteractiveSceneCfg):
    """A box of 2 kg on a box of 5 kg on the ground."""

    ground = PlaneCfg(friction=0.8)
    low = RigidObjectCfg(
        prim_path="{ENV_REGEX_NS}/Low",
        spawn=CuboidCfg(size=(0.5, 0.5, 0.3), mass=5.0),
        init_pos=(0, 0, 0.16),
    )
    top = RigidObjectCfg(
        prim_path="{ENV_REGEX_NS}/Top",
        spawn=CuboidCfg(size=(0.3, 0.3, 0.3), mass=2.0),
        init_pos=(0, 0, 0.47),
    )
    touch = ContactSensorCfg(
        prim_path="{ENV_REGEX_NS}/Low",
        filter_prim_paths_expr=["{ENV_REGEX_NS}/Top", "/World/ground"],
        track_friction_forces=True,
    )


def show(scene: InteractiveScene, title: str) -> None:
    """Print environment 0's readings, N."""
    data = scene["touch"].data
    print(title)
    for label, force in (
        ("net, all contacts", data.net_forces_w[0, 0]),
        ("  of it friction", data.net_friction_forces_w[0, 0]),
        ("from the upper box", data.force_matrix_w[0, 0, 0]),
        ("from the ground", data.force_matrix_w[0, 0, 1]),
    ):
        print(f"  {label:<20}" + "".join(f"{v:9.2f}" for v in force.tolist()))


def main() -> None:
    """Let the stack settle, push the lower box sideways, print."""
    cfg = StackCfg(num_envs=4, env_spacing=2.0)
    scene = InteractiveScene(cfg, physics=NewtonCfg(dt=0.005, gravity=(0, 0, -9.81)), device="cpu")
    scene.reset()
    for _ in range(200):
        scene.step()
    show(scene, "Forces ON the lower box at rest, world frame (x, y, z), N:")
    force = torch.tensor([10.0, 0.0, 0.0]).expand(4, 3)
    scene["low"].set_external_wrench(force, torch.zeros(4, 3))
    for _ in range(200):
        scene.step()
    show(scene, "Pushed along x with 10 N, which friction holds:")
    scene.close()


if __name__ == "__main__":
    main()
