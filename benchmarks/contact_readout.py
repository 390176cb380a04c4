# SPDX-License-Identifier: Apache-2.0
"""What contact forces cost: the solver's own contact rows against the engine's observables.

``python -m forcelab.benchmarks.contact_readout [device] [environments …]`` times four captured physics steps
of the standing quadruped: without contact output; with the kernel that every contact sensor uses (three
queries, one with a filter column); and with Newton's ``contact_f`` observable alone, not yet summed per body.
Each for two contact capacities per environment. All variants take turns within one run; medians are printed.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch


def main(argv: list[str]) -> None:
    """Run for the device and sizes given on the command line."""
    from forcelab.physics import ContactQuery, NewtonCfg
    from forcelab.physics import newton as adapter
    from forcelab.scene import ArticulationCfg, InteractiveSceneCfg, MjcfCfg, PdActuatorCfg, PlaneCfg
    from forcelab.scene.interactive_scene import InteractiveScene

    device = argv[0] if argv else "cpu"
    sizes = [int(a) for a in argv[1:]] or ([64] if device == "cpu" else [1024, 4096])

    class StandCfg(InteractiveSceneCfg):
        ground = PlaneCfg(friction=1.0)
        robot = ArticulationCfg(
            prim_path="{ENV_REGEX_NS}/Robot",
            spawn=MjcfCfg("quadruped.xml"),
            init_pos=(0.0, 0.0, 0.507),
            init_joint_pos={".*_HFE": 0.68, ".*_KFE": -1.30},
            actuators={"legs": PdActuatorCfg(stiffness=200.0, damping=8.0)},
        )

    def wait() -> None:
        if device != "cpu":
            torch.cuda.synchronize()

    for size, capacity in [(s, c) for s in sizes for c in (24, 60)]:
        times: dict[str, list[float]] = {}
        runs: dict[str, Callable[[], None]] = {}
        scenes = []
        launch: list[float] = []
        rounds = 50 if device != "cpu" else 10
        for kind in ("physics", "rows", "observables"):
            cfg = NewtonCfg(contact_capacity=capacity, constraint_capacity=96)
            scene = InteractiveScene(StandCfg(num_envs=size), cfg, device)
            scenes.append(scene)
            engine: Any = scene.engine
            if kind == "rows":
                # A second engine of the same description, this one with readers.
                engine = cfg.create(engine.desc, device)
                paths = engine.body_paths
                engine.add_contact_reader(ContactQuery(tuple(p for p in paths if p.endswith("FOOT"))))
                engine.add_contact_reader(ContactQuery(tuple(p for p in paths if not p.endswith("FOOT"))))
                engine.add_contact_reader(ContactQuery((paths[4],), (("/World/ground",),)))
                engine.start()
            if kind == "observables":
                solver, model = engine.solver, engine.model
                pipeline = adapter.newton.CollisionPipeline(
                    model, rigid_contact_max=solver.get_max_contact_count(), soft_contact_max=0
                )
                contacts = pipeline.contacts()
                observed = solver.observables({"contact_f"}, contacts=contacts)

                def step(engine=engine, solver=solver, contacts=contacts, observed=observed) -> None:
                    state = engine._state
                    solver.step(state, state, engine._control, contacts, engine.dt, observables=observed)

                runs[kind] = engine.compile(step)
            else:
                runs[kind] = engine.step
            for _ in range(100):
                runs[kind]()
            times[kind] = []
        for _ in range(9):
            for kind, run in runs.items():
                wait()
                start = time.perf_counter()
                for _ in range(4 * rounds):
                    run()
                launched = time.perf_counter()
                wait()
                times[kind].append((time.perf_counter() - start) * 1e3 / rounds)
                launch.append((launched - start) * 1e3 / rounds)
        medians = {k: statistics.median(v) for k, v in times.items()}
        line = ", ".join(f"{k} {v:.3f} ms ({v / medians['physics']:.3f}x)" for k, v in medians.items())
        print(
            f"{device}, {size} environments, capacity {capacity}, 4 physics steps: {line}; "
            f"host time of the launches {statistics.median(launch):.3f} ms",
            flush=True,
        )
        for scene in scenes:
            scene.close()


if __name__ == "__main__":
    main(sys.argv[1:])
