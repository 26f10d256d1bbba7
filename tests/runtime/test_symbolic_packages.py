"""Packages whose plans for all sizes are not what they say."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from atcpy import InferenceSession
from atcpy.errors import PackageCorrupt
from atcpy.ir import CompiledModel, CountedOutput, DType, PlannedCluster, Symbol, SymbolicPlan, Task, Variable
from atcpy.kernels.symbolic_program import VERSION
from atcpy.om import writer
from atcpy.om.container import reseal
from atcpy.om.package import parse_package
from atcpy.options import convert_options
from atcpy.runtime.plan import ExecutionPlan
from atcpy.runtime.symbolic import PlanContext
from atcpy.stages.pipeline import compile_model
from tests.models_in_text import model, package

TEXT = "m (float[b,n] x, float[n] c) => (float[b,n] y) { t = Exp(x) u = Transpose(t) v = Transpose(u) y = Add(v, c) }"
FEEDS = {"x": np.zeros((2, 3), np.float32), "c": np.ones(3, np.float32)}
Change = Callable[[SymbolicPlan[tuple[Task, ...]]], SymbolicPlan[tuple[Task, ...]]]


def compiled() -> CompiledModel:
    return compile_model(model(TEXT), convert_options({}))[0]


def symbols(*dims: Symbol) -> Change:
    return lambda plan: replace(plan, symbols=dims)


def program(change: Callable[[bytes], bytes]) -> Change:
    return lambda plan: replace(plan, program=change(plan.program))


def other_output(blob: bytes) -> bytes:
    """The slot of the output's last dim, which ends a program, becomes that of a symbol."""
    return blob[:-4] + struct.pack("<I", 0)


Y = Variable("y", DType.FLOAT32, (-1, -1))
B, N = Symbol("b", 0, 0), Symbol("n", 0, 1)
BROKEN: dict[str, Change] = {
    "no such input": symbols(B, Symbol("n", 2, 0)),
    "no such axis": symbols(B, Symbol("n", 1, 1)),
    "a negative axis": symbols(B, Symbol("n", 0, -1)),
    "too few symbols": symbols(B),
    "too many symbols": symbols(B, N, N),
    "no program": program(lambda blob: b"\0"),
    "a program that is cut": program(lambda blob: blob[:-4]),
    "another output": program(other_output),
    "fewer tasks": lambda plan: replace(plan, tasks=plan.tasks[:-1]),
    "an element of floats": symbols(B, Symbol("n", 0, 1, is_element=True)),
    "an input less": lambda plan: replace(plan, inputs=plan.inputs[:1]),
    "no such variable": lambda plan: replace(plan, inputs=(0, 2)),
    "another type of output": lambda plan: replace(plan, outputs=(replace(Y, dtype=DType.FLOAT64),)),
    "another rank of output": lambda plan: replace(plan, outputs=(replace(Y, dims=(-1,)),)),
    "a count that is none": lambda plan: replace(plan, counted=(CountedOutput(0, 0, (0,)),)),
    "a count that is not there": lambda plan: replace(plan, counted=(CountedOutput(0, 1, (0,)),)),
}


def test_the_package_as_it_is() -> None:
    session = InferenceSession(writer.to_bytes(compiled()), threads=1)
    [y] = session.run(None, FEEDS)
    np.testing.assert_array_equal(y, np.full((2, 3), 2, np.float32))
    assert session.shape_cache is not None and session.shape_cache.misses == 0


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN)
def test_broken_plans_are_refused(change: Change) -> None:
    refused(with_plans(change))


def test_the_plans_of_a_package_share_their_arenas() -> None:
    text = (
        "m (float[n,4] x) => (float[k] z) <float[4,4] w> {"
        " a = MatMul(x, w) s = MatMul(a, w) i = NonZero(s) j = Transpose(i) g = GatherND(s, j) z = Exp(g) }"
    )
    session = InferenceSession(package(text), threads=1)
    session.run(None, {"x": np.ones((50, 4), np.float32)})
    first, second = session.plans
    assert first.arena_bytes and second.arena_bytes
    assert arena_address(first) == arena_address(second)


def arena_address(plan: ExecutionPlan) -> int:
    """The address of the arena of a run that ends at once."""
    inputs, outputs = ([np.empty(port.nbytes, np.uint8) for port in ports] for ports in (plan.inputs, plan.outputs))
    return np.frombuffer(memoryview(plan.plan.start([*inputs], [*outputs])), np.uint8).ctypes.data


def moved(offset: int) -> Change:
    """Lay the second block, which lives beside the first, elsewhere."""
    first, second = struct.pack("<4q", 0, 1024, 1024, 1024), struct.pack("<4q", 0, 1024, offset, 1024)
    return program(lambda blob: blob.replace(first, second))


@pytest.mark.parametrize("offset", [1024, 2048, 0, 960, 1040, -1024, 2**47])
def test_blocks_that_lie_wrong_are_refused(offset: int) -> None:
    text = "m (float[n,8] x) => (float[n,n] y) { t = Transpose(x) p = MatMul(x, t) s = Softmax(p) y = MatMul(s, p) }"
    good = compile_model(model(text), convert_options({"input_shape": "x:2~16,8"}))[0]
    content = writer.to_bytes(with_plans(moved(offset), good))
    if offset in (1024, 2048):
        [y] = InferenceSession(content, threads=1).run(None, {"x": np.ones((5, 8), np.float32)})
        np.testing.assert_allclose(y, np.full((5, 5), 8), rtol=1e-6)
        return
    with pytest.raises(PackageCorrupt, match="the plan is refused: block 1") as caught:
        InferenceSession(content, threads=1)
    assert caught.value.code == "P0005"


@pytest.mark.usefixtures("all_variants")
def test_plans_are_checked_before_their_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """The general one when the package is opened, others when a run tries them."""
    text = "m (float[b,s] x, float[b,t] y) => (float[b,u] z) { w = Add(x, y) z = Softmax(w) }"
    good = compile_model(model(text), convert_options({}))[0]
    [cluster] = good.clusters
    damaged = [
        replace(item, plans=tuple(replace(plan, program=plan.program[:-4]) for plan in item.plans))
        for item in cluster.variants[1:]
    ]
    assert damaged
    broken = replace(good, clusters=(replace(cluster, variants=(cluster.variants[0], *damaged)),))
    loaded: list[object] = []
    load = PlanContext.load
    monkeypatch.setattr(PlanContext, "load", lambda context, plan: loaded.append(plan) or load(context, plan))
    session = InferenceSession(writer.to_bytes(broken), threads=1)
    for shape in ((3, 5), (2, 7)):
        x = np.ones(shape, np.float32)
        [z] = session.run(None, {"x": x, "y": x})
        np.testing.assert_allclose(z, np.full(shape, 1 / shape[1]), rtol=1e-6)
        assert len(loaded) == 1
    for _ in range(2):
        with pytest.raises(PackageCorrupt, match="the plan is refused") as caught:
            session.run(None, {"x": np.ones((3, 5), np.float32), "y": np.ones((3, 1), np.float32)})
        assert caught.value.code == "P0005"
    with pytest.raises(PackageCorrupt, match="the plan is refused"):
        InferenceSession(writer.to_bytes(broken), threads=1, memory_limit=1 << 30)


def with_plans(change: Change, good: CompiledModel | None = None) -> CompiledModel:
    good = good or compiled()
    [cluster] = good.clusters
    variants = [replace(item, plans=tuple(change(plan) for plan in item.plans)) for item in cluster.variants]
    return replace(good, clusters=(replace(cluster, variants=tuple(variants)),))


def refused(broken: CompiledModel) -> None:
    with pytest.raises(PackageCorrupt) as caught:
        InferenceSession(writer.to_bytes(broken), threads=1).run(None, FEEDS)
    assert caught.value.code == "P0005"


OTHER_CLUSTERS: dict[str, Callable[[PlannedCluster[tuple[Task, ...]]], PlannedCluster[tuple[Task, ...]]]] = {
    "another graph": lambda cluster: replace(cluster, graph=1),
    "another step": lambda cluster: replace(cluster, step=1),
    "an input less": lambda cluster: replace(cluster, inputs=cluster.inputs[:1]),
    "another type of input": lambda cluster: replace(
        cluster, inputs=(replace(Y, dtype=DType.INT32), cluster.inputs[1])
    ),
    "another rank of input": lambda cluster: replace(cluster, inputs=(replace(Y, dims=(-1,)), cluster.inputs[1])),
    "a number for an open dim": lambda cluster: replace(cluster, inputs=(replace(Y, dims=(-1, 3)), cluster.inputs[1])),
    "an output more": lambda cluster: replace(
        cluster, variants=tuple(replace(v, outputs=(2, 2)) for v in cluster.variants)
    ),
    "no such output": lambda cluster: replace(
        cluster, variants=tuple(replace(v, outputs=(3,)) for v in cluster.variants)
    ),
}


@pytest.mark.parametrize("change", OTHER_CLUSTERS.values(), ids=OTHER_CLUSTERS)
def test_plans_of_other_clusters_are_refused(
    change: Callable[[PlannedCluster[tuple[Task, ...]]], PlannedCluster[tuple[Task, ...]]],
) -> None:
    good = compiled()
    refused(replace(good, clusters=tuple(map(change, good.clusters))))


def test_two_plans_of_one_cluster_are_refused() -> None:
    good = compiled()
    refused(replace(good, clusters=good.clusters * 2))


@pytest.mark.parametrize(
    "text",
    ["", "[", "{}", "[]", "[[]]", "[{}]", '[{"graph": 0.5, "step": 0, "inputs": [], "variants": []}]', "[" * 100_000],
)
def test_clusters_that_are_no_list_are_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_json", lambda value: text if isinstance(value, list) else "{}")
    with pytest.raises(PackageCorrupt):
        InferenceSession(writer.to_bytes(compiled()), threads=1)


@pytest.mark.parametrize(("change", "code"), [(1, "P0002"), (-1, "P0005")], ids=["newer", "older"])
def test_plans_of_another_version_are_refused(change: int, code: str) -> None:
    content = package("g (float[n] x) => (float[n] y) { y = Softmax(x) }")
    [cluster] = parse_package(content).clusters
    blob = cluster.variants[0].plans[0].program
    other = (VERSION + change).to_bytes(4, "little") + blob[4:]
    with pytest.raises(PackageCorrupt) as caught:
        InferenceSession(reseal(content.replace(blob, other)), threads=1)
    assert caught.value.code == code and caught.value.where.file and caught.value.hint
