"""Branches become streams of a section, whose memory is apart, and compute what they compute in order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pytest

import atcpy
from atcpy.kernels import _kernels
from atcpy.kernels.record import HOST_FAMILY, STREAM_ACTIVE, read_order, read_slots
from atcpy.om.reader import parse_package, read_model
from atcpy.passes.compile import form_streams
from atcpy.passes.compile import plan_memory as plan_memory_module
from atcpy.passes.compile.memory_bound import Block, align
from atcpy.passes.compile.plan_memory import plan_memory
from tests.models_in_text import package

DIAMOND = """g (float[4] x) => (float[4] y) {
    v = Exp(x)  a = Sin(v)  b = Relu(a)  c = Cos(v)  y = Add(b, c)
}"""
SINGLE = {"oo_level": "O0", "enable_single_stream": True}


@pytest.fixture(autouse=True)
def _every_section_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kernels, "section_pays", lambda streams, threads: True)


def sections(text: str, **options: object) -> list[list[list[str]]]:
    """The names of the tasks' nodes, by section and stream."""
    content = package(text, {"oo_level": "O0", **options})
    names = read_model(parse_package(content)).task_nodes
    found: list[list[list[str]]] = []
    left = 0
    for task, name in zip(parse_package(content).tasks, names, strict=True):
        if task.kernel == STREAM_ACTIVE:
            found.append([])
            left = int.from_bytes(task.record[-304:-296], "little")
            continue
        stream, _, _ = read_order(task.record)
        assert left > 0 or stream == 0 or task.kernel == HOST_FAMILY
        if left > 0:
            found[-1] += [[] for _ in range(stream + 1 - len(found[-1]))]
            found[-1][stream].append(name)
            left -= 1
    return found


def test_branches_between_two_nodes_become_streams() -> None:
    assert sections(DIAMOND) == [[["a", "b"], ["c"]]]


FORMS = {
    "a chain": ("v = Exp(x) w = Sin(v) y = Relu(w)", []),
    "a shortcut": ("v = Exp(x) a = Sin(v) b = Cos(a) y = Add(v, b)", []),
    "branches from the input": ("a = Sin(x) b = Cos(x) y = Add(a, b)", [[["a"], ["b"]]]),
    "branches that meet within": (
        "v = Exp(x) a = Sin(v) b = Cos(v) c = Add(a, b) d = Tan(v) e = Add(c, d) y = Neg(e)",
        [[["a", "b", "c"], ["d"]]],
    ),
    "branches that share a value": (
        "v = Exp(x) a = Sin(v) b = Cos(a) c = Tan(a) d = Neg(v) e = Add(b, c) y = Add(e, d)",
        [[["a", "b", "c", "e"], ["d"]]],
    ),
    "one section after another": (
        "v = Exp(x) a = Sin(v) b = Cos(v) c = Add(a, b) d = Sin(c) e = Cos(c) y = Add(d, e)",
        [[["a"], ["b"]], [["d"], ["e"]]],
    ),
    "three": ("v = Exp(x) a = Sin(v) b = Cos(v) c = Tan(v) y = Sum(a, b, c)", [[["a"], ["b"], ["c"]]]),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    nodes, expected = FORMS[name]
    assert sections(f"g (float[4] x) => (float[4] y) {{ {nodes} }}") == expected


def test_branches_to_several_outputs_become_streams() -> None:
    text = "g (float[4] x) => (float[4] y, float[4] z) { a = Sin(x) y = Cos(a) b = Tan(x) z = Neg(b) }"
    assert sections(text) == [[["a", "y"], ["b", "z"]]]


def test_a_single_stream_has_no_sections() -> None:
    assert sections(DIAMOND, enable_single_stream=True) == []


def test_a_section_that_does_not_pay_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kernels, "section_pays", lambda streams, threads: False)
    assert sections(DIAMOND) == []


def test_more_branches_than_streams_share_them() -> None:
    count = form_streams.MAX_STREAMS + 3
    nodes = " ".join(f"a{n} = Sin(x) y{n} = Cos(a{n})" for n in range(count))
    outs = ", ".join(f"float[4] y{n}" for n in range(count))
    [found] = sections(f"g (float[4] x) => ({outs}) {{ {nodes} }}")
    assert len(found) == form_streams.MAX_STREAMS
    assert sorted(len(stream) for stream in found) == [2] * (count - 6) + [4] * 3
    assert sorted(name for stream in found for name in stream) == sorted(f"{c}{n}" for n in range(count) for c in "ay")


def test_the_longest_branch_comes_first() -> None:
    text = "g (float[4] x) => (float[4] y) { a = Neg(x) b = Sin(x) c = Exp(b) d = Tan(c) y = Add(a, d) }"
    assert sections(text) == [[["b", "c", "d"], ["a"]]]


def test_nodes_that_the_host_runs_are_in_no_section() -> None:
    """They come between: what is before them is done, and what is behind them waits."""
    text = """g (float[4] x) => (float[4] y, float[4] z) {
        a = Sin(x) b = Cos(x) s = HcomAllReduce<reduction = "sum">(a) y = Neg(s) z = Neg(b)
    }"""
    for section in sections(text):
        assert not {"s"} & {name for stream in section for name in stream}


def test_a_value_that_two_streams_read_is_not_overwritten() -> None:
    text = "g (float[4] x) => (float[4] y) { v = Exp(x) a = Relu(v) b = Neg(v) y = Add(a, b) }"
    assert sections(text) == [[["a"], ["b"]]]
    assert_apart(package(text, {"oo_level": "O0"}))


def assert_apart(content: bytes) -> None:
    """No byte is written in one stream of a section and used in another."""
    for tasks in _sections_of(content):
        accesses = [
            (read_order(record)[0], region, index, offset, offset + nbytes, writes)
            for record in tasks
            for slots, writes in zip(read_slots(record), (False, True), strict=True)
            for region, index, offset, nbytes in filter(None, slots)
        ]
        for (stream, *a), (other, *b) in combinations(accesses, 2):
            if stream != other and a[:2] == b[:2] and (a[4] or b[4]):
                assert a[3] <= b[2] or b[3] <= a[2]


def _sections_of(content: bytes) -> Iterator[list[bytes]]:
    records = [task.record for task in parse_package(content).tasks]
    for number, record in enumerate(records):
        if record.startswith(STREAM_ACTIVE.encode()):
            count = int.from_bytes(record[-304:-296], "little")
            yield records[number + 1 : number + 1 + count]


def test_a_section_whose_streams_share_memory_is_dissolved(monkeypatch: pytest.MonkeyPatch) -> None:
    races = _kernels.streams_race
    monkeypatch.setattr(_kernels, "streams_race", lambda operands: True)
    content = package(DIAMOND, {"oo_level": "O0"})
    assert list(_sections_of(content)) == []
    assert "StreamActive" not in {node.op_type for node in read_model(parse_package(content)).graph.nodes}
    monkeypatch.setattr(_kernels, "streams_race", races)
    assert len(list(_sections_of(package(DIAMOND, {"oo_level": "O0"})))) == 1


def random_graph(rng: random.Random) -> str:
    """Chains that start, meet and part at random."""
    values, lines = ["x"], []
    for number in range(rng.randrange(4, 30)):
        operands = [rng.choice(values[-6:]) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
        op = rng.choice(("Sin", "Cos", "Neg", "Exp", "Relu")) if len(operands) == 1 else rng.choice(("Sum", "Max"))
        lines.append(f"v{number} = {op}({', '.join(operands)})")
        values.append(f"v{number}")
    parts = [rng.choice(values[1:]) for _ in range(3)]
    lines += [f"c = Concat<axis = 0>({', '.join(parts)})", "y = Abs(c)", f"z = Neg({rng.choice(values[1:])})"]
    return f"g (float[8] x) => (float[24] y, float[8] z) {{ {' '.join(lines)} }}"


@pytest.mark.parametrize("seed", range(40))
def test_results_are_those_of_a_single_stream(seed: int) -> None:
    rng = random.Random(seed)
    text, level = random_graph(rng), rng.choice(("O0", "O1"))
    x = np.random.default_rng(seed).standard_normal(8).astype(np.float32)
    results = []
    for options in ({}, {"enable_single_stream": True}):
        content = package(text, {"oo_level": level, **options})
        assert_apart(content)
        results.append(atcpy.InferenceSession(content, threads=2).run(None, {"x": x}))
    for ours, expected in zip(*results, strict=True):
        np.testing.assert_array_equal(ours, expected)


def concurrent(a: Block, b: Block) -> bool:
    first, second = sorted((a, b), key=lambda block: block.first)
    ends, begins = first.ends_in, second.begins_in
    apart = ends is not None and begins is not None and ends[0] == begins[0] and ends[1] != begins[1]
    return second.first <= first.last or apart


@pytest.mark.parametrize("pairwise", [0, 2048])
@pytest.mark.parametrize("seed", range(60))
def test_blocks_that_may_be_in_use_at_the_same_time_are_apart(
    seed: int, pairwise: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_memory_module, "MAX_PAIRWISE", pairwise)
    rng = random.Random(seed)
    section = range(10, 40)
    bounds = sorted(rng.sample(range(11, 40), 2))
    streams = [range(10, bounds[0]), range(*bounds), range(bounds[1], 40)]

    def block() -> Block:
        kind = rng.randrange(4)
        nbytes = align(rng.randrange(1, 2000))
        if kind == 0:  # of all of the section
            return Block(nbytes, rng.randrange(11), rng.randrange(40, 50))
        number = rng.randrange(3)
        first, last = sorted(rng.choices(streams[number], k=2))
        if kind == 1:
            return Block(nbytes, first, last, begins_in=(0, number), ends_in=(0, number))
        if kind == 2:
            return Block(nbytes, rng.randrange(10), last, ends_in=(0, number))
        return Block(nbytes, first, rng.randrange(40, 50), begins_in=(0, number))

    blocks = [block() for _ in range(rng.randrange(2, 40))]
    plan = plan_memory(blocks, [section], reuse=True)
    for a, b in combinations(blocks, 2):
        if concurrent(a, b):
            assert a.offset + a.nbytes <= b.offset or b.offset + b.nbytes <= a.offset
    assert plan.lower_bound <= plan.arena_bytes == max(block.offset + block.nbytes for block in blocks)


def test_the_lower_bound_counts_streams_together() -> None:
    """Two streams with a peak of 3 blocks each, below one that all of the section needs."""
    blocks = [Block(64, 0, 9), *(Block(64, 2, 2, begins_in=(0, 0), ends_in=(0, 0)) for _ in range(3))]
    blocks += [Block(64, 5, 5, begins_in=(0, 1), ends_in=(0, 1)) for _ in range(3)]
    assert plan_memory(blocks, reuse=True).lower_bound == 4 * 64
    plan = plan_memory(blocks, [range(1, 8)], reuse=True)
    assert (plan.lower_bound, plan.arena_bytes) == (7 * 64, 7 * 64)


def test_a_model_says_which_streams_it_has() -> None:
    content = package(DIAMOND, {"oo_level": "O0"})
    read = read_model(parse_package(content))
    [node] = read.graph.nodes_of("StreamActive")
    assert node.attrs["active_stream_list"] == (0, 1)
    assert parse_package(content).stream_count == 2
