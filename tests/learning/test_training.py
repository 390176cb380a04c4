# SPDX-License-Identifier: Apache-2.0
"""Training the real cart-pole: resuming, stopping, evaluating, playing, exporting."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
import time
import warnings

import pytest
import torch

from forcelab.configs import compose, from_yaml
from forcelab.envs.env_state import env_tensors, load_env_state, read_env_state
from forcelab.learning import checkpoint as ckpt
from forcelab.learning.evaluate import evaluate
from forcelab.learning.export import export_policy, ship
from forcelab.learning.inference import default_env, quiet_env_cfg
from forcelab.learning.play import play
from forcelab.learning.policy import load_policy
from forcelab.learning.train import train
from forcelab.learning.vec_env import RslRlVecEnv

TASK = "balance_cartpole"
SMALL = ["num_envs=8", "agent.num_steps_per_env=8", "episode_length_s=1.0"]
# Adaptive learning rate and normalisation both have state that resuming must restore.
SMALL += ["agent.actor.obs_normalization=true", "agent.critic.obs_normalization=true"]


def composed(*overrides, iterations=3, seed=5):
    return compose(TASK, [*SMALL, f"agent.max_iterations={iterations}", f"seed={seed}", *overrides])


def run(root, cfg, **options):
    out = io.StringIO()
    result = train(cfg, log_root=root, stream=out, **options)
    return result, out.getvalue()


def weights(path):
    data = ckpt.read_checkpoint(path)
    return {**{f"a.{k}": v for k, v in data["actor_state_dict"].items()}, **data["critic_state_dict"]}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    root = tmp_path_factory.mktemp("logs")
    result, text = run(root, composed(iterations=3))
    return root, result, text


def test_run_folder(trained):
    _, result, text = trained
    assert result.iterations == 3 and result.exit_code == 0
    assert result.checkpoint == result.run_dir / "model_3.pt"
    names = {p.name for p in result.run_dir.iterdir()}
    assert {"model_3.pt", "state_3.rank0.pt", "config.yaml"} <= names
    assert any(n.startswith("events.out.tfevents") for n in names)
    assert "iteration 3/3" in text and "env steps/s" in text and "time left" in text
    saved = from_yaml(result.run_dir / "config.yaml")
    assert saved.task == TASK and saved.env.seed == 5 and saved.agent.max_iterations == 3
    assert "Episode_Reward/alive" in result.scalars and "Episode_Termination/pole_fell" in result.scalars


def test_tensorboard_has_the_curves(trained):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        events = EventAccumulator(str(trained[1].run_dir))
        events.Reload()
    assert [e.step for e in events.Scalars("Loss/value")] == [1, 2, 3]
    assert {"Train/mean_reward", "Perf/total_fps", "Loss/learning_rate"} <= set(events.Tags()["scalars"])


def test_resuming_equals_an_uninterrupted_run(tmp_path):
    whole, _ = run(tmp_path / "whole", composed(iterations=6))
    run(tmp_path / "parts", composed(iterations=3))
    parts, text = run(tmp_path / "parts", composed(iterations=6), resume=True)
    assert "after 3 iterations" in text and "Note" not in text and "iteration 4/6" in text
    assert parts.iterations == 6 and parts.checkpoint.name == "model_6.pt"
    a, b = weights(whole.checkpoint), weights(parts.checkpoint)
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name
    same = [k for k in whole.scalars if not k.startswith("Perf/")]
    assert {k: whole.scalars[k] for k in same} == {k: parts.scalars[k] for k in same}
    optimisers = [ckpt.read_checkpoint(r.checkpoint)["optimizer_state_dict"] for r in (whole, parts)]
    assert optimisers[0]["param_groups"] == optimisers[1]["param_groups"]
    # The state is kept for the newest checkpoint only.
    assert [p.name for p in parts.run_dir.glob("state_*")] == ["state_6.rank0.pt"]


def test_resume_when_done_or_from_an_older_checkpoint(tmp_path, trained):
    root = tmp_path / "logs"
    first, _ = run(root, composed("agent.save_interval=1", iterations=2))
    again, text = run(root, composed(iterations=2), resume=True)
    assert "asks for no more" in text and again.iterations == 2
    # From an older checkpoint: a new folder, and a word about what is not restored.
    branch, text = run(root, composed(iterations=2), resume=first.run_dir / "model_1.pt")
    assert branch.run_dir != first.run_dir and branch.iterations == 2
    assert "newest checkpoint only" in text


def test_resume_with_changed_configuration_says_so(tmp_path):
    root = tmp_path / "logs"
    run(root, composed(iterations=1))
    result, text = run(root, composed("rewards.alive.weight=2.5", "num_envs=6", iterations=2), resume=True)
    assert "weight: 2.5" in text and "8 environments, now there are 6" in text
    assert (result.run_dir / "config_from_1.yaml").is_file()


def test_resume_refuses_another_task_and_other_networks(tmp_path, trained):
    _, result, _ = trained
    other = compose("velocity_flat", ["num_envs=2"])
    with pytest.raises(ckpt.CheckpointError, match=r"'balance_cartpole'.*'velocity_flat'"):
        run(tmp_path, other, resume=result.checkpoint)
    with pytest.raises(ckpt.CheckpointError, match=r"actor network .* differs from agent.actor"):
        run(tmp_path, composed("agent.actor.hidden_dims=[16]", iterations=9), resume=result.checkpoint)
    assert ckpt.list_checkpoints(result.run_dir)[-1][0] == 3


def test_first_interrupt_saves_and_names_the_way_back(tmp_path):
    out = io.StringIO()
    timer = threading.Thread(target=_interrupt_when, args=(out, "iteration 1/"), daemon=True)
    timer.start()
    cfg = composed("agent.save_interval=100000", iterations=100000)
    result = train(cfg, log_root=tmp_path, stream=out, command=["train", f"task={TASK}"])
    timer.join()
    assert result.exit_code == 130 and 0 < result.iterations < 100000
    assert result.checkpoint == result.run_dir / f"model_{result.iterations}.pt"
    assert f"forcelab train task={TASK} resume={result.run_dir}" in out.getvalue()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    more, text = run(tmp_path, composed(iterations=result.iterations + 1), resume=True)
    assert more.iterations == result.iterations + 1 and "Note" not in text


def _interrupt_when(out, text):
    while text not in out.getvalue():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)


def test_missing_wandb_is_found_before_anything_is_built(tmp_path):
    try:
        import wandb  # noqa: F401

        pytest.skip("wandb is installed")
    except ModuleNotFoundError:
        pass
    with pytest.raises(ModuleNotFoundError, match=r"agent\.logger=wandb"):
        run(tmp_path, composed("agent.logger=wandb"))
    assert not list(tmp_path.iterdir())


def test_env_state_round_trip():
    cfg = composed().env
    a, b = default_env(cfg), default_env(cfg)
    try:
        for env, seed in ((a, 1), (b, 2)):
            env.reset(seed=seed)
            for _ in range(30):
                env.step(torch.randn(8, 1))
        b.reward_manager.weights.fill_(7.0)
        assert load_env_state(b, read_env_state(a)) is None
        live = env_tensors(a)
        assert any("warm_start" in name for name in live)
        random = torch.get_rng_state()
        actions = torch.randn(20, 8, 1)
        traces = []
        for env in (a, b):
            torch.set_rng_state(random)
            traces.append([env.step(action)[:4] for action in actions])
        for x, y in zip(*traces, strict=True):
            assert torch.equal(x[0]["policy"], y[0]["policy"])
            assert all(torch.equal(p, q) for p, q in zip(x[1:], y[1:], strict=True))
        # With a configuration that was changed on purpose its numbers stay, the states are taken.
        b.reward_manager.weights.fill_(7.0)
        assert load_env_state(b, read_env_state(a), settings=False) is None
        assert (b.reward_manager.weights == 7.0).all()
        assert torch.equal(a.episode_length_buf, b.episode_length_buf)
    finally:
        a.close()
        b.close()


def test_adapter_reads_logs_once_per_rollout_and_returns_fresh_tensors():
    env = RslRlVecEnv(default_env(composed().env), rollout_length=4)
    try:
        first = env.get_observations()
        kept = first["policy"].clone()
        logs = []
        for _ in range(8):
            obs, reward, done, extras = env.step(torch.zeros(8, 1))
            assert reward.shape == done.shape == extras["time_outs"].shape == (8,)
            logs.append("log" in extras)
        assert logs == [False, False, False, True] * 2
        assert torch.equal(first["policy"], kept)
        assert env.get_observations() is obs
        buffer = env.episode_length_buf
        env.episode_length_buf = torch.arange(8)
        assert env.episode_length_buf is buffer and buffer.tolist() == list(range(8))
    finally:
        env.close()


def test_evaluate(trained):
    root, result, _ = trained
    out = io.StringIO()
    numbers = evaluate(composed(), num_envs=6, settle=0.5, log_root=root, stream=out)
    assert numbers["checkpoint"] == str(result.checkpoint) and numbers["iteration"] == 3
    assert numbers["num_envs"] == 6 and 0.0 <= numbers["terminated_percent"] <= 100.0
    assert 0.0 < numbers["mean_episode_length"] <= 1.0
    assert "velocity_error" not in numbers
    assert numbers["passed"] == (numbers["terminated_percent"] <= 5.0)
    assert "episodes terminated early" in out.getvalue() and "at most 5" in out.getvalue()
    again = evaluate(composed(), num_envs=6, settle=0.5, log_root=root, stream=io.StringIO())
    assert again == numbers
    with pytest.raises(ValueError, match=r"settle=2\.0 s must lie within the episode length, 1 s"):
        evaluate(composed(), num_envs=2, log_root=root, stream=io.StringIO())


def test_evaluation_is_quiet():
    cfg = quiet_env_cfg(compose("velocity_flat", []).env)
    assert cfg.events.push is None and cfg.events.reset_base is not None
    assert cfg.observations.policy.enable_corruption is False


def test_play_and_policies_of_other_tasks(trained, tmp_path):
    root, result, _ = trained
    out = io.StringIO()
    data = play(composed(), num_envs=2, duration=0.4, log_root=root, stream=out)
    assert len(data["times"]) == 20 and "return" in out.getvalue()
    with pytest.raises(ValueError, match="duration is -1"):
        play(composed(), duration=-1, log_root=root, stream=out)
    with pytest.raises(ValueError, match="has no velocity command"):
        play(composed(), command=[1.0, 0.0, 0.0], log_root=root, stream=out)
    with pytest.raises(ValueError, match=r"viewer='browsr' is no viewer\. Did you mean 'browser'"):
        play(composed(), viewer="browsr", log_root=root, stream=out)
    with pytest.raises(ValueError, match=r"no sensor or asset 'robt'\. Did you mean 'robot'"):
        play(composed(), plot="robt.joint_pos", log_root=root, stream=out)
    with pytest.raises(ValueError, match="both name a picture"):
        play(composed(), plot="a.png", plot_file="b.png", log_root=root, stream=out)
    for wrong in ({"video": "a.xyz"}, {"plot": "default", "plot_file": "a.xyz"}):  # before minutes of playing
        with pytest.raises(ValueError, match=r"'a\.xyz' must end in"):
            play(composed(), **wrong, log_root=root, stream=out)
    with pytest.raises(ckpt.CheckpointError, match=r"'balance_cartpole'.*'velocity_flat'"):
        play(compose("velocity_flat", ["num_envs=1"]), result.checkpoint, stream=out)


@pytest.mark.parametrize("plot", ["file", "channels"])
def test_play_plots_any_task(trained, tmp_path, plot):
    pytest.importorskip("matplotlib")
    root, _, _ = trained
    picture, table = tmp_path / "deep" / "p.png", tmp_path / "p.csv"
    what = {"plot": picture} if plot == "file" else {"plot": [["robot.joint_pos"], "robot.joint_vel"]}
    if plot != "file":
        what |= {"plot_file": picture, "plot_csv": table}
    data = play(composed(), duration=0.2, log_root=root, stream=io.StringIO(), **what)
    assert picture.stat().st_size > 10_000 and data["files"][0] == picture
    assert [len(panel.lines) for panel in data["panels"]] == [2, 2]
    if plot != "file":
        assert table.read_text().startswith("time [s],robot.joint_pos slider_to_cart [rad or m],")
        assert len(table.read_text().splitlines()) == 11


def test_play_in_the_browser_until_stopped(trained):
    pytest.importorskip("viser")
    root, _, _ = trained
    out = io.StringIO()
    thread = threading.Thread(target=_watch_page, args=(out,), daemon=True)
    thread.start()
    data = play(composed(), viewer="browser", viewer_port=0, log_root=root, stream=out)
    thread.join()
    assert len(data["times"]) > 0 and "until it is stopped" in out.getvalue()
    # With a duration it ends by itself.
    data = play(
        composed(), viewer="browser", viewer_port=0, duration=0.1, log_root=root, stream=io.StringIO()
    )
    assert len(data["times"]) == 5


def _watch_page(out):
    """Fetch the page, then interrupt."""
    import re
    import urllib.request

    while " s  " not in out.getvalue():  # a second has been played
        time.sleep(0.01)
    url = re.search(r"http://localhost:\d+", out.getvalue()).group()
    with urllib.request.urlopen(url, timeout=10) as answer:
        assert answer.status == 200
    os.kill(os.getpid(), signal.SIGINT)


def test_export_and_ship(trained, tmp_path):
    onnx = pytest.importorskip("onnx")
    from onnx.reference import ReferenceEvaluator

    _, result, _ = trained
    random = torch.get_rng_state()
    policy = load_policy(result.checkpoint)
    assert torch.equal(random, torch.get_rng_state())
    obs = torch.randn(5, 4)
    expected = policy({"policy": obs})
    paths = export_policy(result.checkpoint, tmp_path / "out")
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"policy.onnx", "policy.pt", "policy.json"}
    torch.testing.assert_close(torch.jit.load(paths["torchscript"])(obs), expected)
    onnx.checker.check_model(str(paths["onnx"]))
    got = ReferenceEvaluator(str(paths["onnx"])).run(None, {"obs": obs.numpy()})[0]
    torch.testing.assert_close(torch.from_numpy(got), expected, rtol=1e-4, atol=1e-5)
    layout = json.loads(paths["layout"].read_text())
    assert layout["input"]["size"] == 4 and layout["normalization"] == "inside the network"
    assert [(t["name"], t["start"], t["size"]) for t in layout["input"]["terms"]] == [
        ("joint_pos", 0, 2),
        ("joint_vel", 2, 2),
    ]
    assert layout["output"]["terms"][0]["joint_names"] == ["slider_to_cart"]
    assert layout["output"]["terms"][0]["scale"] == 50.0

    shipped = ship(result.checkpoint, TASK, tmp_path)
    assert shipped.stat().st_size < 50_000
    assert torch.equal(load_policy(shipped)({"policy": obs}), expected)
    with pytest.raises(ckpt.CheckpointError, match="policy only"):
        run(tmp_path / "x", composed(iterations=9), resume=shipped)
    with pytest.raises(ckpt.CheckpointError, match=r"'balance_cartpole'.*'walk'"):
        ship(result.checkpoint, "walk", tmp_path)
