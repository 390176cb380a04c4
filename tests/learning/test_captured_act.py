# SPDX-License-Identifier: Apache-2.0
"""Captured inference equals eager inference; on the CPU a traced graph stands in, which holds its tensors too."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from forcelab.configs import compose
from forcelab.learning.captured_act import CapturedAct
from forcelab.learning.inference import default_env
from forcelab.learning.runner import PpoRunner
from forcelab.learning.vec_env import RslRlVecEnv

STEPS = 8
SMALL = [
    "num_envs=8",
    f"agent.num_steps_per_env={STEPS}",
    "episode_length_s=0.2",
    "agent.actor.obs_normalization=true",
    "agent.critic.obs_normalization=true",
]


def make_runner(*overrides, device="cpu"):
    cfg = compose("balance_cartpole", [*SMALL, f"device={device}", "seed=4", *overrides])
    env = RslRlVecEnv(default_env(cfg.env), STEPS)
    torch.manual_seed(4)
    return PpoRunner(env, cfg.agent, device=device)


def record_by_tracing(infer, device):
    """Operations on the very tensors that were there when it was recorded, as in a CUDA graph."""
    state = torch.get_rng_state()
    outputs = tuple(value.clone() for value in infer())
    graph = make_fx(infer)()
    torch.set_rng_state(state)

    def replay():
        for held, value in zip(outputs, graph(), strict=True):
            held.copy_(value)

    return replay, outputs


def learn(runner, iterations):
    """Losses of each iteration and all tensors of the networks after it."""
    seen = []
    runner.learn_until(
        runner.current_learning_iteration + iterations,
        on_iteration=lambda r: seen.append(
            (
                {k: v for k, v in r.logger.last.items() if not k.startswith("Perf/")},
                [x.clone() for m in (r.alg.actor, r.alg.critic) for x in m.state_dict().values()],
            )
        ),
    )
    return seen


def assert_equal(ours, theirs):
    for (a, x), (b, y) in zip(ours, theirs, strict=True):
        assert a == b
        assert all(torch.equal(p, q) for p, q in zip(x, y, strict=True))


@pytest.mark.parametrize("std_type", ["scalar", "log"])
def test_a_recorded_graph_learns_the_same(std_type):
    results = []
    for captured in (False, True):
        runner = make_runner(f"agent.actor.distribution.std_type={std_type}")
        if captured:
            runner._act = CapturedAct(runner.alg, ["policy", "critic"], "cpu", record_by_tracing)
        results.append(learn(runner, 4))
        if captured:
            assert runner._act.captures == 1
        runner.env.close()
    assert_equal(*results)
    moved = [not torch.equal(p, q) for p, q in zip(results[0][0][1], results[0][-1][1], strict=True)]
    assert all(moved)  # also the normalisers' buffers


def test_replaced_tensors_are_seen():
    runner = make_runner()
    act = CapturedAct(runner.alg, ["policy", "critic"], "cpu", record_by_tracing)
    obs = runner.env.get_observations()

    def agrees():
        torch.manual_seed(0)
        act(obs)
        ours = vars(runner.alg.transition).copy()
        ours = {k: v.clone() for k, v in ours.items() if isinstance(v, torch.Tensor) and k != "observations"}
        params = [p.clone() for p in runner.alg.transition.distribution_params]
        torch.manual_seed(0)
        with torch.no_grad():
            runner.alg.act(obs)
        theirs = vars(runner.alg.transition)
        assert set(ours) == {"actions", "values", "actions_log_prob"}
        same = all(torch.equal(value, theirs[name]) for name, value in ours.items())
        return same and all(torch.equal(p, q) for p, q in zip(params, theirs["distribution_params"]))

    with torch.no_grad():
        assert agrees() and act.captures == 1
        normalizer = runner.alg.actor.obs_normalizer
        normalizer._std = normalizer._std * 3.0
        normalizer._mean += 0.5
        assert agrees() and act.captures == 1
        assert (normalizer._std == 3.0).all()
        runner.alg.actor.load_state_dict(runner.alg.actor.state_dict())
        assert agrees() and act.captures == 1
        layer = runner.alg.critic.mlp[0]
        layer.bias = torch.nn.Parameter(layer.bias + 1.0)
        assert agrees() and act.captures == 2
        runner.alg.actor.eval()
        assert agrees() and act.captures == 3
        obs = obs[:4]
        assert agrees() and act.captures == 4
    runner.env.close()


def test_a_failing_capture_is_said_once_and_changes_nothing():
    def refuse(infer, device):
        raise RuntimeError("operation not permitted\n when stream is capturing")

    results = []
    for captured in (False, True):
        runner = make_runner()
        if captured:
            runner._act = CapturedAct(runner.alg, ["policy", "critic"], "cpu", refuse)
            with pytest.warns(
                UserWarning, match=r"run eagerly \(operation not permitted when stream"
            ) as told:
                results.append(learn(runner, 1))
            assert len(told) == 1
        else:
            results.append(learn(runner, 1))
        runner.env.close()
    assert_equal(*results)


def test_where_it_has_no_effect_it_says_so():
    with pytest.warns(UserWarning, match="has no effect: networks on cpu run eagerly"):
        runner = make_runner("agent.capture_inference=true")
    assert not isinstance(runner._act, CapturedAct)
    runner.env.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_runner().env.close()


def test_recurrent_networks_are_refused():
    from forcelab.learning.captured_act import why_not_captured

    overrides = [f"agent.{m}.{x}" for m in ("actor", "critic") for x in ("class_name=RNNModel", "extra={}")]
    runner = make_runner(*overrides)
    assert "recurrent networks" in str(why_not_captured(runner.alg, "cuda:0"))
    runner.env.close()
    runner = make_runner()
    assert why_not_captured(runner.alg, "cuda:0") is None
    assert "torch_compile_mode" in str(why_not_captured(runner.alg, "cuda:0", compiled=True))
    runner.env.close()


@pytest.mark.gpu
@pytest.mark.parametrize("std_type", ["scalar", "log"])
def test_captured_equals_eager_on_cuda(std_type):
    results = []
    for captured in (False, True):
        runner = make_runner(
            f"agent.actor.distribution.std_type={std_type}",
            f"agent.capture_inference={str(captured).lower()}",
            device="cuda:0",
        )
        results.append(learn(runner, 3))
        if captured:
            assert runner._act.captures == 1 and not runner._act._failed
        runner.env.close()
    # Matrix products may be summed in another order inside a graph, and differences grow with the iterations.
    (a, x), (b, y) = results[0][0], results[1][0]
    assert a.keys() == b.keys()
    assert all(a[k] == pytest.approx(b[k], rel=1e-3, abs=1e-4) for k in a), (a, b)
    for p, q in zip(x, y, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-4)
    assert all(abs(v) < 1e6 for v in results[1][-1][0].values())


@pytest.mark.gpu
def test_captured_actions_follow_seeds_and_parameters_on_cuda():
    runner = make_runner("agent.capture_inference=true", device="cuda:0")
    obs = runner.env.get_observations()
    with torch.no_grad():
        for _ in range(3):
            torch.manual_seed(7)
            ours = [runner._act(obs).clone() for _ in range(3)]
            after = torch.cuda.get_rng_state("cuda:0")
            torch.manual_seed(7)
            theirs = [runner.alg.act(obs).clone() for _ in range(3)]
            assert torch.equal(after, torch.cuda.get_rng_state("cuda:0"))
            for a, b in zip(ours, theirs, strict=True):
                torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
            assert not torch.equal(ours[0], ours[1])
            for p in runner.alg.actor.parameters():
                p.mul_(1.1)
            runner.alg.actor.obs_normalizer._std = runner.alg.actor.obs_normalizer._std * 2.0
    assert runner._act.captures == 1
    runner.env.close()


@pytest.mark.gpu
def test_what_waits_is_not_captured_on_cuda():
    runner = make_runner("agent.capture_inference=true", device="cuda:0")
    distribution = runner.alg.actor.distribution
    draw = distribution.sample
    distribution.sample = lambda: draw() * float(draw().sum())
    obs = runner.env.get_observations()
    with torch.no_grad(), pytest.warns(UserWarning, match="could not be captured"):
        first = runner._act(obs)
    with torch.no_grad():
        assert runner._act(obs).shape == first.shape
    runner.env.close()
