# SPDX-License-Identifier: Apache-2.0
"""The comparison with mjlab: what it needs, and (where mjlab is installed) that both sides hold the same task."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from forcelab.benchmarks.compare_mjlab import _check_equal, main


def test_unequal_sides_are_refused() -> None:
    side = {"observations": {"actor": ["a"]}, "rewards": ["r"], "terminations": ["t"], "mass": 12.0}
    _check_equal(side, dict(side))
    with pytest.raises(RuntimeError, match="different rewards"):
        _check_equal(side, {**side, "rewards": []})
    with pytest.raises(RuntimeError, match=r"12\.0 kg"):
        _check_equal(side, {**side, "mass": 12.1})


@pytest.mark.skipif(importlib.util.find_spec("mjlab") is not None, reason="mjlab is installed")
def test_without_mjlab_it_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--num-envs", "2", "--device", "cpu", "--logs", str(tmp_path)]) == 1
    assert "Install mjlab 1.6, or give --mjlab-path" in capsys.readouterr().err


@pytest.mark.skipif(importlib.util.find_spec("mjlab") is None, reason="needs mjlab")
def test_both_sides_run(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    words = ["--num-envs", "2", "--device", "cpu", "--rounds", "1", "--steps", "2", "--warmup", "1"]
    assert main([*words, "--logs", str(tmp_path), "--output", str(out)]) == 0
    (result,) = json.loads(out.read_text())["results"]
    assert result["mjlab_step_s"] > 0 and result["forcelab_step_s"] > 0
