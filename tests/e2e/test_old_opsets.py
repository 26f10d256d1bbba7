"""Packages of models of old opsets compute what ONNX Runtime does with the model, or, where it has no kernel for that
opset, with the same in the form of opset 21.
"""

import numpy as np
import onnx
import pytest

import atcpy.backend
from tests.parsers.onnx.canonical import Array, run_ort
from tests.parsers.onnx.test_opsets import CASES, feeds_of, model

IMAGE = "(float[2,3,4,5] x) => (y)"
GATES = "(float[3,1,2] x, float[1,{n},2] w, float[1,{n},2] r) => (y, h)"
NORM = "(float[2,3,4,5] x, float[3] s, float[3] b, float[3] m, float[3] v) => (y)"
PLAIN_NORM = "y = BatchNormalization(x, s, b, m, v)"
BRANCHES = """c = ReduceSum<keepdims = 0>(x) z = Constant<value = float {0}>() d = Greater(c, z)
    y = If<then_branch = t () => (float[2,3] u) { u = Neg(x) }, else_branch = e () => (float[2,3] w) { w = Abs(x) }>(d)
"""
TURNS = """n = Constant<value = int64 {3}>() k = Constant<value = bool {1}>()
    y, s = Loop<body = b (int64 i, bool c, float[2,3] v) => (bool d, float[2,3] w, float[2,3] t)
    { d = Identity(c) w = Add(v, v) t = Neg(w) }>(n, k, x)"""


def const(name: str, kind: str, text: str) -> str:
    return f"{name} = Constant<value = {kind} {{{text}}}>() "


def with_axes(op: str, axes: str, count: int = 1) -> str:
    return const("a", f"int64[{count}]", axes) + f"y = {op}(x, a)"


# (opset, signature, nodes, None or the same at opset 21)
PAIRS: list[tuple[int, str, str, str | None]] = [
    # broadcast and axis, below 7
    (1, "(float[2,3,4] x, float[3] b) => (y)", "y = Add<broadcast = 1, axis = 1>(x, b)",
     const("a", "int64[1]", "1") + "c = Unsqueeze(b, a) y = Add(x, c)"),
    (6, "(float[2,3,4] x, float[4] b) => (y)", "y = Add<broadcast = 1>(x, b)", "y = Add(x, b)"),
    (6, "(float[2,3,4] x, float[2] b) => (y)", "y = Mul<broadcast = 1, axis = 0>(x, b)",
     const("a", "int64[2]", "1, 2") + "c = Unsqueeze(b, a) y = Mul(x, c)"),
    (1, "(float[2,3] x, float[2,3] b) => (y)", "y = Sub<consumed_inputs = [0, 0]>(x, b)", "y = Sub(x, b)"),
    (1, "(float[2,3] x, float[3] b) => (y)", "y = Greater<broadcast = 1>(x, b)", "y = Greater(x, b)"),
    (7, "(float[2,3] x, float[3] b) => (y)", "y = Less(x, b)", None),
    (6, "(float[2,3,4,5] x, float[3] s) => (y)", "y = PRelu(x, s)",
     const("a", "int64[2]", "1, 2") + "c = Unsqueeze(s, a) y = PRelu(x, c)"),
    (7, "(float[2,3,4,5] x, float[3,1,1] s) => (y)", "y = PRelu(x, s)", None),
    *[(opset, "(float[2,3] x, float[4,3] w, float[4] c) => (y)",
       "y = Gemm<broadcast = 1, transB = 1, alpha = 0.5>(x, w, c)", "y = Gemm<transB = 1, alpha = 0.5>(x, w, c)")
      for opset in (1, 6)],
    (7, "(float[2,3] x, float[4,3] w, float[4] c) => (y)", "y = Gemm<transB = 1, beta = 2.0>(x, w, c)", None),
    (11, "(float[2,3] x, float[4,3] w) => (y)", "y = Gemm<transB = 1>(x, w)", None),
    # normalizations, Dropout
    (1, NORM, "y = BatchNormalization<is_test = 1, consumed_inputs = [0, 0, 0, 1, 1]>(x, s, b, m, v)", PLAIN_NORM),
    (6, NORM, "y = BatchNormalization<is_test = 1>(x, s, b, m, v)", PLAIN_NORM),
    *[(opset, NORM, PLAIN_NORM, None) for opset in (7, 9, 14)],
    (1, "(float[2,3,4,5] x, float[3] s, float[3] b) => (y)",
     "y = InstanceNormalization<epsilon = 0.01, consumed_inputs = [0, 0, 0]>(x, s, b)",
     "y = InstanceNormalization<epsilon = 0.01>(x, s, b)"),
    (6, "(float[2,3,4,5] x, float[3] s, float[3] b) => (y)", "y = InstanceNormalization(x, s, b)", None),
    (1, IMAGE, "y = LRN<size = 3>(x)", None),
    *[(1, IMAGE, "y = Dropout<is_test = 1, ratio = 0.25, consumed_inputs = [0]>(x)", "y = Identity(x)")],
    (6, IMAGE, "y = Dropout<is_test = 1>(x)", "y = Identity(x)"),
    *[(opset, IMAGE, "y = Dropout(x)", None) for opset in (7, 10, 12, 13)],
    # attributes that became inputs
    (1, IMAGE, "y = Clip<min = -0.5, max = 0.5, consumed_inputs = [0]>(x)",
     const("l", "float", "-0.5") + const("u", "float", "0.5") + "y = Clip(x, l, u)"),
    (6, IMAGE, "y = Clip<min = -0.5>(x)", None),
    *[(opset, IMAGE, const("u", "float", "0.5") + "y = Clip(x, , u)", None) for opset in (11, 12)],
    (1, IMAGE, "y = Slice<starts = [0, -3], ends = [1, 1000], axes = [0, 2]>(x)", None),
    (10, IMAGE, "".join(const(n, "int64[1]", v) for n, v in zip("sead", ("-1", "-1000", "3", "-2"), strict=True))
     + "y = Slice(x, s, e, a, d)", None),
    (1, IMAGE, "y = Pad<paddings = [0, 0, 1, 0, 0, 0, 0, 2], value = 2.0>(x)",
     const("p", "int64[8]", "0, 0, 1, 0, 0, 0, 0, 2") + const("c", "float", "2") + "y = Pad(x, p, c)"),
    *[(2, IMAGE, f'y = Pad<pads = [0, 0, 1, 0, 0, 0, 0, 2], mode = "{mode}">(x)', None)
      for mode in ("edge", "reflect")],
    (11, IMAGE, const("p", "int64[8]", "0, 0, -1, 0, 0, 0, 0, 2") + "y = Pad(x, p)", None),
    (18, IMAGE, const("p", "int64[2]", "1, 2") + const("a", "int64[1]", "-1") + "y = Pad(x, p, , a)", None),
    *[(opset, "(float[1,3,1] x) => (y)", "y = Squeeze<axes = [0]>(x)", None) for opset in (1, 11)],
    (13, "(float[1,3,1] x) => (y)", with_axes("Squeeze", "-1"), None),
    *[(opset, "(float[3] x) => (y)", "y = Unsqueeze<axes = [0, 2]>(x)", None) for opset in (1, 11)],
    *[(opset, IMAGE, f"y = {op}<axes = [1, 3], keepdims = 0>(x)", None)
      for op in ("ReduceSum", "ReduceMax", "ReduceMean", "ReduceL2") for opset in (1, 11)],
    (13, IMAGE, with_axes("ReduceSum", "1, -1", 2), None),
    (18, IMAGE, with_axes("ReduceMin", "2"), None),
    *[(opset, IMAGE, f"y = {op}<axis = 2>(x)", None)
      for op in ("Softmax", "LogSoftmax", "Hardmax") for opset in (1, 11, 13)],
    (1, "(float[2,5] x) => (y, i)", "y, i = TopK<k = 2>(x)", None),
    *[(opset, "(float[2,5] x) => (y, i)", const("k", "int64[1]", "2") + f"y, i = TopK<axis = 0{low}>(x, k)", None)
      for opset, low in ((10, ""), (11, ", largest = 0"))],
    (1, "(float[2,7] x) => (y, z)", "y, z = Split<axis = 1, split = [3, 4]>(x)",
     const("s", "int64[2]", "3, 4") + "y, z = Split<axis = 1>(x, s)"),
    (2, "(float[2,6] x) => (y, z)", "y, z = Split<axis = 1>(x)", None),
    (13, "(float[2,7] x) => (y, z)", const("s", "int64[2]", "3, 4") + "y, z = Split<axis = 1>(x, s)", None),
    (1, "(float[2,3] x) => (y)", "y = Reshape<shape = [0, -1, 1], consumed_inputs = [0]>(x)",
     const("s", "int64[3]", "0, -1, 1") + "y = Reshape(x, s)"),
    (5, "(float[2,3] x) => (y)", const("s", "int64[2]", "3, 2") + "y = Reshape(x, s)", None),
    (1, "(float[2,3] x) => (y)", const("t", "float[1]", "2") + const("a", "float[1]", "1") + "y = Tile(x, t, a)",
     const("t", "int64[2]", "1, 2") + "y = Tile(x, t)"),
    (6, "(float[2,3] x) => (y)", const("t", "int64[2]", "2, 2") + "y = Tile(x, t)", None),
    (7, IMAGE, 'y = Upsample<mode = "linear", scales = [1.0, 1.0, 2.0, 2.0]>(x)', None),
    (1, IMAGE, 'y = Upsample<height_scale = 2.0, width_scale = 1.0, mode = "nearest">(x)',
     const("c", "float[4]", "1, 1, 2, 1") + 'y = Resize<coordinate_transformation_mode = "asymmetric", '
     'nearest_mode = "floor">(x, , c)'),
    (10, IMAGE, const("c", "float[4]", "1, 1, 0.5, 2") + "y = Resize(x, c)", None),
    # types and constants
    *[(1, "(float[2,3] x) => (y)", f'y = Cast<to = "{name}">(x)', f"y = Cast<to = {number}>(x)")
      for name, number in (("INT64", 7), ("DOUBLE", 11))],
    *[(opset, "(float[2,3] x) => (y)", "y = Cast<to = 6>(x)", None) for opset in (6, 9, 13)],
    (1, "(float[2,3] x) => (y)", const("c", "float[3]", "1, 2, 3") + "y = Mul<broadcast = 1>(x, c)",
     const("c", "float[3]", "1, 2, 3") + "y = Mul(x, c)"),
    (12, "(float[2,3] x) => (y)", "c = Constant<value_floats = [1.0, 2.0, 3.0]>() y = Mul(x, c)", None),
    (9, "(float[2,3] x) => (y)", "s = Shape(x) c = ConstantOfShape<value = float[1] {2.5}>(s) y = Mul(x, c)", None),
    (1, "(float[2,3] x, float[2,2] z) => (y)", "y = Concat(x, z)", "y = Concat<axis = 1>(x, z)"),
    (4, "(float[2,3] x, float[2,2] z) => (y)", "y = Concat<axis = 1>(x, z)", None),
    # pools
    *[(opset, IMAGE, "y = MaxPool<kernel_shape = [2, 3], pads = [0, 1, 1, 1]>(x)", None) for opset in (1, 8, 10, 12)],
    (10, IMAGE, "y = MaxPool<kernel_shape = [2, 2], strides = [3, 3], ceil_mode = 1>(x)", None),
    (1, IMAGE, "y = AveragePool<kernel_shape = [2, 3], pads = [0, 1, 1, 1]>(x)",
     "y = AveragePool<kernel_shape = [2, 3], pads = [0, 1, 1, 1]>(x)"),
    *[(opset, IMAGE, f"y = AveragePool<kernel_shape = [2, 2], pads = [1, 0, 0, 1], count_include_pad = {pad}>(x)", None)
      for opset, pad in ((7, 1), (10, 0), (11, 1))],
    (1, IMAGE, "y = LpPool<p = 2.0, kernel_shape = [2, 2]>(x)", "y = LpPool<p = 2, kernel_shape = [2, 2]>(x)"),
    (2, IMAGE, "y = LpPool<p = 1, kernel_shape = [2, 2]>(x)", None),
    (1, IMAGE, "y = GlobalLpPool<p = 2.0>(x)", "y = GlobalLpPool<p = 2>(x)"),
    *[(opset, IMAGE, f"y = GlobalLpPool<p = {p}>(x)", None) for opset, p in ((2, 1), (2, 2), (2, 3))],
    # elementwise with what only old opsets had
    *[(1, "(float[2,3] x) => (y)", f"y = {op}<consumed_inputs = [0]>(x)", f"y = {op}(x)")
      for op in ("Relu", "Sigmoid", "Tanh", "Exp", "Abs", "Elu", "LeakyRelu", "HardSigmoid", "Neg", "Floor")],
    (1, "(float[2,3] x) => (y)", "y = Selu(x)", "y = Selu<alpha = 1.6732, gamma = 1.0507>(x)"),
    *[(1, "(float[2,3] x, float[2,3] z) => (y)", f"y = {op}<consumed_inputs = [0, 0]>(x, z)", f"y = {op}(x, z)")
      for op in ("Max", "Min", "Sum", "Mean")],
    (8, "(float[2,3] x, float[3] z) => (y)", "y = Max(x, z)", None),
    # recurrent ops
    *[(1, GATES.format(n=2 * gates), f"y, h = {op}<hidden_size = 2, output_sequence = 1>(x, w, r)",
       f"y, h = {op}<hidden_size = 2>(x, w, r)") for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1))],
    (3, GATES.format(n=6), "y, h = GRU<hidden_size = 2, linear_before_reset = 1>(x, w, r)",
     "y, h = GRU<hidden_size = 2, linear_before_reset = 1>(x, w, r)"),
    *[(7, GATES.format(n=2 * gates), f"y, h = {op}<hidden_size = 2, direction = \"reverse\">(x, w, r)", None)
      for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1))],
    # control flow
    *[(opset, "(float[2,3] x) => (float[2,3] y)", BRANCHES, None) for opset in (7, 11)],
    *[(opset, "(float[2,3] x) => (float[2,3] y, float[3,2,3] s)", TURNS, None) for opset in (7, 11, 13)],
    # what has been as it is since, with fewer types or words
    *[(opset, "(float[2,3,4] x) => (y)", "y = Flatten<axis = 1>(x)", None) for opset in (1, 9, 11)],
    *[(opset, "(float[2,3,4] x) => (y)", "y = ArgMax<axis = 1, keepdims = 0>(x)", None) for opset in (1, 11, 12)],
    (1, "(float[1,8,2,3] x) => (y)", "y = DepthToSpace<blocksize = 2>(x)", None),
    (11, "(float[1,8,2,3] x) => (y)", 'y = DepthToSpace<blocksize = 2, mode = "CRD">(x)', None),
    (10, "(float[2,3] x) => (y)", const("s", "float", "0.1") + const("z", "uint8", "128")
     + "q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z)", None),
    (12, "(float[2,3] x) => (y)", const("e", "int64", "2") + "y = Pow(x, e)", None),
    (11, "(float[2,3] x) => (y)", const("a", "int32", "1") + "y = CumSum<exclusive = 1>(x, a)", None),
    (11, "(float[3,4] x, int64[1,2] i) => (y)", "y = GatherND(x, i)", None),
    (9, "(float[2,3] x) => (y)", "y = Shrink<lambd = 0.3, bias = 0.1>(x)", None),
    (9, "(int64[1,2] i) => (y)", const("d", "int64", "3") + const("v", "float[2]", "0, 1")
     + "y = OneHot(i, d, v)", None),
]  # fmt: skip


def assert_runs_alike(text: str, oracle: str) -> None:
    feeds = feeds_of(text)
    parsed = onnx.parser.parse_model(text)
    expected: list[Array] = run_ort(onnx.parser.parse_model(oracle), feeds)
    results = list(atcpy.backend.prepare(parsed, "CPU").run([feeds[port.name] for port in parsed.graph.input]))
    assert len(results) == len(expected)
    for have, want in zip(results, expected, strict=True):
        assert (have.dtype, have.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("opset", "signature", "body", "modern"), PAIRS)
def test_the_package_of_an_old_model_runs(opset: int, signature: str, body: str, modern: str | None) -> None:
    text = model(opset, signature, body)
    assert_runs_alike(text, text if modern is None else model(21, signature, modern))


@pytest.mark.parametrize(("op", "version", "opset", "signature", "body"), CASES)
def test_the_package_behind_each_step_runs(op: str, version: int, opset: int, signature: str, body: str) -> None:
    text = model(opset, signature, body)
    assert_runs_alike(text, text)
