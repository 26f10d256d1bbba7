"""What a package says of the plans of its clusters: read back as written; changed at random, refused or harmless."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from atcpy import InferenceSession
from atcpy.errors import AtcError
from atcpy.ir import CompiledModel, State, plans_of
from atcpy.ir.tensor import Array
from atcpy.om import clusters, writer
from atcpy.options import convert_options
from atcpy.stages.pipeline import compile_model
from tests.effort import is_thorough
from tests.models_in_text import model

# Two plans one after the other, one with elements as symbols, and one of the body of a Loop.
TEXT = """m (float[n,m] x, int64[1] s, int64 t) => (float[k] y, float[a] z, float[n,m] w) <bool c = {1}> {
    i = NonZero(x) j = Transpose(i) g = GatherND(x, j) y = Exp(g)
    r = Reshape(g, s) z = Neg(r)
    w = Loop<body = b (int64 i, bool p, float[n,m] a) => (bool q, float[n,m] o)
    { q = Identity(p) o = Add(a, x) }>(t, c, x) }"""
# With caches, one of which is two parts of a tensor.
STATES = """m (float[b,n,4] x, float[b,p,4] past, float[2,b,p,2] seen) =>
    (float[b,t,4] y, float[b,t,4] present, float[2,b,t,2] also) <int64 i = {0}, int64 j = {1}, int64[1] a = {0}> {
    present = Concat<axis=1>(past, x) y = Exp(present)
    k, v = Split<axis=2, num_outputs=2>(x) old_k = Gather(seen, i) old_v = Gather(seen, j)
    new_k = Concat<axis=1>(old_k, k) new_v = Concat<axis=1>(old_v, v)
    first = Unsqueeze(new_k, a) second = Unsqueeze(new_v, a) also = Concat<axis=0>(first, second) }"""
# With caches whose lengths are values.
LENGTHS = """m (float[b,n,16] x, int32[b] ends, int32 total, float[b,1,p,8] k, float[b,1,p,8] v) =>
    (float[b,n,16] y, float[b,1,t,8] all_k, float[b,1,t,8] all_v) {
    i, j = Split<axis=2, num_outputs=2>(x)
    y, all_k, all_v = com.microsoft.GroupQueryAttention<num_heads=2, kv_num_heads=1>(x, i, j, k, v, ends, total) }"""
FEEDS = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "s": np.array([5]), "t": np.array(3)}


@pytest.fixture(scope="module")
def compiled() -> CompiledModel:
    return compile_model(model(TEXT), convert_options({}))[0]


def test_what_is_written_is_read(compiled: CompiledModel) -> None:
    written = json.dumps(clusters.encode(compiled.clusters))
    read = clusters.decode(written, [((), plan.program) for plan in plans_of(compiled.clusters)], 3)
    assert clusters.encode(read) == clusters.encode(compiled.clusters)
    assert [plan.program for plan in plans_of(read)] == [plan.program for plan in plans_of(compiled.clusters)]


@pytest.mark.parametrize("part", ["outputs", "symbols"])
def test_what_equals_a_number_that_was_read_before_is_none(compiled: CompiledModel, part: str) -> None:
    """Variables and symbols that repeat are decoded once."""
    programs = [((), plan.program) for plan in plans_of(compiled.clusters)]
    document: Any = json.loads(json.dumps(clusters.encode(compiled.clusters)))
    [cluster, *_] = document
    first, last = (cluster["variants"][index]["plans"][0] for index in (0, -1))
    numbers = last[part][-1][2] if part == "outputs" else last[part][-1]
    place = max(index for index, number in enumerate(numbers) if type(number) is int)
    numbers[place] = float(numbers[place])
    assert first is not last and first[part][-1] == last[part][-1]
    with pytest.raises((ValueError, TypeError), match="no number"):
        clusters.decode(json.dumps(document), programs, 3)


def test_states_are_listed() -> None:
    compiled = compile_model(model(STATES), convert_options({}))[0]
    read = clusters.decode(
        json.dumps(clusters.encode(compiled.clusters)), [((), plan.program) for plan in plans_of(compiled.clusters)], 3
    )
    assert read[1].states == compiled.clusters[1].states == (State(1, 1, 1, 1), State(2, 2, 2, 2))
    assert all(variant.condition is None for cluster in read for variant in cluster.variants)


def test_plans_that_assume_full_caches_have_a_condition() -> None:
    compiled = compile_model(model(LENGTHS), convert_options({}))[0]
    programs = [((), plan.program) for plan in plans_of(compiled.clusters)]
    read = clusters.decode(json.dumps(clusters.encode(compiled.clusters)), programs, 3)
    first, last = (cluster.variants[0] for cluster in read)
    assert (first.condition, last.condition) == (8, 7)
    assert (read[0].variants[-1].condition, read[1].variants[-1].condition) == (None, 7)


def paths(item: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the values of a JSON document are."""
    yield path
    for key, value in item.items() if isinstance(item, dict) else enumerate(item) if isinstance(item, list) else ():
        yield from paths(value, (*path, key))


def changed(document: Any, rng: random.Random) -> Any:
    """A copy in which one value is another."""
    document = copy.deepcopy(document)
    *path, last = rng.choice([path for path in paths(document) if path])
    item = document
    for key in path:
        item = item[key]
    value = item[last]
    others: list[Any] = [None, "x", -1, 0, 1, 2**31, 10**30, 1.5, True, [], {}]
    if isinstance(value, int):
        others += [value + 1, value - 1]
    if isinstance(value, list):
        others += [value[:-1], value + value, value[::-1]]
    if isinstance(value, str):
        others += ["FLOAT64", "INT4", "STRING", "UNDEFINED"]
    item[last] = rng.choice(others)
    return document


def run(session: InferenceSession) -> list[Array]:
    return list(session.run(None, FEEDS))


def decode(session: InferenceSession) -> list[Array]:
    """Three steps with the caches bound, and the caches then."""
    session.bind_state({"present": "past", "also": "seen"}, capacity=6)
    x = np.arange(8, dtype=np.float32).reshape(1, 2, 4)
    for _ in range(2):
        session.run(None, {"x": x})
    return list(session.run(["y", "present", "also"], {"x": x}))


def decode_by_lengths(session: InferenceSession) -> list[Array]:
    """Three steps with the caches bound, and the caches then."""
    session.bind_state({"all_k": "k", "all_v": "v"}, capacity=6)
    feeds = [
        {
            "x": np.ones((1, 2, 16), np.float32),
            "ends": np.array([2 * step + 1], np.int32),
            "total": np.int32(2 * step + 2),
        }
        for step in range(3)
    ]
    for values in feeds[:2]:
        session.run(None, values)
    return list(session.run(["y", "all_k", "all_v"], feeds[2]))


@pytest.mark.parametrize(
    ("text", "use"),
    [
        (TEXT, run),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((STATES, decode), (LENGTHS, decode_by_lengths))),
    ],
)
def test_a_changed_list_is_refused_or_harmless(
    text: str, use: Callable[[InferenceSession], list[Array]], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = compile_model(model(text), convert_options({}))[0]
    expected = use(InferenceSession(writer.to_bytes(compiled), threads=1))
    rng = random.Random(1)
    as_json, encoded = writer._json, clusters.encode(compiled.clusters)
    count, refused = 60 if is_thorough() else 20, 0
    for _ in range(count):
        document = changed(encoded, rng)
        monkeypatch.setattr(writer, "_json", lambda value: as_json(document if value == encoded else value))  # noqa: B023
        package = writer.to_bytes(compiled)
        try:
            found = use(InferenceSession(package, threads=1))
        except AtcError:
            refused += 1
            continue
        for a, b in zip(found, expected, strict=True):
            assert a.dtype == b.dtype
    assert refused > count / 3


# One cluster of one plan, whose state is its first input: variables 0 to 2 are inputs, 3 and 4 what the plan computes.
LISTED: dict[str, Any] = {
    "graph": 0, "step": 0, "whole": True,
    "inputs": [["x", "FLOAT32", [-1, 4]], ["n", "INT64", [1]], ["small", "INT4", [1]]],
    "variants": [
        {
            "plans": [
                {
                    "symbols": [["b", 0, 0, False], ["e", 1, 0, True]], "inputs": [0, 1],
                    "outputs": [["y", "FLOAT32", [-1, 4]], ["c", "INT64", [1]]], "counted": [[0, 1, [0]]],
                }
            ],
            "outputs": [3], "condition": 1,
        }
    ],
    "states": [[0, 0, 0, 1]],
}  # fmt: skip
VARIANT = ("variants", 0)
PLAN = (*VARIANT, "plans", 0)


def decoded(change: tuple[tuple[Any, ...], Any] | None = None, programs: int = 1) -> list[object]:
    document = [copy.deepcopy(LISTED)]
    if change is not None:
        *path, last = change[0]
        item: Any = document[0]
        for key in path:
            item = item[key]
        item[last] = change[1]
    return clusters.encode(clusters.decode(json.dumps(document), [((), b"program")] * programs, 1))  # type: ignore[arg-type]


def test_a_list_that_fits() -> None:
    assert decoded() == [LISTED]
    assert decoded((("whole",), False)) == [LISTED | {"whole": False}]


@pytest.mark.parametrize("dtype", ["BOOL", "UINT8", "INT64", "FLOAT32", "INT4"])
def test_elements_that_decide_are_integers_of_whole_bytes_and_truth_values(dtype: str) -> None:
    document = copy.deepcopy(LISTED)
    document["inputs"][1][1], document["variants"][0]["condition"] = dtype, None
    if dtype in ("FLOAT32", "INT4"):
        with pytest.raises(ValueError, match="are no sizes"):
            clusters.decode(json.dumps([document]), [((), b"program")], 1)  # type: ignore[list-item]
    else:
        clusters.decode(json.dumps([document]), [((), b"program")], 1)  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("graph",), -1), (("graph",), 1.5), (("graph",), True), (("step",), 2**40), (("step",), 1),
        (("whole",), "yes"),
        (("inputs",), {}), (("inputs", 0), ["x", "NOTHING", [1]]), (("inputs", 0), [5, "FLOAT32", [-1, 4]]),
        (("inputs", 0), ["x", "FLOAT32", [-1] * 65]), (("inputs", 0), ["x", "FLOAT32", [-2, 4]]),
        (("inputs", 0), ["x"]),
        (("states",), [[0, 0, 0, 1], [0, 0, 0, 1]]), (("states", 0), [3, 0, 0, 1]), (("states", 0), [0, 1, 0, 1]),
        (("states", 0), [0, 0, 1, 1]), (("states", 0), [0, 0, 2, 1]), (("states", 0), [0, 0, 0, 0]),
        (("states", 0), [0, 0, 0, 2]), ((*VARIANT, "condition"), 0), ((*VARIANT, "condition"), 5),
        ((*VARIANT, "outputs"), [5]), ((*VARIANT, "outputs"), 3), ((*VARIANT, "plans"), []), ((*PLAN, "inputs"), [3]),
        ((*PLAN, "symbols", 0), [5, 0, 0, False]), ((*PLAN, "symbols", 0), ["b", 3, 0, False]),
        ((*PLAN, "symbols", 0), ["b", 0, 2, False]), ((*PLAN, "symbols", 0), ["b", 0, 0, 0]),
        ((*PLAN, "symbols", 0), ["b", 0, 0, True]), ((*PLAN, "symbols", 0), ["b", 2, 0, True]),
        ((*PLAN, "counted", 0), [1, 0, [0]]), ((*PLAN, "counted", 0), [0, 2, [0]]),
        ((*PLAN, "counted", 0), [0, 1, [2]]),
        ((*PLAN, "outputs", 1), ["c", "INT64", [2]]), ((*PLAN, "outputs", 1), ["c", "INT32", [1]]),
    ],
    ids=str,
)  # fmt: skip
def test_lists_that_nobody_writes_are_refused(path: tuple[Any, ...], value: object) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        decoded((path, value))


@pytest.mark.parametrize("programs", [0, 2])
def test_each_plan_has_a_program(programs: int) -> None:
    with pytest.raises(ValueError, match="programs than plans"):
        decoded(programs=programs)


def test_a_cluster_has_a_plan() -> None:
    with pytest.raises(ValueError, match="no plan"):
        decoded((("variants",), []), programs=0)
