"""What is measured between ranks."""

from __future__ import annotations

import pytest

from atcpy.passes.collective_costs import cheapest
from atcpy.runtime.distributed.network import measure_network
from atcpy.runtime.distributed.simulated_world import run_simulated


@pytest.mark.slow
def test_the_numbers_predict_what_was_measured() -> None:
    found = run_simulated(measure_network, 2)
    for network in found:
        assert network.ranks == 2
        assert 0 < network.alpha < 1
        assert 0 <= network.beta < 1e-3
        assert 0 < network.gamma < 1e-3
        assert 1e6 < network.speed < 1e15
        assert cheapest("HcomAllReduce", 4, network).seconds(4) < cheapest("HcomAllReduce", 1 << 20, network).seconds(
            1 << 20
        )
