# SPDX-License-Identifier: Apache-2.0
"""Ranks choose device and seed."""

from __future__ import annotations

import pytest

from forcelab.learning.distributed import Ranks, draw_seed


def test_single_process():
    ranks = Ranks.from_environ({})
    assert (ranks.world_size, ranks.is_main, ranks.is_distributed) == (1, True, False)
    assert ranks.device("cpu") == "cpu"
    assert ranks.device("cuda") == "cuda:0"
    assert ranks.device("cuda:3") == "cuda:3"
    assert ranks.seed(7) == 7


def test_local_rank_chooses_the_device_and_global_rank_the_seed():
    ranks = Ranks.from_environ({"LOCAL_RANK": "1"})
    assert ranks.device("cuda:0") == "cuda:1"
    assert ranks.seed(42) == 43
    assert not ranks.is_main

    second_machine = Ranks.from_environ({"LOCAL_RANK": "1", "RANK": "3", "WORLD_SIZE": "4"})
    assert second_machine.device("cuda") == "cuda:1"
    assert second_machine.device("cpu") == "cpu"
    assert second_machine.seed(42) == 45
    assert second_machine.is_distributed


def test_bad_variables():
    with pytest.raises(ValueError, match="LOCAL_RANK must be a whole number, found 'one'"):
        Ranks.from_environ({"LOCAL_RANK": "one"})
    with pytest.raises(ValueError, match="do not fit together"):
        Ranks.from_environ({"LOCAL_RANK": "0", "RANK": "4", "WORLD_SIZE": "2"})


def test_drawn_seeds_differ():
    assert len({draw_seed() for _ in range(8)}) > 1
