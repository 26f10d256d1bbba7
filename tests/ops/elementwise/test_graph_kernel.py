"""Graph kernels against the same graphs unfused and ONNX Runtime: random elementwise graphs, and spans."""

from __future__ import annotations

from random import Random

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from atcpy import InferenceSession
from atcpy.ir import CompiledModel
from atcpy.ir.tensor import Array
from atcpy.om import writer
from atcpy.ops.core.opdef import find_opdef
from atcpy.ops.core.spans import Spans, dims_of, is_repeated, spans_of, within
from atcpy.ops.elementwise.graph_kernel import body_of
from atcpy.options import convert_options
from atcpy.passes.optimize import graph_kernel_copies
from atcpy.stages.pipeline import compile_model

FLOAT, INT, BOOL, DOUBLE = TensorProto.FLOAT, TensorProto.INT32, TensorProto.BOOL, TensorProto.DOUBLE
SHAPES: list[tuple[int, ...]] = [(2, 3, 4), (3, 4), (4,), (1,), (), (2, 1, 4), (2, 3, 1), (1, 3, 1), (24,), (6, 4)]
UNARY = {
    FLOAT: ("Relu", "Neg", "Abs", "Sigmoid", "Tanh", "Exp", "Sqrt", "Floor", "LeakyRelu", "HardSigmoid", "Reciprocal"),
    DOUBLE: ("Neg", "Abs", "Sqrt"),
    INT: ("Neg", "Abs"),
    BOOL: ("Not",),
}
BINARY = {
    FLOAT: ("Add", "Sub", "Mul", "Div", "Max", "Min", "Greater", "Equal", "LessOrEqual"),
    DOUBLE: ("Add", "Mul", "Greater"),
    INT: ("Add", "Sub", "Mul", "Less", "Equal"),
    BOOL: ("And", "Or", "Xor"),
}
COMPARES = frozenset({"Greater", "Equal", "LessOrEqual", "Less"})
REDUCTIONS = {
    FLOAT: ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare"),
    DOUBLE: ("ReduceSum", "ReduceMax"),
    INT: ("ReduceSum", "ReduceMin", "ReduceProd"),
    BOOL: ("ReduceMax",),
}
SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.5, 3e38, 1e-40], np.float32)


class Builder:
    """A random graph of elementwise nodes; values have a type and a shape."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.nodes: list[onnx.NodeProto] = []
        self.values: list[tuple[str, int, tuple[int, ...]]] = []
        self.inputs: list[tuple[str, int, tuple[int, ...]]] = []
        self.constants: list[onnx.TensorProto] = []

    def pick(self, dtype: int | None = None) -> tuple[str, int, tuple[int, ...]]:
        known = [value for value in self.values if dtype in (None, value[1])]
        if not known or (len(self.inputs) < 4 and self.rng.random() < 0.5):
            kind = dtype or self.rng.choice([FLOAT, FLOAT, INT, BOOL, DOUBLE])
            self.values.append((f"x{len(self.inputs)}", kind, self.rng.choice(SHAPES)))
            self.inputs.append(self.values[-1])
            return self.values[-1]
        return self.rng.choice(known)

    def add(self, op: str, inputs: list[str], dtype: int, shape: tuple[int, ...], **attrs: object) -> None:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attrs))
        self.values.append((name, dtype, shape))

    def constant(self, array: Array) -> str:
        self.constants.append(numpy_helper.from_array(array, f"c{len(self.constants)}"))
        return self.constants[-1].name

    def step(self) -> None:
        kind = self.rng.choice(["unary", "binary", "binary", "number", "cast", "where", "view", "expand", "reduce"])
        name, dtype, shape = self.pick()
        if kind == "unary":
            self.add(self.rng.choice(UNARY[dtype]), [name], dtype, shape)
        elif kind == "cast":
            to = self.rng.choice([t for t in (FLOAT, DOUBLE) if t != dtype])
            if dtype in (INT, BOOL, FLOAT, DOUBLE):
                self.add("Cast", [name], to, shape, to=to)
        elif kind == "view":
            to = self.rng.choice([s for s in SHAPES if np.prod(s) == np.prod(shape)] or [shape])
            self.add("Reshape", [name, self.constant(np.array(to, np.int64))], dtype, to)
        elif kind == "expand":
            to = self.rng.choice([s for s in SHAPES if fits(shape, s)] or [shape])
            self.add("Expand", [name, self.constant(np.array(to, np.int64))], dtype, to)
        elif kind == "reduce":
            if shape:
                first = self.rng.randrange(len(shape))
                axes = range(first, len(shape) if self.rng.random() < 0.8 else first + 1)
                keepdims = self.rng.random() < 0.5
                to = np.zeros(shape).sum(tuple(axes), keepdims=keepdims).shape
                inputs = [name, self.constant(np.array(axes, np.int64))]
                self.add(self.rng.choice(REDUCTIONS[dtype]), inputs, dtype, to, keepdims=int(keepdims))
        elif kind == "number":
            if dtype != BOOL:
                number = np.array(self.rng.choice([2, 3]), helper.tensor_dtype_to_np_dtype(dtype))
                self.add(self.rng.choice(["Add", "Mul"]), [name, self.constant(number)], dtype, shape)
        elif kind == "where" and dtype in (FLOAT, INT):
            a, b = self.pick(dtype), self.pick(BOOL)
            if (to := joint(shape, a[2], b[2])) is not None:
                self.add("Where", [b[0], name, a[0]], dtype, to)
        else:
            other = self.pick(dtype)
            op = self.rng.choice(BINARY[dtype])
            if (to := joint(shape, other[2])) is not None:
                self.add(op, [name, other[0]], BOOL if op in COMPARES else dtype, to)

    def model(self) -> onnx.ModelProto:
        values = self.node_values()
        read = {name for node in self.nodes for name in node.input}
        outputs = [value for value in values if value[0] not in read or self.rng.random() < 0.2]
        infos = (
            [helper.make_tensor_value_info(*value) for value in self.inputs],
            [helper.make_tensor_value_info(*value) for value in outputs],
        )
        graph = helper.make_graph(self.nodes, "random", *infos, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)

    def node_values(self) -> list[tuple[str, int, tuple[int, ...]]]:
        return [value for value in self.values if value[0].startswith("v")]


def joint(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        return None


def fits(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    return joint(shape, target) == target


def feeds_of(inputs: list[tuple[str, int, tuple[int, ...]]], seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    feeds: dict[str, Array] = {}
    for name, dtype, shape in inputs:
        kind = helper.tensor_dtype_to_np_dtype(dtype)
        if kind.kind == "f":
            array = rng.standard_normal(shape)
            array = np.where(rng.random(shape) < 0.2, rng.choice(SPECIAL, shape), array)
        else:
            array = rng.integers(0, 2 if kind.kind == "b" else 100, shape)
        feeds[name] = np.asarray(array, kind)
    return feeds


def compiled(model: onnx.ModelProto, **options: object) -> CompiledModel:
    return compile_model(model, convert_options({"debug": True, **options}))[0]


# The graphs grow with the seed: a third of each size is quick.
@pytest.mark.parametrize("seed", [pytest.param(n, marks=pytest.mark.slow if n % 6 > 1 else ()) for n in range(60)])
def test_random_graphs_compute_the_same_fused_and_unfused(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2:  # values are computed in all kernels that can
        monkeypatch.setattr(graph_kernel_copies, "MIN_GAIN", -(1 << 60))
    builder = Builder(Random(seed))
    while len(builder.nodes) < 3 + seed // 3:
        builder.step()
    model = builder.model()
    fused, unfused = (compiled(model, enable_graph_kernel=on) for on in (True, False))
    assert len(fused.tasks) <= len(unfused.tasks)
    feeds = feeds_of(builder.inputs, seed)
    ours, plain = (InferenceSession(writer.to_bytes(c), threads=1).run(None, feeds) for c in (fused, unfused))
    for a, b in zip(ours, plain, strict=True):
        np.testing.assert_array_equal(a, b)
    if any(node.op_type.startswith("Reduce") for node in builder.nodes):
        return  # intermediate sums overflow float32, or NaN is compared
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for a, b in zip(ours, session.run(None, feeds), strict=True):
        if a.dtype != np.bool_:  # one rounding may flip a comparison
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-6)


def test_evaluation_agrees_with_the_kernel() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    net (float[2,3,4] x, float[3,1] s) => (float[6,4] y) <int64[2] flat = {6, 4}, float two = {2}> {
      a = Mul(x, s)
      b = Reshape(a, flat)
      y = Add(b, two)
    }"""
    model = onnx.parser.parse_model(text)
    result = compiled(model)
    (node,) = [node for node in result.graph.nodes if node.op_type == "GraphKernel"]
    opdef = find_opdef(node)
    assert opdef is not None and opdef.evaluate is not None
    assert [inner.op_type for inner in body_of(node).nodes if inner.op_type not in {"Data", "Const"}] == [
        "Mul", "Reshape", "Add", "NetOutput",
    ]  # fmt: skip
    x, s = np.arange(24, dtype=np.float32).reshape(2, 3, 4), np.array([[1], [2], [3]], np.float32)
    run = InferenceSession(writer.to_bytes(result), threads=1).run(None, {"x": x, "s": s})
    np.testing.assert_array_equal(opdef.evaluate(node, [x, s])[0], run[0])


@pytest.mark.parametrize("zero", [0, 7, 100])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
def test_quantisation_inside_a_graph_kernel_agrees_with_the_standalone_kernels(dtype: str, zero: int) -> None:
    text = f"""<ir_version: 10, opset_import: ["" : 21]>
    net ({dtype}[300] x, float[300] f) => (float[300] y, {dtype}[300] z)
    <float scale = {{0.037}}, {dtype} zero = {{{zero}}}, float step = {{0.11}}> {{
      d = DequantizeLinear(x, scale, zero)
      y = Mul(d, f)
      z = QuantizeLinear(y, step, zero)
    }}"""
    model = onnx.parser.parse_model(text)
    fused, unfused = (compiled(model, enable_graph_kernel=on) for on in (True, False))
    assert [task.kernel for task in fused.tasks] == ["graph_kernel"]
    rng, limits = np.random.default_rng(zero), np.iinfo(dtype)
    f = np.where(rng.random(300) < 0.3, rng.choice(SPECIAL, 300), 50 * rng.standard_normal(300)).astype(np.float32)
    feeds = {"x": rng.integers(limits.min, limits.max, 300, dtype, endpoint=True), "f": f}
    ours, plain = (InferenceSession(writer.to_bytes(c), threads=1).run(None, feeds) for c in (fused, unfused))
    for a, b in zip(ours, plain, strict=True):
        np.testing.assert_array_equal(a, b)


def test_int32_with_a_zero_point_is_dequantised_by_a_standalone_kernel() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    net (int32[9] x, float[9] f) => (float[9] y) <float scale = {0.5}, int32 zero = {16777217}> {
      d = DequantizeLinear(x, scale, zero)
      e = Add(d, f)
      y = Mul(e, e)
    }"""
    result = compiled(onnx.parser.parse_model(text))
    assert [task.kernel for task in result.tasks] == ["dequantize", "graph_kernel"]
    feeds = {"x": np.full(9, 16777218, np.int32), "f": np.ones(9, np.float32)}
    (y,) = InferenceSession(writer.to_bytes(result), threads=1).run(None, feeds)
    np.testing.assert_array_equal(y, np.full(9, 2.25, np.float32))


@pytest.mark.parametrize(
    ("shape", "target", "spans"),
    [
        ((2, 1, 4), (2, 3, 4), ((4, 12),)),
        ((4,), (2, 3, 4), ((4, 24),)),
        ((), (2, 3, 4), ((1, 24),)),
        ((2, 3, 4), (2, 3, 4), ()),
        ((1, 3, 1), (2, 3, 4), ((1, 4), (12, 24))),
    ],
)
def test_spans_are_ranges_of_strides(shape: tuple[int, ...], target: tuple[int, ...], spans: Spans) -> None:
    assert spans_of(shape, target) == spans


@given(st.data())
def test_nested_spans_broadcast_as_numpy_does(data: st.DataObject) -> None:
    target = tuple(data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=4)))
    middle = tuple(size if data.draw(st.booleans()) else 1 for size in target)
    inner = tuple(size if data.draw(st.booleans()) else 1 for size in middle)
    whole = within(spans_of(middle, target), spans_of(inner, middle))
    assert whole is not None
    dims = dims_of(int(np.prod(target)), [whole])
    assert dims is not None
    own = [1 if repeated else size for size, repeated in zip(dims, is_repeated(whole, dims), strict=True)]
    array = np.arange(np.prod(inner))
    expected = np.broadcast_to(np.broadcast_to(array.reshape(inner), middle), target)
    np.testing.assert_array_equal(np.broadcast_to(array.reshape(own), dims).reshape(-1), expected.reshape(-1))


def test_a_repetition_that_does_not_divide_another_is_no_span() -> None:
    assert within(((4, 20),), ((1, 6),)) is None
    assert within(((6, 30),), ((1, 4),)) is None
    assert within(((4, 20),), ((2, 12),)) == ((2, 60),)


def test_a_reshape_that_regroups_an_expanded_operand_computes_the_same() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    net (float[2,1] s, float[3,5,4] y) => (float[3,5,4] z) <int64[2] wide = {2, 6}, int64[3] other = {3, 1, 4}> {
      n = Neg(s)
      w = Expand(n, wide)
      o = Reshape(w, other)
      z = Add(o, y)
    }"""
    s, y = np.array([[1], [2]], np.float32), np.zeros((3, 5, 4), np.float32)
    package = writer.to_bytes(compiled(onnx.parser.parse_model(text)))
    result = InferenceSession(package, threads=1).run(None, {"s": s, "y": y})[0]
    np.testing.assert_array_equal(result, np.repeat(-s, 6, 1).reshape(3, 1, 4) + y)


@pytest.mark.parametrize(("op", "copies"), [("Mul", 2), ("Pow", 1)])
def test_cheap_ops_are_recomputed_in_each_consumer(op: str, copies: int) -> None:
    """Both kernels multiply; one of them only raises to a power."""
    text = f"""<ir_version: 10, opset_import: ["" : 21]>
    net (float[64,40] x) => (float[64,40] z) <float k = {{2.5}}> {{
      a = {op}(x, k)
      b = Neg(a)
      c = Softmax(b)
      d = Add(c, a)
      z = Abs(d)
    }}"""
    result = compiled(onnx.parser.parse_model(text))
    kernels = [node for node in result.graph.nodes if node.op_type == "GraphKernel"]
    assert len(kernels) == 2
    assert sum(inner.op_type == op for kernel in kernels for inner in body_of(kernel).nodes) == copies
    assert [("a" in kernel.sources) for kernel in kernels] == [True, copies == 2]
    x = np.random.default_rng(1).random((64, 40), np.float32)
    plain = compiled(onnx.parser.parse_model(text), enable_graph_kernel=False)
    ours, separate = (InferenceSession(writer.to_bytes(c), threads=1).run(None, {"x": x})[0] for c in (result, plain))
    np.testing.assert_array_equal(ours, separate)
