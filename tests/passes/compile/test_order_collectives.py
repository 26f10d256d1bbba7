"""Collectives begin early and are waited for late, in an order of the graph that depends on nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import Future

import numpy as np
import pytest

from atcpy import InferenceSession
from atcpy.om.reader import parse_package, read_model
from atcpy.runtime.distributed.collective_thread import CollectiveThread
from atcpy.runtime.distributed.simulated_world import run_simulated
from tests.effort import quick_and_slow
from tests.models_in_text import package

SLOW = {"oo_level": "O0", "allreduce_cost": "alpha=1"}  # a collective takes longer than all else


def order(text: str, **options: object) -> list[str]:
    """The names of the nodes, in the order of their tasks."""
    return list(read_model(parse_package(package(text, {"oo_level": "O0", **options}))).task_nodes)


def reduced(name: str, value: str) -> str:
    return f'{name} = HcomAllReduce<reduction = "sum", fusion = 0>({value})'


TWO = f"""g (float[64] x) => (float[64] u, float[64] v) {{
    a = Exp(x)  {reduced("p", "a")}  u = Neg(p)
    b = Sin(a)  {reduced("q", "b")}  v = Neg(q)
}}"""


def test_what_needs_a_collective_comes_behind_what_does_not() -> None:
    assert order(TWO, allreduce_cost="alpha=1") == ["a", "p", "b", "q", "u", "v"]


def test_what_needs_a_collective_that_has_ended_comes_at_once() -> None:
    nodes = f"{reduced('p', 'x')}  b = Sin(x)  c = Cos(b)  u = Neg(p)  v = Neg(c)"
    graph = f"g (float[64] x) => (float[64] u, float[64] v) {{ {nodes} }}"
    assert order(graph, allreduce_cost="alpha=0,beta=0,gamma=0") == ["p", "b", "c", "u", "v"]
    assert order(graph, allreduce_cost="alpha=1") == ["p", "b", "c", "v", "u"]


def test_a_network_of_which_nothing_is_known_keeps_the_order_of_the_graph() -> None:
    assert order(TWO) == ["a", "p", "u", "b", "q", "v"]


def test_a_single_stream_keeps_the_order_of_the_graph() -> None:
    content = package(TWO, {**SLOW, "enable_single_stream": True})
    parsed = parse_package(content)
    assert list(read_model(parsed).task_nodes) == ["a", "p", "u", "b", "q", "v"]
    assert (parsed.stream_count, parsed.event_count) == (1, 0)
    assert order(TWO, **SLOW) != ["a", "p", "u", "b", "q", "v"]


def test_collectives_stay_in_order_even_if_a_later_one_could_begin_first() -> None:
    chain = f"""g (float[64] x) => (float[64] r, float[64] q) {{
        a = Exp(x)  {reduced("p", "a")}  b = Neg(p)  {reduced("r", "b")}  c = Sin(x)  {reduced("q", "c")}
    }}"""
    found = order(chain, **SLOW)
    assert [name for name in found if name in "prq"] == ["p", "r", "q"]
    assert found.index("c") < found.index("b")


def test_two_collectives_that_enlarge_wait_in_memory_at_most() -> None:
    layers = " ".join(f"w{n} = HcomAllGather<rank_size = 2>(s{n})  h{n + 1} = Add(h{n}, w{n})" for n in range(5))
    shards = ", ".join(f"float[32] s{n}" for n in range(5))
    found = order(f"g (float[64] h0, {shards}) => (float[64] h5) {{ {layers} }}", **SLOW)
    assert found == ["w0", "w1", "h1", "w2", "h2", "w3", "h3", "w4", "h4", "h5"]


def test_nothing_waits_for_a_collective_but_what_needs_it() -> None:
    segments = InferenceSession(package(TWO, SLOW)).plans[0].segments
    assert [(segment.last - segment.first, segment.joins, segment.is_beside) for segment in segments] == [
        (1, 0, False),  # a
        (1, 0, True),  # p
        (1, 0, False),  # b
        (1, 0, True),  # q
        (1, 1, False),  # u
        (1, 2, False),  # v
    ]


class Late(Future[None]):
    """A collective that runs when somebody waits for it, and not before."""

    def __init__(self, collective: Callable[[], None]) -> None:
        super().__init__()
        self._collective = collective

    def result(self, timeout: float | None = None) -> None:
        if not self.done():
            self.set_result(self._collective())

    def exception(self, timeout: float | None = None) -> None:
        self.result()


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("seed", quick_and_slow(range(25), 8))
def test_random_graphs_compute_the_same_as_in_order(seed: int, is_late: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if is_late:
        monkeypatch.setattr(CollectiveThread, "start", lambda _, collective: Late(collective))
    rng = random.Random(seed)
    values, lines = ["x"], []
    for number in range(rng.randrange(4, 24)):
        one, other = rng.choice(values[-5:]), rng.choice(values)
        name = f"v{number}"
        kind = rng.choice(("Add", "Sub", "Sin", "sum", "max"))
        match kind:
            case "Sin":
                lines.append(f"{name} = Sin({one})")
            case "sum" | "max":
                lines.append(f'{name} = HcomAllReduce<reduction = "{kind}">({one})')
            case _:
                lines.append(f"{name} = {kind}({one}, {other})")
        values.append(name)
    outputs = rng.sample(values[1:], min(3, len(values) - 1))
    text = f"g (float[16] x) => ({', '.join(f'float[16] {name}' for name in outputs)}) {{ {' '.join(lines)} }}"
    cost = rng.choice(("alpha=1", "alpha=1e-6", "alpha=0,beta=0"))
    packages = [package(text, {"allreduce_cost": cost, "enable_single_stream": single}) for single in (True, False)]
    feeds = [np.random.default_rng(rank).standard_normal(16, np.float32) for rank in range(3)]

    def run(content: bytes) -> list[list[np.ndarray]]:
        return run_simulated(
            lambda world: InferenceSession(content, world=world).run(None, {"x": feeds[world.rank]}), 3
        )

    for expected, found in zip(*map(run, packages), strict=True):
        for one, other in zip(expected, found, strict=True):
            np.testing.assert_array_equal(one, other)
