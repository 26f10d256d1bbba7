"""Constant folding at its limits, and shape arithmetic with open dims."""

from __future__ import annotations

import numpy as np
import pytest

from atcpy.deadline import Deadline
from atcpy.errors import ModelInvalid, ResourceLimit
from atcpy.ir import Graph, PassRecord, Tensor
from atcpy.ir.shape import Shape, Sym
from atcpy.options import ConvertOptions, OoLevel, ParseOptions, PrepareOptions
from atcpy.parsers.onnx import import_onnx
from atcpy.passes import folding
from atcpy.passes.pass_manager import PassManager
from atcpy.stages.prepare import prepare
from tests.models_in_text import model

KIB = 1024


def prepared(text: str, **options: object) -> Graph:
    """The graph after the whole stage; open dims are allowed."""
    graph = import_onnx(model(text), ParseOptions()).graph
    settings = PrepareOptions(**options)  # type: ignore[arg-type]
    prepare(graph, PassManager(ConvertOptions(prepare=settings, verify_ir=True)))
    return graph


def folding_record(graph: Graph) -> PassRecord:
    return next(record for record in graph.decisions.passes if record.name == folding.NAME)


def reasons(graph: Graph) -> list[tuple[str, str]]:
    return [(reject.reason, reject.where) for reject in folding_record(graph).rejects]


def op_types(graph: Graph) -> list[str]:
    return [node.op_type for node in graph.nodes if node.op_type not in {"Data", "Const", "NetOutput"}]


ADD = "m (float[{n}] x) => (float[{n}] y) <float[{n}] a, float[{n}] b> {{ c = Add(a, b) d = Mul(x, c) {rest} }}"
BESIDE = "e = Mul(d, a) y = Mul(e, b)"  # reads both constants, which stay
INSTEAD = "y = Neg(d)"


@pytest.mark.parametrize(("kib", "folded"), [(80, True), (79, False)])
def test_a_constant_may_add_as_much_as_max_const(kib: int, folded: bool) -> None:
    graph = prepared(ADD.format(n=80 * KIB // 4, rest=BESIDE), max_const_bytes=kib * KIB)
    assert ("Add" not in op_types(graph)) is folded
    assert reasons(graph) == ([] if folded else [("constant-too-large", "c")])


@pytest.mark.parametrize("shared", [False, True])
def test_a_constant_of_any_size_may_replace_as_many_bytes(shared: bool) -> None:
    """As the transpose of a large matrix that only one product reads."""
    text = "m (float[8,160] x) => (float[8,128] y) <float[128,160] w> {{ t = Transpose(w) p = MatMul(x, t) {} }}"
    rest = "r = ReduceSum <keepdims = 0>(w) y = Mul(p, r)" if shared else "y = Neg(p)"
    graph = prepared(text.format(rest), max_const_bytes=79 * KIB)  # w has 80
    assert reasons(graph) == ([("constant-too-large", "t")] if shared else [])


def test_small_constants_are_always_folded() -> None:
    graph = prepared(ADD.format(n=64 * KIB // 4, rest=BESIDE), max_const_bytes=1, max_growth=1.0)
    assert "Add" not in op_types(graph)


def test_a_result_may_be_four_times_its_inputs() -> None:
    head = "m (float[{n}] x) => (float[{n}] y) <float[1,{k}] a, int64[2] r>"
    text = head + " {{ t = Tile(a, r) f = Reshape(t, s) y = Mul(x, f) }}"
    for times, folded in ((4, True), (5, False)):
        k = 32 * KIB // 4
        body = text.format(n=times * k, k=k).replace("int64[2] r", f"int64[2] r = {{1, {times}}}, int64[1] s = {{-1}}")
        graph = prepared(body)
        assert (("constant-grows", "t") in reasons(graph)) is not folded


def test_growth_counts_what_folding_makes_superfluous() -> None:
    """1.2 MiB of sums: they take the place of constants that nobody else reads, or come on top of them."""
    n = 300 * KIB
    alone = f"m (float[{n}] x) => (float[{n}] y) <float[{n}] a, float[{n}] b> {{ c = Add(a, b) y = Mul(x, c) }}"
    graph = prepared(alone, max_growth=1.0)
    assert op_types(graph) == ["Mul"] and reasons(graph) == []
    shared = (
        f"m (float[{n}] x) => (float[{n}] y) <float[{n}] a, float[{n}] b> "
        "{ c = Add(a, b) d = Mul(x, c) e = Mul(d, a) y = Mul(e, b) }"
    )
    graph = prepared(shared, max_growth=1.0)
    assert op_types(graph) == ["Add", "Mul", "Mul", "Mul"] and reasons(graph) == [("constant-grows", "c")]
    assert reasons(prepared(shared, max_growth=1.5)) == []


def test_the_growth_of_all_constants_is_bounded_together() -> None:
    """Each result is 768 KiB beside inputs that stay; the floor of 1 MiB has room for one."""
    n = 192 * KIB
    text = (
        f"m (float[{n}] x) => (float[{n}] y) <float[{n}] a, float[{n}] b> "
        "{ c = Add(a, b) d = Sub(a, b) e = Mul(c, x) f = Mul(d, e) g = Mul(f, a) y = Mul(g, b) }"
    )
    graph = prepared(text, max_growth=1.0)
    assert reasons(graph) == [("constant-grows", "d")]


def test_matrix_products_are_weighed_by_their_inner_size() -> None:
    """300·300 results of 300 products are quick; the bound that counts a whole operand would refuse them."""
    head = "m (float[300,300] x) => (float[300,300] y) <float[300,300] a, float[300,300] b>"
    text = head + " {{ c = {op}(a, b) y = Mul(x, c) }}"
    assert reasons(prepared(text.format(op="MatMul"))) == []
    assert reasons(prepared(text.format(op='Einsum<equation = "ij,jk->ik">'))) == [("folding-too-slow", "c")]


def test_nothing_is_folded_at_O0() -> None:
    graph = prepared(ADD.format(n=4, rest=INSTEAD), level=OoLevel.O0)
    assert op_types(graph) == ["Add", "Mul", "Neg"]
    assert all(value.desc.is_static for node in graph.nodes for value in node.outputs)


def test_random_ops_are_not_folded() -> None:
    graph = prepared("m (float[4] x) => (float[4] y) { r = RandomNormal<shape = [4]>() y = Add(x, r) }")
    assert "RandomNormal" in op_types(graph)


N = Sym("N")


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        # flatten by hand, as exporters write it
        (
            "s = Shape(x) n = Gather(s, zero) u = Unsqueeze(n, axes) t = Concat<axis = 0>(u, rest) y = Reshape(x, t)",
            (N, 96),
        ),
        # the same from a slice of the shape
        ("s = Shape<start = 0, end = 1>(x) t = Concat<axis = 0>(s, rest) y = Reshape(x, t)", (N, 96)),
        # known dims of a partly known shape take part in arithmetic
        (
            "s = Shape(x) h = Gather(s, two) h2 = Mul(h, two) u = Unsqueeze(h2, axes) n = Gather(s, zero)"
            " v = Unsqueeze(n, axes) t = Concat<axis = 0>(v, rest, u) y = Reshape(x, t)",
            (N, 12, 8),
        ),
        # a target of zeros keeps the input's dims
        ("y = Reshape(x, keep)", (N, 6, 16)),
        # to the shape of something computed elementwise
        ("r = Relu(x) s = Shape(r) y = Reshape(x, s)", (N, 6, 4, 4)),
        ("s = Shape(x) n = Gather(s, first) t = Concat<axis = 0>(n, ones) y = Expand(column, t)", (N, 5)),
    ],
    ids=["gather", "slice", "arithmetic", "zeros", "shape of a value", "expand"],
)  # fmt: skip
def test_shape_arithmetic_keeps_open_dims(body: str, shape: Shape) -> None:
    head = (
        "m (float[N,6,4,4] x) => (float[A] y) <int64 zero = {0}, int64 two = {2}, int64[1] first = {0}, "
        "int64[1] axes = {0}, int64[1] rest = {-1}, int64[3] keep = {0, 0, -1}, int64[1] ones = {5}, "
        "float[1,1] column = {1}>"
    )
    graph = prepared(f"{head} {{ {body} }}")
    assert graph.outputs[0].desc.shape == shape


def test_known_dims_of_an_open_shape_become_constants() -> None:
    graph = prepared(
        "m (float[N,6,4,4] x) => (int64[2] y) <int64[2] spatial = {2, 3}> { s = Shape(x) y = Gather(s, spatial) }"
    )
    assert graph.outputs[0].tensor is not None
    assert graph.outputs[0].array.tolist() == [4, 4]
    assert graph.decisions.removed == {"y": "folded", "s": "dead"}


def test_what_cannot_be_computed_is_the_models_fault() -> None:
    with pytest.raises(ModelInvalid) as raised:
        prepared("m (float[4] x) => (float[1] y) <float[4] a, int64[1] at = {9}> { b = Gather(a, at) y = Add(x, b) }")
    assert [(p.code, p.where and p.where.node) for p in raised.value.problems] == [("EZ8888", "b")]


def test_results_are_those_of_numpy() -> None:
    graph = prepared("m (float[3] x) => (float[3] y) <float[3] a = {1, 4, 9}> { b = Sqrt(a) y = Add(x, b) }")
    (tensor,) = [node.output.tensor for node in graph.nodes if node.op_type == "Const"]
    assert isinstance(tensor, Tensor)
    np.testing.assert_array_equal(tensor.array, np.array([1, 2, 3], np.float32))


def test_the_deadline_is_asked_before_each_node_that_is_folded() -> None:
    ticks = iter(range(1000))
    late = Deadline(20, clock=lambda: next(ticks))  # a second passes whenever somebody looks
    nodes = " ".join(f"c{i + 1} = Sin(c{i})" for i in range(40))
    text = f"m (float[2] x) => (float[2] y) <float[2] c0> {{ {nodes} y = Mul(x, c40) }}"
    graph = import_onnx(model(text), ParseOptions()).graph
    with pytest.raises(ResourceLimit, match=r"R0003: .* in constant folding of Sin c\d+"):
        prepare(graph, PassManager(deadline=late))
