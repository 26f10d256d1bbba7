"""The memory plan read out of task records: the planner's own lower bound is the oracle."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from atcpy.ir import nodes_with_bodies, plans_of
from atcpy.om import writer
from atcpy.om.package import parse_package
from atcpy.om.reader import PackagedModel, read_model
from atcpy.options import convert_options
from atcpy.passes.compile.emit_tasks import SymbolicTasks, emit_symbolic
from atcpy.passes.compile.memory_bound import Block, align, find_peak
from atcpy.report.arena_plans import fixed_arena_plan, open_arena_plans
from atcpy.report.memory_plan import ArenaPlan
from atcpy.stages import symbolic
from atcpy.stages.pipeline import compile_model
from tests.golden.golden import parse_text, read_golden
from tests.models_in_text import model
from tests.models_of_lives import HARD_LIVES, model_of_lives
from tests.sources import REPO

_HEAD = "a{n} = Softmax(w)  b{n} = Softmax(a{n})  c{n} = Add(a{n}, b{n})  d{n} = Softmax(c{n})  y{n} = Add(c{n}, d{n})"
_HEADS = " ".join(_HEAD.format(n=n) for n in range(8))
_OUTPUTS = ", ".join(f"float[8,64] y{n}" for n in range(8))
MODELS = {
    "streams": f"m (float[8,64] x) => ({_OUTPUTS}) {{ w = Softmax(x) {_HEADS} }}",
    "chain": """m (float[64] x) => (float[64] y) <int64 k = {0}> {
        a = Softmax(x)  b = CumSum(a, k)  c = Softmax(b)  y = CumSum(c, k) }""",
    "in place": """m (float[64] x) => (float[64] y) {
        a = Softmax(x)  b = Relu(a)  c = Softmax(b)  d = Add(c, b)  y = Softmax(d) }""",
    "concat": """m (float[2,64] x) => (float[4,64] y) {
        a = Softmax(x)  b = Softmax(a)  c = Concat<axis = 0>(a, b)  d = Softmax(c)  y = Softmax(d) }""",
    "a collective beside other tasks": """m (float[64] x) => (float[64] y) { a = Softmax(x)
        s = HcomAllReduce<reduction = "sum">(a)
        b = Softmax(x)  c = Softmax(b)  d = Softmax(c)  e = Add(c, d)  f = Softmax(e)  g = Mul(e, f)
        y = Add(s, g) }""",
    "a collective that has ended": """m (float[64] x) => (float[64] y) { a = Softmax(x)
        s = HcomAllReduce<reduction = "sum">(a)
        b = Softmax(x)  t = Softmax(s)  h = Add(t, b)
        k = Softmax(h)  l = Softmax(k)  m = Softmax(l)  n = Softmax(m)  y = Sum(h, k, l, m, n) }""",
    "split": """m (float[4,64] x) => (float[2,64] y) {
        a = Softmax(x)  b, c = Split<axis = 0, num_outputs = 2>(a)  d = Softmax(b)  e = Softmax(c)  y = Add(d, e) }""",
}
CONTROL_FLOW = {
    "if": """m (bool p, float[64] x) => (float[64] y) { w = Softmax(x)
        v = If(p) <then_branch = t () => (float[64] a) { a1 = Softmax(w)  a2 = Softmax(a1)  a = Add(a1, a2) },
                   else_branch = e () => (float[64] b) {
                       b1 = Softmax(w)  b2 = Neg(b1)  b3 = Softmax(b2)  b = Add(b3, w) }>
        y = Softmax(v) }""",
    "if without tasks in a branch": """m (bool p, float[64] x) => (float[64] y) { w = Softmax(x)
        v = If(p) <then_branch = t () => (float[64] a) { a1 = Softmax(w)  a = Softmax(a1) },
                   else_branch = e () => (float[64] b) { b = Identity(w) }>
        y = Add(v, w) }""",
    "a result that waits for the other branch": """m (bool p, float[64] x) => (float[64] y) { w = Softmax(x)
        v = If(p) <then_branch = t () => (float[64] a) { a = Softmax(w) },
                   else_branch = e () => (float[64] b) {
                       b1 = Softmax(w)  b2 = Softmax(b1)  b3 = Softmax(b2)  b4 = Sum(b1, b2, b3, w)  b = Softmax(b4) }>
        y = Softmax(v) }""",
    "loop": """m (float[64] x) => (float[64] y) <int64 n = {5}> { w = Softmax(x)  c = Neg(w)
        v = Loop(n, , w) <body = b (int64 i, bool d, float[64] s) => (bool g, float[64] r) {
            g = Identity(d)  r1 = Softmax(s)  r2 = Add(r1, c)  r3 = Softmax(r2)  r = Mul(r3, r1) }>
        z = Softmax(v)  y = Softmax(z) }""",
    "while": """m (float[64] x, bool k) => (float[64] y) { w = Softmax(x)
        v = Loop(, k, w) <body = b (int64 i, bool d, float[64] s) => (bool g, float[64] r) {
            r1 = Softmax(s)  r = Add(r1, s)  m = ReduceSum<keepdims = 0>(r)  h = Constant<value_float = 9.0>()
            g = Less(m, h) }>
        y = Softmax(v) }""",
    "nested": """m (bool p, float[64] x) => (float[64] y) <int64 n = {3}> { w = Softmax(x)
        v = Loop(n, , w) <body = b (int64 i, bool d, float[64] s) => (bool g, float[64] r) {
            g = Identity(d)  q = Softmax(s)
            r2 = If(p) <then_branch = t () => (float[64] a) { a1 = Softmax(q)  a = Add(a1, w) },
                        else_branch = e () => (float[64] f) { f1 = Softmax(s)  f2 = Softmax(f1)  f = Add(f1, f2) }>
            u = Loop(n, , r2) <body = k (int64 j, bool d2, float[64] s2) => (bool g2, float[64] t2) {
                g2 = Identity(d2)  t1 = Softmax(s2)  t2 = Mul(t1, q) }>
            r = Softmax(u) }>
        y = Softmax(v) }""",
}
GOLDEN = (
    "graph_kernel_copies", "graph_kernel_rejected", "allreduce", "attention_heads_edges", "conv_bn_training",
    "pad_window_rejected", "quantization_rejected", "recurrent_loops_masked",
)  # fmt: skip


def plan_of(package: bytes) -> tuple[ArenaPlan, PackagedModel]:
    """The plan of a package, and what that records."""
    opened = parse_package(package)
    packaged = read_model(opened)
    return fixed_arena_plan(opened, packaged.graph, packaged.graph, 0), packaged


def check_apart(plan: ArenaPlan) -> None:
    """Buffers share no byte at one task, and those of the peak are all that it has."""
    for one, other in itertools.combinations([buffer.block for buffer in plan.buffers], 2):
        apart = one.offset + one.nbytes <= other.offset or other.offset + other.nbytes <= one.offset
        assert apart or one.last < other.first or other.last < one.first
    assert sum(buffer.block.nbytes for buffer in plan.at_peak) == plan.peak.nbytes


def check(package: bytes) -> ArenaPlan:
    """Compare a plan with what the planner has recorded."""
    plan, packaged = plan_of(package)
    assert plan.peak.nbytes == packaged.memory.lower_bound
    check_apart(plan)
    return plan


@pytest.mark.parametrize("level", ["O0", "O3"])
@pytest.mark.parametrize("name", MODELS)
def test_the_peak_is_the_planners_lower_bound(name: str, level: str) -> None:
    compiled, _ = compile_model(model(MODELS[name]), convert_options({"oo_level": level}))
    assert not compiled.has_unknown_shapes
    check(writer.to_bytes(compiled))


@pytest.mark.parametrize("level", ["O0", "O3"])
@pytest.mark.parametrize("name", CONTROL_FLOW)
def test_the_peak_of_control_flow_is_that_of_the_planned_blocks(
    name: str, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[Block] = []

    def emit(*arguments: Any) -> SymbolicTasks:
        tasks = emit_symbolic(*arguments)
        planned[:] = [Block(align(block.nbytes), block.first, block.last) for block in tasks.blocks]
        return tasks

    monkeypatch.setattr(symbolic, "emit_symbolic", emit)
    compiled, _ = compile_model(model(CONTROL_FLOW[name]), convert_options({"oo_level": level}))
    opened = parse_package(writer.to_bytes(compiled))
    nodes = nodes_with_bodies(read_model(opened).graph)
    shapes = {port.name: tuple(map(int, port.shape or ())) for port in opened.open_inputs}
    plans = [("", nodes, plan) for plan in plans_of(opened.clusters)]
    [plan] = open_arena_plans(opened, plans, shapes)
    assert plan.peak.nbytes == find_peak(planned).nbytes
    check_apart(plan)


@pytest.mark.parametrize("name", GOLDEN)
def test_the_peak_of_golden_models_is_their_lower_bound(name: str) -> None:
    [path] = (REPO / "tests" / "golden").rglob(f"{name}.golden")
    golden = read_golden(path)
    compiled, _ = compile_model(parse_text(golden.model_text), convert_options(golden.options))
    check(writer.to_bytes(compiled))


def test_values_are_named_with_their_tasks() -> None:
    text = "m (float[64] x) => (float[64] y) { a = Softmax(x)  b = Softmax(a)  c = Add(a, b)  y = Softmax(c) }"
    compiled, _ = compile_model(model(text), convert_options({"oo_level": "O0"}))
    plan = check(writer.to_bytes(compiled))
    found = [(buffer.names, buffer.block.first, buffer.block.last, buffer.block.nbytes) for buffer in plan.buffers]
    assert found == [(("a", "c"), 0, 3, 256), (("b",), 1, 2, 256)]
    assert (plan.peak.task, [buffer.value_at(plan.peak.task) for buffer in plan.at_peak]) == (1, ["a", "b"])
    assert plan.buffers[0].value_at(2) == "c"


def test_values_above_the_bound_are_those_that_convert_names() -> None:
    compiled, _ = compile_model(model_of_lives(HARD_LIVES), convert_options({"oo_level": "O0"}))
    plan = check(writer.to_bytes(compiled))
    above = [(buffer.names[0], buffer.block.offset, buffer.block.nbytes) for buffer in plan.above_bound]
    assert above == [(value.name, value.offset, value.nbytes) for value in compiled.memory.above_bound] != []


def test_tasks_that_write_parts_of_a_value_have_one_buffer() -> None:
    text = """m (float[2,64] x, float[2,64] z) => (float[6,64] y) {
        a = Softmax(x)  c = Concat<axis = 0>(x, z, a)  y = Softmax(c) }"""
    compiled, _ = compile_model(model(text), convert_options({"oo_level": "O0"}))
    plan = check(writer.to_bytes(compiled))
    assert [task.kernel for task in compiled.tasks].count("strided_copy") > 1
    [concat] = [buffer for buffer in plan.buffers if "c" in buffer.names]
    assert (concat.names[-1], concat.block.nbytes, concat.block.last) == ("c", 6 * 64 * 4, len(compiled.tasks) - 1)


def test_streams_of_a_section_may_be_at_their_peaks_at_once() -> None:
    compiled, _ = compile_model(model(MODELS["streams"]), convert_options({"oo_level": "O0"}))
    plan = check(writer.to_bytes(compiled))
    [section] = plan.sections
    assert plan.peak.task == section.start
    w, *of_streams = plan.at_peak
    assert w.names == ("w",) and w.block.last == section.stop - 1  # whichever stream is the last to read it
    assert len(of_streams) == 16 and {buffer.stream for buffer in of_streams} == set(range(8))


def test_operands_of_a_collective_are_free_when_a_task_has_waited_for_it() -> None:
    compiled, _ = compile_model(model(MODELS["a collective that has ended"]), convert_options({}))
    plan = check(writer.to_bytes(compiled))
    found = {buffer.names: buffer for buffer in plan.buffers}
    assert found["a",].block.offset == found["k",].block.offset
    [waiting] = [number for number, task in enumerate(compiled.tasks) if task.event_wait == 2]
    assert found["a",].block.last >= waiting
