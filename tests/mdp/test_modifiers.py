# SPDX-License-Identifier: Apache-2.0
"""The force/torque sensor model, alone and among the modifiers of an observation term."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from forcelab import mdp
from forcelab.managers import ModifierCfg, ObservationGroupCfg, ObservationManager, ObservationTermCfg

CPU = torch.device("cpu")
DT = 0.02


def sensor(num_envs: int = 1, bodies: int = 1, **fields: Any) -> mdp.ForceTorqueSensorModel:
    cfg = mdp.ForceTorqueSensorModelCfg(**{"dt": DT, **fields})
    made = mdp.ForceTorqueSensorModel(cfg, (num_envs, 6 * bodies), CPU)
    torch.manual_seed(3)
    made.reset()
    return made


def mask(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.bool)


# -- low-pass filter


@pytest.mark.parametrize("cutoff", [0.5, 5.0, 24.0])
def test_step_response_is_the_analytic_one(cutoff: float) -> None:
    ft = sensor(cutoff_frequency=cutoff)
    assert torch.equal(ft(torch.zeros(1, 6)), torch.zeros(1, 6))
    for k in range(1, 40):
        out = ft(torch.full((1, 6), 10.0))
        expected = 10.0 * (1.0 - math.exp(-2.0 * math.pi * cutoff * k * DT))
        torch.testing.assert_close(out, torch.full((1, 6), expected), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("ratio", [0.2, 1.0, 5.0])
def test_sine_response_is_that_of_a_first_order_system(ratio: float) -> None:
    """Gain 1/√(1 + r²) and phase -atan r at r times the cut-off; at the cut-off 0.7071 (-3 dB) and -45°."""
    cutoff, dt = 4.0, 1e-4
    frequency = ratio * cutoff
    ft = sensor(cutoff_frequency=cutoff, dt=dt)
    count = round((3.0 / (2 * math.pi * cutoff) + 2.0 / frequency) / dt)
    time = torch.arange(count, dtype=torch.float64) * dt
    wave = torch.sin(2 * math.pi * frequency * time)
    out = torch.stack([ft(x.float().expand(1, 6))[0, 0] for x in wave]).double()
    tail = slice(count - round(1.0 / frequency / dt), count)
    # Fourier coefficient of the last period; a sample stands for the middle of the interval that follows it.
    turn = torch.exp(-2j * math.pi * frequency * (time[tail] + 0.5 * dt))
    response = (out[tail] * turn).mean() / (
        wave[tail] * torch.exp(-2j * math.pi * frequency * time[tail])
    ).mean()
    assert abs(response) == pytest.approx(1.0 / math.sqrt(1.0 + ratio**2), rel=0.01)
    assert math.degrees(torch.angle(response)) == pytest.approx(-math.degrees(math.atan(ratio)), abs=1.5)


def test_filter_begins_anew_in_the_reset_environments() -> None:
    ft = sensor(3, cutoff_frequency=1.0)
    ft(torch.full((3, 6), 5.0))
    ft.reset(mask(0, 1, 0))
    out = ft(torch.full((3, 6), 9.0))
    assert (out[1] == 9.0).all()  # the first value after a reset passes
    assert (out[[0, 2]] < 6.0).all()
    # Not even a value that is no number outlives the reset.
    ft(torch.full((3, 6), math.nan))
    ft.reset(mask(1, 1, 1))
    assert (ft(torch.ones(3, 6)) == 1.0).all()


# -- offset, drift, noise


def test_offset_is_uniform_and_lasts_an_episode() -> None:
    ft = sensor(4000, force_bias=3.0, torque_bias=0.3)
    zero = torch.zeros(4000, 6)
    first = ft(zero)
    assert torch.equal(ft(zero), first)
    for part, size in ((first[:, :3], 3.0), (first[:, 3:], 0.3)):
        assert part.abs().max() <= size
        assert part.mean().item() == pytest.approx(0.0, abs=0.03 * size)
        assert part.std().item() == pytest.approx(size / math.sqrt(3.0), rel=0.03)
    correlation = torch.corrcoef(first.T) - torch.eye(6)
    assert correlation.abs().max() < 0.07
    chosen = torch.arange(4000) % 2 == 0
    ft.reset(chosen)
    second = ft(zero)
    assert torch.equal(second[~chosen], first[~chosen])
    assert (second[chosen] != first[chosen]).all()


def test_noise_is_white_and_normal() -> None:
    size = (1.0, 2.0, 3.0, 0.1, 0.2, 0.3)
    ft = sensor(2000, force_noise=size[:3], torque_noise=size[3:])
    draws = torch.stack([ft(torch.ones(2000, 6)) for _ in range(20)]) - 1.0
    assert draws.mean(dim=(0, 1)).tolist() == pytest.approx([0.0] * 6, abs=0.03)
    assert draws.std(dim=(0, 1)).tolist() == pytest.approx(size, rel=0.03)
    scaled = draws / torch.tensor(size)
    assert (scaled**4).mean().item() == pytest.approx(3.0, rel=0.05)
    assert (scaled[1:] * scaled[:-1]).mean().item() == pytest.approx(0.0, abs=0.01)


def test_variance_of_the_drift_grows_with_time() -> None:
    ft = sensor(4000, force_drift=0.5, torque_drift=0.05)
    zero = torch.zeros(4000, 6)
    values = torch.stack([ft(zero) for _ in range(101)])
    assert (values[0] == 0.0).all()
    for k in (1, 10, 50, 100):
        expected = [0.5 * math.sqrt(k * DT)] * 3 + [0.05 * math.sqrt(k * DT)] * 3
        assert values[k].std(dim=0).tolist() == pytest.approx(expected, rel=0.06)
    # Increments are independent of what was before.
    steps = values[1:] - values[:-1]
    assert (steps[1:] * steps[:-1]).mean().item() == pytest.approx(0.0, abs=1e-4)
    ft.reset(torch.arange(4000) < 2000)
    values = ft(zero)
    assert (values[:2000] == 0.0).all() and (values[2000:] != 0.0).all()


def test_drift_does_not_depend_on_the_rate_of_reading() -> None:
    slow, fast = (sensor(4000, force_drift=1.0, torque_drift=1.0, dt=dt) for dt in (0.1, 0.01))
    zero = torch.zeros(4000, 6)
    for _ in range(11):
        a = slow(zero)
    for _ in range(101):
        b = fast(zero)
    assert a.std().item() == pytest.approx(1.0, rel=0.03)
    assert b.std().item() == pytest.approx(1.0, rel=0.03)


# -- saturation, order


def test_saturation_per_axis() -> None:
    ft = sensor(bodies=2, force_range=(1.0, 2.0, 3.0), torque_range=(0.1, 0.2, 0.3))
    big, small = torch.full((1, 12), 50.0), torch.full((1, 12), -0.05)
    limits = torch.tensor([[1.0, 2.0, 3.0, 0.1, 0.2, 0.3] * 2])
    assert torch.equal(ft(big), limits)
    assert torch.equal(ft(-big), -limits)
    assert torch.equal(ft(small), small)
    # Force and torque.
    # Force alone.
    ft = sensor(bodies=2, force_range=5.0)
    assert torch.equal(ft(big), torch.tensor([[5.0] * 3 + [50.0] * 3] * 2).view(1, 12))


def test_noise_and_offset_do_not_pass_the_saturation_nor_the_filter() -> None:
    ft = sensor(
        500, cutoff_frequency=1.0, force_bias=100.0, force_noise=1.0, force_drift=1.0, force_range=20.0
    )
    value = torch.full((500, 6), 3.0)
    out = [ft(value) for _ in range(50)][-1]
    assert out[:, :3].abs().max() == 20.0
    assert torch.equal(out[:, 3:], value[:, 3:])
    # The filter saw the wrench alone.
    assert torch.equal(ft._filtered.view(500, 6), value)


def test_input_is_left_as_it_was_and_outputs_keep() -> None:
    ft = sensor(2, cutoff_frequency=3.0)
    data = torch.ones(2, 6)
    first = ft(data)
    ft(data * 4.0)
    assert torch.equal(data, torch.ones(2, 6)) and torch.equal(first, data)
    assert torch.equal(sensor(2)(data), data)  # all effects off


# -- run time


def test_numbers_change_while_running() -> None:
    ft = sensor(100, torque_noise=0.1, force_range=5.0, cutoff_frequency=1.0)
    cfg, address = ft.cfg, ft.cfg.force_noise.data_ptr()
    data = torch.full((100, 6), 3.0)
    assert torch.equal(ft(data)[:, :3], data[:, :3])
    cfg.force_noise = 0.5
    assert cfg.force_noise.data_ptr() == address
    out = ft(data)
    assert out[:, 0].std().item() == pytest.approx(0.5, rel=0.4)
    assert out[:, 3].std().item() == pytest.approx(0.1, rel=0.4)
    cfg.force_noise = (0.0, 0.0, 0.7)
    out = ft(data)
    assert (out[:, :2] == 3.0).all() and (out[:, 2] != 3.0).all()
    cfg.force_range = [2.0, 1.0, 3.0]
    assert torch.equal(ft(data)[:, :2], torch.tensor([2.0, 1.0]).expand(100, 2))
    ft(data * 0.0)
    cfg.cutoff_frequency = 1e6
    assert (ft(data)[:, 1] == 1.0).all()
    with pytest.raises(ValueError, match=r"ForceTorqueSensorModelCfg\.force_range has shape \(3,\)"):
        cfg.force_range = [1.0, 2.0]
    with pytest.raises(ValueError, match=r"force_bias was off when the environment was made"):
        cfg.force_bias = 0.1
    with pytest.raises(ValueError, match="cannot become None while the environment runs"):
        cfg.force_noise = None


def test_a_copied_configuration_of_a_running_model() -> None:
    ft = sensor(2, force_range=5.0, cutoff_frequency=1.0, force_bias=(1.0, 0.0, 0.0))
    again = mdp.ForceTorqueSensorModel(copy.deepcopy(ft.cfg), (2, 6), CPU)
    again.cfg.force_range = 7.0
    data = torch.full((2, 6), 9.0)
    assert torch.equal(again(data)[:, 1:3], torch.full((2, 2), 7.0))
    assert torch.equal(ft(data)[:, 1:3], torch.full((2, 2), 5.0))


def test_same_seed_same_draws() -> None:
    def run() -> torch.Tensor:
        torch.manual_seed(5)
        ft = sensor(3, force_noise=1.0, torque_bias=1.0, force_drift=1.0)
        return torch.stack([ft(torch.zeros(3, 6)) for _ in range(4)])

    assert torch.equal(run(), run())


# -- bad parameters


@pytest.mark.parametrize(
    "fields, message",
    [
        (
            {"force_noise": -1.0},
            r"ForceTorqueSensorModelCfg\.force_noise is -1\.0; it must be a finite number",
        ),
        ({"torque_drift": math.nan}, r"ForceTorqueSensorModelCfg\.torque_drift is nan"),
        ({"force_drift": math.inf}, r"ForceTorqueSensorModelCfg\.force_drift is inf"),
        ({"force_bias": "much"}, r"ForceTorqueSensorModelCfg\.force_bias is 'much'"),
        ({"force_bias": None}, r"ForceTorqueSensorModelCfg\.force_bias is None"),
        ({"torque_bias": (1.0, -1.0, 0.0)}, r"ForceTorqueSensorModelCfg\.torque_bias is -1\.0"),
        ({"force_noise": (1.0, 2.0)}, r"force_noise is \(1\.0, 2\.0\); give one number, or three"),
        ({"torque_range": -2.0}, r"ForceTorqueSensorModelCfg\.torque_range is -2\.0"),
        ({"cutoff_frequency": 0.0}, r"ForceTorqueSensorModelCfg\.cutoff_frequency is 0\.0.*Hz"),
        ({"cutoff_frequency": (1.0, 2.0)}, r"ForceTorqueSensorModelCfg\.cutoff_frequency is \(1\.0, 2\.0\)"),
        ({"cutoff_frequency": 5.0, "dt": 0.0}, r"ForceTorqueSensorModelCfg\.dt is 0\.0"),
        (
            {"force_drift": 5.0, "dt": None},
            r"ForceTorqueSensorModelCfg\.dt is None; .* time between observations",
        ),
        ({"params": {"force_nois": 0.1}}, r"params has 'force_nois', .* Did you mean 'force_noise'"),
    ],
)
def test_bad_fields(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sensor(**fields)


@pytest.mark.parametrize("shape", [(2, 9), (2, 3, 6)])
def test_data_that_are_no_wrenches(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"the data have shape \(2, .*wrenches \(E, 6·n\)"):
        mdp.ForceTorqueSensorModel(mdp.ForceTorqueSensorModelCfg(force_noise=0.1), shape, CPU)


def test_bad_configurations() -> None:
    with pytest.raises(TypeError, match="configured by a ForceTorqueSensorModelCfg, not a ModifierCfg"):
        mdp.ForceTorqueSensorModel(ModifierCfg(mdp.ForceTorqueSensorModel), (2, 6), CPU)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="cutof"):
        mdp.ForceTorqueSensorModelCfg(cutof=1.0)  # type: ignore[call-arg]


# -- in the observation manager


def manager(value: Callable[[], torch.Tensor], modifiers: list[Any]) -> ObservationManager:
    env = SimpleNamespace(
        num_envs=3, device=CPU, step_dt=DT, scene=SimpleNamespace(keys=lambda: [], device=CPU)
    )

    def wrench(env: Any) -> torch.Tensor:
        return value()

    group = ObservationGroupCfg()
    group.wrench = ObservationTermCfg(func=wrench, modifiers=modifiers)
    return ObservationManager({"policy": group}, env)


def test_as_a_modifier_it_takes_the_step_time_of_the_environment() -> None:
    now = torch.zeros(3, 6)
    cfg = mdp.ForceTorqueSensorModelCfg(cutoff_frequency=2.0)
    observations = manager(lambda: now, [cfg])
    assert cfg.dt == DT
    observations.compute(update_history=True)
    now.fill_(1.0)
    for k in (1, 2, 3):
        out = observations.compute(update_history=True)["policy"]
        expected = 1.0 - math.exp(-2.0 * math.pi * 2.0 * k * DT)
        torch.testing.assert_close(out, torch.full((3, 6), expected), rtol=1e-4, atol=1e-5)


def test_unchosen_environments_keep_their_state() -> None:
    now = torch.zeros(3, 6)
    observations = manager(
        lambda: now, [mdp.ForceTorqueSensorModelCfg(cutoff_frequency=2.0, force_drift=1.0)]
    )
    observations.compute(update_history=True)
    now.fill_(1.0)
    before = observations.compute(update_history=True)["policy"]
    chosen = mask(0, 1, 0)
    observations.reset(chosen)
    after = observations.compute(update_history=True, env_mask=chosen)["policy"]
    assert torch.equal(after[[0, 2]], before[[0, 2]])
    assert (after[1] == 1.0).all()


def test_errors_name_the_modifier() -> None:
    with pytest.raises(ValueError) as caught:
        manager(lambda: torch.zeros(3, 6), [mdp.ForceTorqueSensorModelCfg(force_noise=-1.0)])
    assert "observations.policy.wrench.modifiers[0]" in "".join(caught.value.__notes__)
