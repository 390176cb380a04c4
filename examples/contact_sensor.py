# SPDX-License-Identifier: Apache-2.0
"""A quadruped with a front foot on a loose cube: what its feet feel, and what of it comes from the cube."""

from __future__ import annotations

from forcelab.assets import ArticulationCfg, RigidObjectCfg
from forcelab.examples import _options
from forcelab.physics import NewtonCfg
from forcelab.scene import CuboidCfg, InteractiveScene, InteractiveSceneCfg, MjcfCfg, PdActuatorCfg, PlaneCfg
from forcelab.sensors import ContactSensorCfg


class ContactSensorSceneCfg(InteractiveSceneCfg):
    """A robot, a cube and three contact sensors."""

    ground = PlaneCfg()
    robot = ArticulationCfg(
        prim_path="{ENV_REGEX_NS}/Robot",
        spawn=MjcfCfg("quadruped.xml"),
        init_pos=(0.0, 0.0, 0.55),
        init_joint_pos={".*_HFE": 0.68, ".*_KFE": -1.30},
        actuators={"legs": PdActuatorCfg(stiffness=200.0, damping=8.0)},
    )
    # Loose, and low enough to stand on with the left front foot.
    object = RigidObjectCfg(
        prim_path="{ENV_REGEX_NS}/Object",
        spawn=CuboidCfg(size=(0.2, 0.2, 0.04), mass=2.0),
        init_pos=(0.32, 0.19, 0.02),
    )

    left_foot_contact = ContactSensorCfg(
        prim_path="{ENV_REGEX_NS}/Robot/LF_FOOT",
        update_period=0.0,
        history_length=6,
        filter_prim_paths_expr=["{ENV_REGEX_NS}/Object"],
        track_air_time=True,
    )
    right_foot_contact = ContactSensorCfg(
        prim_path="{ENV_REGEX_NS}/Robot/RF_FOOT",
        update_period=0.0,
        history_length=6,
        filter_prim_paths_expr=["{ENV_REGEX_NS}/Object"],
        track_air_time=True,
    )
    hind_feet_contact = ContactSensorCfg(
        prim_path="{ENV_REGEX_NS}/Robot/.*H_FOOT", update_period=0.0, history_length=6, track_air_time=True
    )


def main(argv: list[str] | None = None) -> None:
    """Stand, and print mean norms of normal forces as it runs. Options: num_envs, max_steps, log_interval, device."""
    options = _options.read(argv, num_envs=4, max_steps=400, log_interval=100, device="cpu")
    scene = InteractiveScene(
        ContactSensorSceneCfg(num_envs=options.num_envs, env_spacing=2.0),
        physics=NewtonCfg(dt=0.005),
        device=options.device,
    )
    print(f"{'step':>6}  mean normal force [N]")
    for step in range(1, options.max_steps + 1):
        scene.step()
        if step % options.log_interval:
            continue
        # Net forces are (E, S, 3), matrices (E, S, F, 3): environments, sensing bodies, filters.
        left = scene["left_foot_contact"].data.net_normal_forces_w.torch.norm(dim=-1).mean()
        left_on_cube = scene["left_foot_contact"].data.normal_force_matrix_w.torch.norm(dim=-1).mean()
        right = scene["right_foot_contact"].data.net_normal_forces_w.torch.norm(dim=-1).mean()
        right_on_cube = scene["right_foot_contact"].data.normal_force_matrix_w.torch.norm(dim=-1).mean()
        hind = scene["hind_feet_contact"].data.net_normal_forces_w.torch.norm(dim=-1).mean()
        print(
            f"{step:>6}  left front {left:7.2f} (cube {left_on_cube:7.2f})   right front {right:7.2f} "
            f"(cube {right_on_cube:7.2f})   each hind foot {hind:7.2f}"
        )
    scene.close()


if __name__ == "__main__":
    main()
