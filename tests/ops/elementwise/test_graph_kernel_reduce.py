"""Reductions in graph kernels against the ONNX reference in float64 on every ISA, and the limits of fusion."""

from __future__ import annotations

from math import prod

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

from atcpy import InferenceSession
from atcpy.ir import CompiledModel, Node
from atcpy.ir.tensor import Array
from atcpy.om import writer
from atcpy.ops.elementwise.graph_kernel import body_of
from atcpy.options import convert_options
from atcpy.stages.pipeline import compile_model
from tests.effort import trials
from tests.harness import run_op
from tests.isa import ISAS
from tests.models_in_text import package

KINDS = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp")
COLUMNS = st.sampled_from([2, 3, 7, 15, 16, 17, 33, 70, 511, 513, 1030, 4096])
NORMALISED = """
  a = Mul(x, w)
  m = {mean}(a, axes)
  d = Sub(a, m)
  q = ReduceSumSquare(d, axes)
  e = Add(q, small)
  r = Sqrt(e)
  y = Div(d, r)
"""


def model_of(body: str, shape: tuple[int, ...], axes: tuple[int, ...], result: tuple[int, ...]) -> onnx.ModelProto:
    """Build a model in which `body` computes y from x and from w, which has the shape of one row of x."""

    def text(sizes: tuple[int, ...]) -> str:
        return ",".join(map(str, sizes))

    return onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 18]>
        net (float[{text(shape)}] x, float[{text(shape[axes[0] :])}] w) => (float[{text(result)}] y)
        <int64[{len(axes)}] axes = {{{text(axes)}}}, float small = {{1e-3}}> {{ {body} }}"""
    )


def compiled(model: onnx.ModelProto, **options: object) -> CompiledModel:
    return compile_model(model, convert_options({"debug": True, **options}))[0]


def nodes_of(model: onnx.ModelProto) -> list[Node]:
    """The compiled nodes of a model."""
    return [node for node in compiled(model).graph.nodes if not node.is_structural]


def only_kernel(model: onnx.ModelProto) -> Node:
    """The single graph kernel that the whole model is compiled to."""
    nodes = [node for node in nodes_of(model) if node.op_type != "Reshape"]
    assert [node.op_type for node in nodes] == ["GraphKernel"]
    return nodes[0]


def exact(model: onnx.ModelProto, x: Array, w: Array) -> Array:
    """The result of the ONNX reference in float64."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    for info in (*wide.graph.input, *wide.graph.output):
        info.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    for tensor in wide.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor).astype("f8"), tensor.name))
    with np.errstate(all="ignore"):
        result = ReferenceEvaluator(wide).run(None, {"x": x.astype("f8"), "w": w.astype("f8")})[0]
    return np.asarray(result)


def check(model: onnx.ModelProto, x: Array, w: Array, isa: str) -> None:
    """Assert that results are near the exact ones, and bit-identical for any number of threads."""
    node = only_kernel(model)
    feeds = [w if value.name == "w" else x for value in node.operands]
    result = run_op(node, feeds, isa=isa)[0]
    np.testing.assert_array_equal(result, run_op(node, feeds, isa=isa, threads=2)[0])
    expected = exact(model, x, w)
    np.testing.assert_allclose(result.reshape(expected.shape), expected, rtol=4e-6, atol=4e-6)


def reduced(shape: tuple[int, ...], axes: tuple[int, ...], *, keepdims: bool) -> tuple[int, ...]:
    return tuple(np.zeros(shape, bool).any(axes, keepdims=keepdims).shape)


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=trials(20), deadline=None)
@given(
    rows=st.lists(st.integers(1, 4), max_size=3),
    columns=COLUMNS,
    kind=st.sampled_from(KINDS),
    keepdims=st.booleans(),
    joint=st.booleans(),
)
def test_a_reduction_ends_a_chain(
    isa: str, rows: list[int], columns: int, kind: str, keepdims: bool, joint: bool
) -> None:
    """Each kind over the last one or two dims, with its producer and consumer in the same kernel."""
    shape = (*rows, 2, columns) if joint and columns <= 2048 else (*rows, columns)
    axes = tuple(range(len(rows), len(shape)))
    if kind == "Prod" and prod(shape[len(rows) :]) > 40:
        kind = "Sum"
    result = reduced(shape, axes, keepdims=keepdims)
    body = f"a = Abs(x) b = Add(a, w) c = Reduce{kind}<keepdims = {int(keepdims)}>(b, axes) y = Add(c, small)"
    rng = np.random.default_rng(columns)
    x, w = (rng.uniform(-1, 1, size).astype("f4") for size in (shape, shape[axes[0] :]))
    check(model_of(body, shape, axes, result), x, np.abs(w), isa)


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=trials(12), deadline=None)
@given(rows=st.lists(st.integers(1, 4), min_size=1, max_size=2), columns=COLUMNS)
def test_reduced_values_go_back_into_their_rows(isa: str, rows: list[int], columns: int) -> None:
    """A normalization that no pattern recognises becomes one kernel."""
    shape = (*rows, columns)
    rng = np.random.default_rng(columns)
    x, w = (rng.normal(0, 3, size).astype("f4") for size in (shape, shape[-1:]))
    check(model_of(NORMALISED.format(mean="ReduceMin"), shape, (len(rows),), shape), x, w, isa)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", ["Sum", "Mean", "Max", "Min", "L2"])
def test_nan_stays_in_its_row(isa: str, kind: str) -> None:
    x = np.ones((6, 37), np.float32)
    x[0, 3], x[1, 30], x[2, 36], x[3, 1:3], x[4] = np.nan, np.inf, -np.inf, (np.inf, -np.inf), -0.0
    body = f"a = Mul(x, w) y = Reduce{kind}<keepdims = 0>(a, axes)"
    node = only_kernel(model_of(body, x.shape, (1,), (6,)))
    plain = {"Sum": np.sum, "Mean": np.mean, "Max": np.max, "Min": np.min, "L2": np.linalg.norm}[kind]
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(run_op(node, [x, np.ones(37, "f4")], isa=isa)[0], plain(x, axis=1), rtol=1e-6)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
@pytest.mark.parametrize("kind", ["Sum", "Max"])
def test_empty_reductions(shape: tuple[int, int], kind: str) -> None:
    model = model_of(f"a = Neg(x) b = Reduce{kind}(a, axes) y = Neg(b)", shape, (1,), (shape[0], 1))
    outputs = InferenceSession(writer.to_bytes(compiled(model)), threads=1).run(
        None, {"x": np.zeros(shape, "f4"), "w": np.zeros(shape[1:], "f4")}
    )
    np.testing.assert_array_equal(outputs[0], np.full((shape[0], 1), -0.0 if kind == "Sum" else np.inf, "f4"))


@pytest.mark.parametrize(
    ("shape", "axes", "kernels"),
    [((3, 4096), (1,), 1), ((3, 4097), (1,), 2), ((4, 6, 5), (1,), 2), ((3, 4, 5), (0, 2), 2), ((8, 1), (1,), 2)],
    ids=["the longest row", "too long", "other dims", "dims apart", "rows of one"],
)
def test_which_reductions_a_graph_kernel_supports(shape: tuple[int, ...], axes: tuple[int, ...], kernels: int) -> None:
    """A reduction that a graph kernel does not support separates two kernels."""
    body = "a = Neg(x) b = Exp(a) c = ReduceSum(b, axes) d = Neg(c) y = Exp(d)"
    nodes = nodes_of(model_of(body, shape, axes, reduced(shape, axes, keepdims=True)))
    assert [node.op_type for node in nodes].count("GraphKernel") == kernels


def test_rows_of_two_lengths_are_two_kernels() -> None:
    body = """a = Neg(x) b = ReduceSum(a, axes) c = Reshape(a, other) d = ReduceSum(c, axes)
      e = Exp(b) f = Exp(d) y = Concat<axis = 0>(e, f)"""
    model = model_of(body, (6, 4), (1,), (9, 1))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([3, 8]), "other"))
    x = np.arange(24, dtype=np.float32).reshape(6, 4) / 24
    package = compiled(model)
    assert [node.op_type for node in package.graph.nodes].count("GraphKernel") == 2
    result = InferenceSession(writer.to_bytes(package), threads=1).run(None, {"x": x, "w": x[0]})[0]
    sums = np.concatenate([x.sum(1), x.reshape(3, 8).sum(1)])
    np.testing.assert_allclose(result[:, 0], np.exp(-sums), rtol=1e-6)


@pytest.mark.parametrize(("rows", "kernels"), [(8, 1), (4096, 2)])
def test_nodes_on_reduced_values_alone_get_their_own_kernel_if_there_are_many_rows(rows: int, kernels: int) -> None:
    """Inside the kernel they would be computed for a few rows at a time; a separate launch costs less."""
    body = "a = Mul(x, w) b = ReduceSum(a, axes) c = Add(b, small) d = Sqrt(c) y = Exp(d)"
    found = nodes_of(model_of(body, (rows, 600), (1,), (rows, 1)))
    assert [node.op_type for node in found] == ["GraphKernel"] * kernels
    assert "ReduceSum" in [inner.op_type for inner in body_of(found[0]).nodes]


@pytest.mark.parametrize("columns", [8, 64, 511, 512, 513, 768, 1000, 4096])
@pytest.mark.parametrize("rows", [1, 3, 40])
def test_variance_and_deviations_from_the_mean(rows: int, columns: int) -> None:
    package_bytes = package(
        f"m (float[{rows},{columns}] x) => (float[{rows},{columns}] apart, float[{rows},1] variance)"
        "<float two = {2}, int64[1] last = {-1}> "
        "{ mean = ReduceMean(x, last) apart = Sub(x, mean) p = Pow(apart, two) variance = ReduceMean(p, last) }"
    )
    x = np.random.default_rng(0).standard_normal((rows, columns)).astype(np.float32)
    apart, variance = InferenceSession(package_bytes).run(None, {"x": x})
    expected = x - x.astype(np.float64).mean(1, keepdims=True)
    np.testing.assert_allclose(apart, expected, atol=1e-6)
    np.testing.assert_allclose(variance, (expected**2).mean(1, keepdims=True), rtol=1e-5)
