# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import builtins
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from viewer_stand_in import HandScene

from forcelab.viewers import FrameRecorder, VisualShape, plot_gait, plot_learning_curve, read_learning_curve

FEET = ["LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT"]


def picture(path: Path) -> np.ndarray:
    image = pytest.importorskip("PIL.Image")
    return np.asarray(image.open(path).convert("RGB"))


def has_color(pixels: np.ndarray, color: str) -> int:
    wanted = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)])
    return int((np.abs(pixels.astype(int) - wanted).max(axis=2) < 6).sum())


def trot(steps: int = 100) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    times = torch.arange(steps) * 0.02
    phase = (2.0 * times.unsqueeze(1) + torch.tensor([0.0, 0.5, 0.5, 0.0])) % 1.0
    contact = phase < 0.5
    return times, contact, torch.where(contact, 70.0 * torch.sin(torch.pi * phase / 0.5), 0.0)


def test_gait_plot_shows_a_color_per_foot(tmp_path):
    pytest.importorskip("matplotlib")
    from forcelab.viewers.plots import COLORS

    times, contact, forces = trot()
    path = plot_gait(times, contact, forces, FEET, tmp_path / "deep" / "gait.png", title="Trot", command=0.5)
    pixels = picture(path)
    assert pixels.shape[1] >= 1000 and pixels.shape[0] >= 500
    for color in COLORS[:4]:
        assert has_color(pixels, color) > 2000
    # A foot that never stands has no bar.
    contact[:, 2] = False
    raised = picture(plot_gait(times, contact, torch.zeros_like(forces), FEET, tmp_path / "raised.png"))
    assert has_color(raised, COLORS[2]) < 0.5 * has_color(pixels, COLORS[2])


def test_gait_bars_lie_at_the_times_of_contact(tmp_path):
    pytest.importorskip("matplotlib")
    from forcelab.viewers.plots import COLORS

    times = np.arange(100) * 0.01
    contact = np.zeros((100, 1), dtype=bool)
    contact[50:75] = True
    pixels = picture(plot_gait(times, contact, np.zeros((100, 1)), ["foot"], tmp_path / "one.png"))
    wanted = np.array([int(COLORS[0][i : i + 2], 16) for i in (1, 3, 5)])
    match = np.abs(pixels.astype(int) - wanted).max(axis=2) < 6
    row = match[: pixels.shape[0] // 3].sum(axis=1).argmax()
    bar = np.flatnonzero(match[row])
    # The frame's left edge is at 0 s and the bar from 0.5 s to 0.75 s: as long as half the way to it.
    dark = np.flatnonzero((pixels[row] < 60).all(axis=1))
    left = dark[dark < bar[0]].max()
    assert (bar[-1] - bar[0]) / (bar[0] - left) == pytest.approx(0.5, abs=0.03)


def test_gait_velocities(tmp_path):
    pytest.importorskip("matplotlib")
    times, contact, forces = trot()
    velocity = torch.rand(100, 3)
    tall = picture(
        plot_gait(times, contact, forces, FEET, tmp_path / "v.png", command=velocity, measured=velocity)
    )
    short = picture(plot_gait(times, contact, forces, FEET, tmp_path / "s.png"))
    assert tall.shape[0] > short.shape[0]


@pytest.mark.parametrize(
    "change, message",
    [
        ({"names": FEET[:3]}, r"contact must be \(T, N\) = \(100, 3\)"),
        ({"forces": torch.zeros(100)}, r"forces must be"),
        ({"times": torch.zeros(100)}, "increasing"),
        ({"command": torch.zeros(7)}, "command must be"),
    ],
)
def test_gait_shapes_are_checked(tmp_path, change, message):
    pytest.importorskip("matplotlib")
    times, contact, forces = trot()
    options = {
        "times": times,
        "contact": contact,
        "forces": forces,
        "names": FEET,
        "path": tmp_path / "x.png",
    }
    with pytest.raises(ValueError, match=message):
        plot_gait(**{**options, **change})


def write_run(folder: Path, steps: range, start: float, offset: float = 0.0) -> None:
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    writer = tensorboard.SummaryWriter(str(folder), filename_suffix=f".{int(start)}")
    for i in steps:
        now = start + 2.0 * (i - steps.start)
        writer.add_scalar("Loss/value", 1.0, i, walltime=now)
        writer.add_scalar("Metrics/base_velocity/error_vel_xy", 1.0 / (1 + i), i, walltime=now)
        if i >= 2:  # no episode has ended before
            writer.add_scalar("Train/mean_reward", i + offset, i, walltime=now)
            writer.add_scalar("Train/mean_episode_length", 10.0 * i, i, walltime=now)
            writer.add_scalar("Train/mean_reward/time", i + offset, 1000 + i, walltime=now)
    writer.close()


def test_learning_curve_of_a_resumed_run(tmp_path):
    folder = tmp_path / "run"
    write_run(folder, range(0, 20), start=1_000_000.0)
    # Killed after iteration 19, resumed a day later from the checkpoint of iteration 15.
    write_run(folder, range(15, 30), start=1_086_400.0, offset=0.5)
    curve = read_learning_curve(folder)
    np.testing.assert_array_equal(curve["iteration"], np.arange(30))
    assert np.isnan(curve["reward"][:2]).all()
    np.testing.assert_allclose(curve["reward"][2:], [i + (0.5 if i >= 15 else 0.0) for i in range(2, 30)])
    np.testing.assert_allclose(curve["episode_length"][2:], 10.0 * np.arange(2, 30))
    np.testing.assert_allclose(
        curve["tracking_error"]["base_velocity/error_vel_xy"], 1.0 / (1 + np.arange(30)), rtol=1e-6
    )
    assert np.all(np.diff(curve["time"]) >= 0.0) and curve["time"][-1] == pytest.approx(56.0, abs=3.0)
    [first, *_] = sorted(folder.iterdir())
    assert len(read_learning_curve(first)["iteration"]) == 20

    pytest.importorskip("matplotlib")
    from forcelab.viewers.plots import COLORS

    pixels = picture(plot_learning_curve(folder, tmp_path / "curve.png", title="A run"))
    assert pixels.shape[1] >= 1000 and pixels.shape[0] >= 600 and has_color(pixels, COLORS[0]) > 500
    both = picture(plot_learning_curve([folder, curve], tmp_path / "both.png", labels=["seed 0", "seed 1"]))
    assert has_color(both, COLORS[1]) > 200


def test_learning_curve_from_arrays_alone(tmp_path):
    pytest.importorskip("matplotlib")
    path = plot_learning_curve({"iteration": range(5), "reward": torch.arange(5.0)}, tmp_path / "a.png")
    assert path.stat().st_size > 5000


def test_learning_curve_errors(tmp_path):
    pytest.importorskip("matplotlib")
    with pytest.raises(FileNotFoundError, match="event file"):
        plot_learning_curve(tmp_path, tmp_path / "a.png")
    with pytest.raises(ValueError, match="'reward' has 4 values for 5 iterations"):
        plot_learning_curve({"iteration": range(5), "reward": range(4)}, tmp_path / "a.png")
    with pytest.raises(ValueError, match="hold no reward"):
        plot_learning_curve({"iteration": range(5)}, tmp_path / "a.png")
    with pytest.raises(ValueError, match="2 labels for 1 runs"):
        plot_learning_curve(
            {"iteration": range(5), "reward": range(5)}, tmp_path / "a.png", labels=["a", "b"]
        )


@pytest.fixture
def without_extra(monkeypatch):
    """Python as it is without the extra ``viewer``."""
    gone = ("matplotlib", "imageio_ffmpeg", "PIL")
    for name in list(sys.modules):
        if name.partition(".")[0] in gone:
            monkeypatch.delitem(sys.modules, name)
    real = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.partition(".")[0] in gone:
            raise ModuleNotFoundError(f"No module named {name!r}")
        return real(name, *args, **kwargs)

    class Refuser:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name.partition(".")[0] in gone:
                raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(builtins, "__import__", refuse)
    monkeypatch.setattr(sys, "meta_path", [Refuser, *sys.meta_path])


def test_plots_without_the_extra_name_it(without_extra, tmp_path):
    times, contact, forces = trot()
    with pytest.raises(ImportError, match=r'pip install "forcelab\[viewer\]"'):
        plot_gait(times, contact, forces, FEET, tmp_path / "a.png")
    with pytest.raises(ImportError, match=r"forcelab\[viewer\]"):
        plot_learning_curve({"iteration": range(5), "reward": range(5)}, tmp_path / "a.png")


def test_videos_without_the_extra_name_it(gl, without_extra, tmp_path):
    scene = HandScene([VisualShape("b", "sphere", (0.1,))], {"b": (0, 0, 0, 0, 0, 0, 1)})
    with FrameRecorder(scene, width=32, height=32) as recorder:
        assert recorder.capture().shape == (32, 32, 3)  # drawing itself needs no extra
        for save in (
            lambda: recorder.save_video(tmp_path / "a.mp4"),
            lambda: recorder.save_video(tmp_path / "a.gif"),
            lambda: recorder.save_frames(tmp_path / "frames"),
        ):
            with pytest.raises(ImportError, match=r'pip install "forcelab\[viewer\]"'):
                save()
