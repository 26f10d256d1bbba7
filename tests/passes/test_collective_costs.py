"""What collectives take: the formulas are the algorithms' messages added up, and the cheapest is taken."""

from __future__ import annotations

import pytest

from atcpy.options import Network
from atcpy.passes.collective_costs import algorithms, cheapest


def step(network: Network, nbytes: float, *, adds: bool) -> float:
    """A round in which each rank sends so many bytes, and adds those that it gets."""
    return network.alpha + nbytes * (network.beta + (network.gamma if adds else 0.0))


def by_ring(network: Network, nbytes: int) -> float:
    part, rounds = nbytes / network.ranks, network.ranks - 1
    return sum(step(network, part, adds=adds) for adds in (True, False) for _ in range(rounds))


def by_doubling(network: Network, nbytes: int) -> float:
    seconds, reached = 0.0, 1
    while reached < network.ranks:
        seconds, reached = seconds + step(network, nbytes, adds=True), reached * 2
    return seconds


def by_halving(network: Network, nbytes: int) -> float:
    paired = max(2**power for power in range(20) if 2**power <= network.ranks)
    joins = paired < network.ranks  # the others send all that they have, and get all that comes of it
    seconds = step(network, nbytes, adds=True) + step(network, nbytes, adds=False) if joins else 0.0
    part, left = float(nbytes), paired
    while left > 1:
        part, left = part / 2, left // 2
        seconds += step(network, part, adds=True) + step(network, part, adds=False)
    return seconds


MESSAGES = {"ring": by_ring, "doubling": by_doubling, "halving": by_halving}


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6, 8, 1000, 1024, 10_000])
@pytest.mark.parametrize("nbytes", [0, 4, 4096, 100 << 20])
def test_the_formulas_are_the_messages_added_up(ranks: int, nbytes: int) -> None:
    network = Network(alpha=2e-5, beta=3e-10, gamma=7e-11, ranks=ranks)
    found = {way.name: way.seconds(nbytes) for way in algorithms("HcomAllReduce", network)}
    assert found.keys() == MESSAGES.keys()
    for name, seconds in found.items():
        assert seconds == pytest.approx(MESSAGES[name](network, nbytes), rel=1e-9)
    assert cheapest("HcomAllReduce", nbytes, network).seconds(nbytes) == min(found.values())


def test_latency_decides_for_small_ones_and_bandwidth_for_large_ones() -> None:
    chosen = [cheapest("HcomAllReduce", nbytes, Network(ranks=1000)).name for nbytes in (4096, 4 << 20, 1 << 30)]
    assert chosen == ["doubling", "halving", "ring"]
    assert cheapest("HcomAllReduce", 1 << 30, Network(ranks=1024)).name == "halving"


def test_an_allreduce_by_ring_is_a_reduce_scatter_and_an_allgather() -> None:
    network = Network(ranks=7)
    (scatter,), (gather,) = algorithms("HcomReduceScatter", network), algorithms("HcomAllGather", network)
    ring = algorithms("HcomAllReduce", network)[0]
    assert ring.start == pytest.approx(scatter.start + gather.start)
    assert ring.per_byte == pytest.approx(scatter.per_byte + gather.per_byte)
    assert cheapest("HcomBroadcast", 0, network).seconds(0) == pytest.approx(3 * network.alpha)
