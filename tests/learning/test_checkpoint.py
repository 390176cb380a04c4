# SPDX-License-Identifier: Apache-2.0
"""Checkpoint files: atomic writing, finding, and errors that say what is wrong."""

from __future__ import annotations

import copy
import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from forcelab.learning import checkpoint as ckpt

LAYOUT = {
    "policy_groups": ["policy"],
    "observations": {
        "policy": [
            {"name": "joint_pos", "size": 2, "scale": None, "clip": None, "history_length": 0},
            {"name": "joint_vel", "size": 2, "scale": 0.1, "clip": None, "history_length": 0},
        ]
    },
    "actions": [{"name": "effort", "size": 1, "joint_names": ["slider"], "scale": 1.0, "offset": 0.0}],
}


def data(task="balance", iteration=3):
    header = {"format": ckpt.FORMAT, "task": task, "iteration": iteration, "layout": LAYOUT}
    return {"forcelab": header, "actor_state_dict": {"w": torch.arange(3.0)}, "iter": iteration}


def make_run(folder, iterations, task="balance"):
    for i in iterations:
        ckpt.save_atomic(data(task, i), ckpt.model_path(folder, i))
    return folder


def test_round_trip_and_no_temporary_files(tmp_path):
    path = tmp_path / "model_3.pt"
    ckpt.save_atomic(data(), path)
    back = ckpt.read_checkpoint(path)
    assert torch.equal(back["actor_state_dict"]["w"], torch.arange(3.0))
    assert [p.name for p in tmp_path.iterdir()] == ["model_3.pt"]


def test_failed_write_keeps_the_old_file(tmp_path):
    path = tmp_path / "model_3.pt"
    ckpt.save_atomic(data(), path)
    before = path.read_bytes()

    class Unpicklable:
        def __reduce__(self):
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        ckpt.save_atomic({"x": torch.zeros(1000), "y": Unpicklable()}, path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model_3.pt"]


def test_killed_while_writing_leaves_a_readable_checkpoint(tmp_path):
    code = (
        "import sys, torch\n"
        "from forcelab.learning import checkpoint as ckpt\n"
        f"path = {str(tmp_path / 'model_1.pt')!r}\n"
        "header = {'format': 1, 'task': 't', 'iteration': 1, 'layout': {}}\n"
        "i = 0\n"
        "while True:\n"
        "    i += 1\n"
        "    value = torch.full((400_000,), float(i))\n"
        "    ckpt.save_atomic({'forcelab': header, 'actor_state_dict': {'w': value}}, path)\n"
        "    print('saved', flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "saved"
    time.sleep(0.03)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    value = ckpt.read_checkpoint(tmp_path / "model_1.pt")["actor_state_dict"]["w"]
    assert (value == value[0]).all()
    assert [p.name for _, p in ckpt.list_checkpoints(tmp_path)] == ["model_1.pt"]


def test_checkpoints_are_listed_by_number(tmp_path):
    make_run(tmp_path, (100, 20, 3))
    (tmp_path / ".model_200.pt.abc.tmp").write_bytes(b"half")
    assert [i for i, _ in ckpt.list_checkpoints(tmp_path)] == [3, 20, 100]


def test_find(tmp_path):
    root = tmp_path / "logs"
    old = make_run(root / "exp" / "2026-01-01_a", (5, 10))
    time.sleep(0.02)
    new = make_run(root / "exp" / "2026-01-02_b", (2,))
    find = lambda which: ckpt.find_checkpoint(which, experiment="exp", log_root=root)  # noqa: E731
    assert find("latest") == new / "model_2.pt"
    assert find("2026-01-01_a") == old / "model_10.pt"
    assert find(".*_a") == old / "model_10.pt"
    assert find(old / "model_5.pt") == old / "model_5.pt"
    assert find(old) == old / "model_10.pt"


def test_find_says_where_and_what_there_is(tmp_path):
    root = tmp_path / "logs"
    make_run(root / "exp" / "2026-01-01_a", (5,))
    with pytest.raises(ckpt.CheckpointError, match=r"no run with a checkpoint in .*other.*Experiments.*exp"):
        ckpt.find_checkpoint("latest", experiment="other", log_root=root)
    with pytest.raises(ckpt.CheckpointError, match=r"No run '2026-01-01_b'.*Did you mean '2026-01-01_a'"):
        ckpt.find_checkpoint("2026-01-01_b", experiment="exp", log_root=root)
    with pytest.raises(ckpt.CheckpointError, match=r"model_6.pt.*Did you mean 'model_5.pt'"):
        ckpt.find_checkpoint(root / "exp" / "2026-01-01_a" / "model_6.pt")
    with pytest.raises(ckpt.CheckpointError, match="No pretrained policy is shipped for task 'nothing'"):
        ckpt.find_checkpoint("pretrained", task="nothing")


@pytest.mark.parametrize("damage", ["truncate", "text", "foreign", "newer"])
def test_unreadable_files(tmp_path, damage):
    path = tmp_path / "model_1.pt"
    ckpt.save_atomic(data(), path)
    match = "damaged"
    if damage == "truncate":
        path.write_bytes(path.read_bytes()[:200])
    elif damage == "text":
        path.write_text("hello")
    elif damage == "foreign":
        torch.save({"model_state_dict": {}}, path)
        match = "not written by forcelab"
    else:
        newer = data()
        newer["forcelab"]["format"] = ckpt.FORMAT + 1
        ckpt.save_atomic(newer, path)
        match = "newer forcelab"
    with pytest.raises(ckpt.CheckpointError, match=match) as info:
        ckpt.read_checkpoint(path)
    assert str(path) in str(info.value)


def test_other_task_names_both():
    with pytest.raises(ckpt.CheckpointError, match=r"'balance'.*'walk'"):
        ckpt.check_task(data()["forcelab"], "walk", "x.pt")


def test_layout_mismatch_names_terms_and_tasks():
    header = data()["forcelab"]
    ckpt.check_layout(header, copy.deepcopy(LAYOUT), "balance", "x.pt")

    wider = copy.deepcopy(LAYOUT)
    wider["observations"]["policy"][1]["size"] = 3
    with pytest.raises(
        ckpt.CheckpointError, match="joint_vel: size is 2 in the checkpoint, 3 in the environ"
    ):
        ckpt.check_layout(header, wider, "balance", "x.pt")

    other = copy.deepcopy(LAYOUT)
    other["observations"]["policy"][0]["name"] = "base_height"
    with pytest.raises(ckpt.CheckpointError, match=r"'balance'.*'walk'") as info:
        ckpt.check_layout(header, other, "walk", "x.pt")
    assert "the checkpoint has joint_pos" in str(info.value)
    assert "the environment has base_height" in str(info.value)

    joints = copy.deepcopy(LAYOUT)
    joints["actions"][0]["joint_names"] = ["hinge"]
    with pytest.raises(ckpt.CheckpointError, match=r"joint_names is \['slider'\] in the checkpoint"):
        ckpt.check_layout(header, joints, "balance", "x.pt")
