# SPDX-License-Identifier: Apache-2.0
"""``torchrun`` with two processes on the CPU: one run folder, one policy, two sets of environments."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from forcelab.learning import checkpoint as ckpt

# The command itself, with a look at what each process ended with.
SCRIPT = """
import os, sys
import torch
from forcelab import cli
from forcelab.learning.runner import PpoRunner

learn_until = PpoRunner.learn_until

def watched(self, *args, **kwargs):
    result = learn_until(self, *args, **kwargs)
    networks = (self.alg.actor, self.alg.critic)
    torch.save(
        {
            "weights": [x.clone() for network in networks for x in network.state_dict().values()],
            "gradients": [p.grad.clone() for network in networks for p in network.parameters()],
            "seed": self.env.unwrapped.cfg.seed,
            "torch_seed": torch.initial_seed(),
            "observations": self.env.get_observations()["policy"].clone(),
            "learning_rate": self.alg.learning_rate,
            "backend": torch.distributed.get_backend(),
        },
        os.path.join(sys.argv[1], f"rank{self.ranks.global_rank}.pt"),
    )
    return result

PpoRunner.learn_until = watched
raise SystemExit(cli.main(sys.argv[2:]))
"""


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    root = tmp_path_factory.mktemp("job")
    script = root / "script.py"
    script.write_text(SCRIPT)
    words = [
        *("train", "balance_cartpole", "num_envs=16", "device=cpu", "seed=5", f"log_root={root / 'logs'}"),
        *("agent.max_iterations=2", "agent.num_steps_per_env=8", "agent.save_interval=1"),
        *("agent.actor.obs_normalization=true", "episode_length_s=0.5"),
    ]
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*launch, str(script), str(root), *words],
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        cwd=root,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    ranks = [torch.load(root / f"rank{r}.pt", weights_only=True) for r in range(2)]
    return root, done.stdout, ranks


def test_one_run_folder_written_by_the_first_process(job):
    root, text, _ = job
    (run,) = (root / "logs" / "balance_cartpole").iterdir()
    names = sorted(p.name for p in run.iterdir() if not p.name.startswith("events"))
    # Each process keeps the state of its own environments.
    assert names == ["config.yaml", "model_1.pt", "model_2.pt", "state_2.rank0.pt", "state_2.rank1.pt"]
    assert len(list(run.glob("events*"))) == 1
    assert text.count("iteration 2/2") == 1 and text.count("Finished 2 iterations") == 1
    assert "16 environments on cpu in each of 2 processes" in text
    header = ckpt.read_checkpoint(run / "model_2.pt")["forcelab"]
    assert (header["world_size"], header["num_envs"], header["seed"]) == (2, 16, 5)


def test_the_processes_hold_the_same_policy(job):
    root, _, (first, second) = job
    for name in ("weights", "gradients"):
        assert all(torch.equal(a, b) for a, b in zip(first[name], second[name], strict=True)), name
    assert first["learning_rate"] == second["learning_rate"] and first["backend"] == "gloo"
    (run,) = (root / "logs" / "balance_cartpole").iterdir()
    saved = ckpt.read_checkpoint(run / "model_2.pt")
    state = [*saved["actor_state_dict"].values(), *saved["critic_state_dict"].values()]
    assert all(torch.equal(a, b) for a, b in zip(state, first["weights"], strict=True))


def test_the_processes_simulate_different_things(job):
    _, _, (first, second) = job
    assert (first["seed"], second["seed"]) == (5, 6)
    assert first["torch_seed"] != second["torch_seed"]
    assert first["observations"].shape == second["observations"].shape == (16, 4)
    assert not torch.equal(first["observations"], second["observations"])
