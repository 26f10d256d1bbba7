"""Each opset adapter: the old model in ONNX Runtime against the canonical graph."""

import numpy as np
import onnx
import pytest
from onnx import helper

from atcpy.errors import ModelInvalid, Unsupported
from atcpy.parsers.onnx import upgrade as upgrade_module
from atcpy.parsers.onnx.contrib_rules import RULES
from atcpy.parsers.onnx.upgrade import op_key
from tests.parsers.onnx.canonical import Array, assert_same_meaning, ops_of, parsed, run_canonical, run_ort

RNG = np.random.default_rng(7)


def model(opset: int, signature: str, body: str, ir_version: int = 8) -> str:
    return f'<ir_version: {ir_version}, opset_import: ["" : {opset}]> g {signature} {{ {body} }}'


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


X = "(float[2,3,4,5] x) => (y)"

# (op, version) of the adapter -> models that use it: opset, signature, nodes
STEPS: dict[tuple[str, int], list[tuple[int, str, str]]] = {
    ("Upsample", 9): [(7, X, "y = Upsample<mode = \"nearest\", scales = [1.0, 1.0, 2.0, 3.0]>(x)")],
    ("Upsample", 10): [
        (9, X, "s = Constant<value = float[4] {1.0, 1.0, 2.0, 1.5}>() y = Upsample<mode = \"nearest\">(x, s)"),
        (9, X, "s = Constant<value = float[4] {1.0, 1.0, 2.0, 3.0}>() y = Upsample<mode = \"linear\">(x, s)"),
    ],
    ("BatchNormalization", 9): [
        (7, "(float[2,3,4] x, float[3,4] s, float[3,4] b, float[3,4] m, float[3,4] v) => (y)",
         "y = BatchNormalization<spatial = 0>(x, s, b, m, v)"),
    ],
    ("BatchNormalization", 14): [
        (9, "(float[2,3,4] x, float[3] s, float[3] b, float[3] m, float[3] v) => (y, mm, vv)",
         "y, mm, vv, sm, sv = BatchNormalization<momentum = 0.5>(x, s, b, m, v)"),
    ],
    ("Slice", 10): [
        (9, X, "y = Slice<starts = [1, -3], ends = [3, 9223372036854775807], axes = [1, 3]>(x)"),
        (7, X, "y = Slice<starts = [0, 1], ends = [1, 2]>(x)"),
    ],
    ("TopK", 10): [(9, "(float[2,3,4,5] x) => (y, i)", "y, i = TopK<k = 2, axis = 2>(x)")],
    ("Dropout", 12): [
        (10, "(float[3,4] x) => (y)", "y, mask = Dropout<ratio = 0.25>(x)"),
        (7, "(float[3,4] x) => (y)", "y = Dropout(x)"),
    ],
    ("Clip", 11): [
        (6, X, "y = Clip<min = -0.5, max = 0.5>(x)"),
        (7, X, "t = Relu(x) y = Clip<max = 0.5>(t)"),
        (10, X, "y = Clip(x)"),
    ],
    ("Pad", 11): [
        (7, X, "y = Pad<pads = [0, 0, 1, 2, 0, 0, 3, 0], value = 1.5>(x)"),
        (10, X, "y = Pad<pads = [0, 0, 1, 2, 0, 0, 3, 0], mode = \"reflect\">(x)"),
        (10, "(double[3,4] x) => (y)", "t = Neg(x) y = Pad<pads = [0, 1, 0, 0], value = 0.1>(t)"),
    ],
    ("Resize", 11): [
        (10, X, f"s = Constant<value = float[4] {{{scales}}}>() y = Resize<mode = \"{mode}\">(x, s)")
        for scales in ("1.0, 1.0, 2.0, 3.0", "1.0, 1.0, 0.5, 0.6", "1.0, 1.0, 2.0, 0.4")
        for mode in ("nearest", "linear")
    ] + [
        (10, "(float[2,3,4,5] x, float[4] scales) => (y)", "y = Resize<mode = \"nearest\">(x, scales)"),
    ],
    ("Scatter", 11): [(9, "(float[3,4] x, int64[1,2] i, float[1,2] u) => (y)", "y = Scatter<axis = 1>(x, i, u)")],
    ("Squeeze", 13): [(11, "(float[1,3,1,2] x) => (y)", "y = Squeeze<axes = [0, 2]>(x)"),
                      (11, "(float[1,3,1,2] x) => (y)", "y = Squeeze(x)")],
    ("Unsqueeze", 13): [(11, "(float[3,2] x) => (y)", "y = Unsqueeze<axes = [-1, 0]>(x)")],
    ("ReduceSum", 13): [(11, X, "y = ReduceSum<axes = [1, -1], keepdims = 0>(x)"), (11, X, "y = ReduceSum(x)")],
    ("Split", 13): [(11, "(float[2,7] x) => (y, z)", "y, z = Split<axis = 1, split = [3, 4]>(x)")],
    ("Split", 18): [(11, "(float[2,6] x) => (y, z)", "y, z = Split<axis = -1>(x)"),
                    (13, "(float[2,6] x) => (y, z)", "y, z = Split<axis = 1>(x)")],
    **{
        (op, 13): [
            (11, X, f"y = {op}<axis = {axis}>(x)") for axis in (-1, 0, 1, 2, 3, -2)
        ] + [(7, X, f"t = Flatten(x) y = {op}(t)"), (12, "(float[2,n] x) => (y)", f"t = Relu(x) y = {op}(t)")]
        for op in ("Softmax", "LogSoftmax", "Hardmax")
    },
    ("RoiAlign", 16): [
        (10, "(float[2,3,4,5] x, float[2,4] roi, int64[2] b) => (y)",
         "y = RoiAlign<output_height = 2, output_width = 3, sampling_ratio = 2>(x, roi, b)"),
    ],
    **{
        (op, 18): [(13, X, f"t = Abs(x) y = {op}<axes = [1, -1]>(t)"), (11, X, f"t = Abs(x) y = {op}<keepdims = 0>(t)")]
        for op in ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
                   "ReduceProd", "ReduceSumSquare")
    },
    ("DFT", 20): [(17, "(float[1,8,2,1] x) => (y)", "y = DFT<onesided = 1>(x)")],
    ("GridSample", 20): [
        (16, "(float[2,3,4,5] x, float[2,3,3,2] grid) => (y)", f"y = GridSample<mode = \"{mode}\">(x, grid)")
        for mode in ("bilinear", "bicubic", "nearest")
    ],
    ("GroupNormalization", 21): [
        (18, "(float[2,6,4] x, float[2] s, float[2] b) => (y)", "y = GroupNormalization<num_groups = 2>(x, s, b)"),
    ],
    ("Scan", 9): [
        (8, "(float[2,3] start, float[2,4,3] x) => (last, y)",
         "last, y = Scan<num_scan_inputs = 1, body = b (float[3] s, float[3] e) => (float[3] t, float[3] u) "
         f"{{ t = Add(s, e) u = Mul(t, e) }}{directions}>(, start, x)")
        for directions in ("", ", directions = [1]")
    ],
    ("Shape", 0): [
        (15, X, f"y = Shape<{attrs}>(x)") for attrs in
        ("start = 1", "end = 2", "start = -3, end = -1", "start = 3, end = 1", "start = -9, end = 9")
    ],
    ("Resize", 0): [
        (11, X, "r = Constant<value = float[0] {}>() s = Constant<value = float[0] {}>() "
                "z = Constant<value = int64[4] {2, 3, 8, 7}>() y = Resize<mode = \"linear\">(x, r, s, z)"),
        (13, X, "s = Constant<value = float[4] {1.0, 1.0, 2.0, 2.0}>() y = Resize(x, , s)"),
    ],
}  # fmt: skip

# ONNX Runtime has no kernels for these below opset 7: separate tests compare them with numpy.
OLD = {
    ("Pad", 2), ("LpPool", 2), ("GlobalLpPool", 2), ("Split", 2), ("GRU", 3), ("Concat", 4), ("Reshape", 5),
    ("Selu", 6), ("Cast", 6), ("Tile", 6), ("Gemm", 7), ("PRelu", 7), ("BatchNormalization", 7), ("Dropout", 7),
    ("LSTM", 7), ("GRU", 7), ("RNN", 7), ("Upsample", 7), ("ai.onnx.ml::LabelEncoder", 2),
}  # fmt: skip


def feeds_of(text: str) -> dict[str, Array]:
    feeds: dict[str, Array] = {}
    for info in onnx.parser.parse_model(text).graph.input:
        shape = [dim.dim_value or 3 for dim in info.type.tensor_type.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        feeds[info.name] = RNG.standard_normal(shape).astype(dtype)
    for name, low in (("v", 0.5), ("scales", 1.0)):
        if name in feeds:
            feeds[name] = np.abs(feeds[name]) + np.float32(low)
    if "scales" in feeds:
        feeds["scales"] = np.array([1, 1, 2, 0.5], np.float32)
    if "roi" in feeds:
        feeds["roi"] = np.array([[0, 0, 3, 3], [1, 0.5, 4, 2.5]], np.float32)
    if "grid" in feeds:
        feeds["grid"] = np.tanh(feeds["grid"])
    for name in ("i", "b"):
        if name in feeds and feeds[name].dtype == np.int64:
            feeds[name] = np.array([0, 1], np.int64).reshape(feeds[name].shape)
    return feeds


CASES = [(op, version, *case) for (op, version), cases in STEPS.items() for case in cases]


@pytest.mark.parametrize(("op", "version", "opset", "signature", "body"), CASES)
def test_an_adapter_preserves_the_results(op: str, version: int, opset: int, signature: str, body: str) -> None:
    text = model(opset, signature, body)
    assert_same_meaning(text, feeds_of(text))


def test_every_adapter_has_a_case() -> None:
    steps = {(op, change.version) for op, changes in upgrade_module._CHANGES.items() for change in changes}
    hints = {(op, 6) for op, version in steps if version == 6 and op not in ("Selu", "Cast", "Tile")}
    broadcast = {(op, 7) for op in ["Add", "Sub", "Mul", "Div", "And", "Or", "Xor", "Equal", "Greater", "Less", "Pow"]}
    theirs = {op_key(op, domain) for domain, op in RULES}
    # Adapters that test_training.py and tests/ops/ml test.
    elsewhere = ("ai.onnx.preview.training::", "ai.onnx.ml::LinearClassifier")
    normal = {(op, 0) for op in upgrade_module._NORMALIZERS if op not in theirs and not op.startswith(elsewhere)}
    assert (steps | normal) - hints - broadcast - OLD == STEPS.keys()


def old(opset: int, signature: str, body: str, **feeds: Array) -> list[Array]:
    graph = parsed(model(opset, signature, body, ir_version=3)).graph
    return run_canonical(graph, feeds)


def test_old_opsets_follow_their_specification() -> None:
    x = floats(2, 3, 4, 5)
    (y,) = old(1, X, "y = Pad<paddings = [0, 0, 1, 0, 0, 0, 0, 2], value = 2.0>(x)", x=x)
    np.testing.assert_array_equal(y, np.pad(x, [(0, 0), (0, 0), (1, 0), (0, 2)], constant_values=2))
    (y,) = old(1, X, "y = GlobalLpPool<p = 2.0>(x)", x=x)
    np.testing.assert_allclose(y, np.sqrt((x**2).sum((2, 3), keepdims=True)), rtol=1e-5)
    (y,) = old(1, X, "y = LpPool<p = 1.0, kernel_shape = [4, 5]>(x)", x=x)
    np.testing.assert_allclose(y, np.abs(x).sum((2, 3), keepdims=True), rtol=1e-5)
    sizes = "s = Constant<value = float[2] {1.0, 2.0}>()"
    parts = old(1, "(float[2,3,4,5] x) => (y, z)", f"{sizes} y, z = Split<axis = 1>(x, s)", x=x)
    np.testing.assert_array_equal(np.concatenate(parts, 1), x)
    (y,) = old(3, X, "y = Concat(x, x)", x=x)
    np.testing.assert_array_equal(y, np.concatenate([x, x], 1))
    (y,) = old(1, X, "y = Reshape<shape = [6, -1]>(x)", x=x)
    np.testing.assert_array_equal(y, x.reshape(6, -1))
    (y,) = old(1, X, 'y = Cast<to = "INT32">(x)', x=x)
    np.testing.assert_array_equal(y, x.astype(np.int32))
    tiles = "t = Constant<value = float[1] {2.0}>() a = Constant<value = float[1] {1.0}>()"
    (y,) = old(1, X, f"{tiles} y = Tile(x, t, a)", x=x)
    np.testing.assert_array_equal(y, np.tile(x, (1, 2, 1, 1)))
    (y,) = old(1, X, "y = Selu(x)", x=x)
    selu = 1.0507 * np.where(x > 0, x, 1.6732 * (np.exp(x) - 1))
    np.testing.assert_allclose(y, selu, rtol=1e-5, atol=1e-6)
    (y,) = old(1, X, 'y = Upsample<height_scale = 2.0, width_scale = 1.0, mode = "nearest">(x)', x=x)
    np.testing.assert_array_equal(y, x.repeat(2, axis=2))
    row = np.array([0, 2, 6], np.float32).reshape(1, 1, 1, 3)
    bilinear = 'y = Upsample<height_scale = 1.0, width_scale = 2.0, mode = "bilinear">(x)'
    (y,) = old(1, "(float[1,1,1,3] x) => (y)", bilinear, x=row)
    np.testing.assert_array_equal(y.reshape(-1), [0, 1, 2, 4, 6, 6])
    (y,) = old(6, "(float[2,3,4,5] x, float[3] s) => (y)", "y = PRelu(x, s)", x=x, s=floats(3))
    assert y.shape == x.shape


@pytest.mark.parametrize(
    ("opset", "attrs"), [(11, "axis = 1"), (11, "axis = 1, split = [2, 4]"), (13, "axis = 1"),
                         (18, "axis = 1, num_outputs = 2")]
)  # fmt: skip
@pytest.mark.parametrize("outputs", ['y, ""', '"", y'])
def test_unnamed_outputs_of_split_count(opset: int, attrs: str, outputs: str) -> None:
    x = floats(2, 6)
    (y,) = old(opset, "(float[2,6] x) => (y)", f"{outputs} = Split<{attrs}>(x)", x=x)
    np.testing.assert_array_equal(y, np.split(x, [2 if "split" in attrs else 3], 1)[outputs.index("y") > 0])


@pytest.mark.parametrize(("tiles", "axis"), [("1] {2.0", "1] {4.0"), ("0] {", "1] {0.0"), ("1] {2.0", "1] {0.5")])
def test_an_old_tile_of_no_axis_is_invalid(tiles: str, axis: str) -> None:
    nodes = f"t = Constant<value = float[{tiles}}}>() a = Constant<value = float[{axis}}}>() y = Tile(x, t, a)"
    with pytest.raises(ModelInvalid, match="tiles and axis") as raised:
        parsed(model(1, X, nodes, ir_version=3))
    assert raised.value.code == "E13014"


def test_old_non_finite_numbers_are_refused() -> None:
    split = model(1, "(float[2,3] x) => (y, z)", "s = Constant<value = double[2] {1, 2}>() y, z = Split(x, s)")
    proto = onnx.parser.parse_model(split)
    proto.graph.node[0].attribute[0].t.CopyFrom(onnx.numpy_helper.from_array(np.array([1, np.nan]), "s"))
    with pytest.raises(ModelInvalid, match="not finite"):
        parsed(proto)
    pool = onnx.parser.parse_model(model(1, X, "y = GlobalLpPool<p = 2.0>(x)"))
    for p in (np.inf, np.nan):
        pool.graph.node[0].attribute[0].f = p
        with pytest.raises(Unsupported, match="is not a whole number"):
            parsed(pool)


@pytest.mark.parametrize(("op", "shape"), [("Unsqueeze", (1, 3)), ("Squeeze", (3,)), ("ReduceSum", (1, 1))])
def test_an_empty_list_of_axes(op: str, shape: tuple[int, ...]) -> None:
    proto = onnx.parser.parse_model(model(11, "(float[1,3] x) => (y)", f"y = {op}<axes = [0]>(x)"))
    del proto.graph.node[0].attribute[0].ints[:]
    feeds = {"x": floats(1, 3)}
    (y,) = run_canonical(parsed(proto).graph, feeds)
    (expected,) = run_ort(proto, feeds)
    assert y.shape == expected.shape == shape
    np.testing.assert_allclose(y, expected, rtol=1e-6)


@pytest.mark.parametrize(("opset", "channel_axis"), [(6, 1), (7, 3)])
def test_old_prelu_slopes_are_per_channel(opset: int, channel_axis: int) -> None:
    x, slopes = floats(2, 3, 4, 3), floats(3)
    (y,) = old(opset, "(float[2,3,4,3] x, float[3] s) => (y)", "y = PRelu(x, s)", x=x, s=slopes)
    per_channel = slopes.reshape(-1, *[1] * (3 - channel_axis))
    np.testing.assert_allclose(y, np.where(x < 0, x * per_channel, x), rtol=1e-6)


def test_old_training_flags_are_dropped() -> None:
    x, ones = floats(2, 3, 4, 5), np.ones(3, np.float32)
    signature = "(float[2,3,4,5] x, float[3] s, float[3] b, float[3] m, float[3] v) => (y)"
    nodes = (
        "t, mask = Dropout<is_test = 1>(x) y = BatchNormalization<is_test = 1, consumed_inputs = [0, 0]>(t, s, b, m, v)"
    )
    (y,) = old(5, signature, nodes, x=x, s=ones, b=0 * ones, m=0 * ones, v=ones)
    np.testing.assert_allclose(y, x, rtol=1e-4)
    trained = "y, q, w, t, u = BatchNormalization<is_test = 0, consumed_inputs = [0, 0]>(x, s, b, m, v)"
    (node,) = parsed(model(5, signature.replace("(y)", "(y, q)"), trained)).graph.nodes_of("BatchNormalization")
    assert node.int_attr("training_mode", 0) == 1
    a, b, c = floats(2, 3), floats(3, 4), floats(4)
    (y,) = old(6, "(float[2,3] a, float[3,4] b, float[4] c) => (y)", "y = Gemm<broadcast = 1>(a, b, c)", a=a, b=b, c=c)
    np.testing.assert_allclose(y, a @ b + c, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float", "float16", "bfloat16"])
def test_group_normalization_before_opset_21_computes_in_the_type_of_its_input(dtype: str) -> None:
    signature = f"({dtype}[2,6,4] x, {dtype}[2] s, {dtype}[2] b) => (y)"
    graph = parsed(model(18, signature, "y = GroupNormalization<num_groups = 2>(x, s, b)")).graph
    (node,) = graph.nodes_of("GroupNormalization")
    onnx_type = {"float": 1, "float16": 10, "bfloat16": 16}[dtype]
    assert node.int_attr("stash_type", 1) == onnx_type


@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
def test_obsolete_attributes_of_old_recurrent_ops_are_dropped(op: str) -> None:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    signature = f"(float[3,1,2] x, float[1,{gates * 2},2] w, float[1,{gates * 2},2] r) => (y, h)"
    feeds = {"x": floats(3, 1, 2), "w": floats(1, gates * 2, 2), "r": floats(1, gates * 2, 2)}
    direction = ', direction = "foward"' if op == "GRU" else ""
    body = f"y, h = {op}<hidden_size = 2, output_sequence = 1{direction}>(x, w, r)"
    expected = assert_same_meaning(model(7, signature, f"y, h = {op}<hidden_size = 2>(x, w, r)"), feeds)
    got = old(1, signature, body, **feeds)
    for have, want in zip(got, run_canonical(expected, feeds), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-6)


@pytest.mark.parametrize(
    ("op", "own", "axis", "view"),
    [("Add", (3,), 1, (3, 1, 1)), ("Sub", (4,), 2, (4, 1)), ("Mul", (3, 4), 1, (3, 4, 1)), ("Div", (5,), 3, (5,)),
     ("Pow", (3,), -3, (3, 1, 1)), ("Greater", (3,), 1, (3, 1, 1))],
)  # fmt: skip
def test_old_broadcasting_starts_at_its_axis(op: str, own: tuple[int, ...], axis: int, view: tuple[int, ...]) -> None:
    x, b = np.abs(floats(2, 3, 4, 5)), np.abs(floats(*own)) + 1
    text = f"(float[2,3,4,5] x, float[{','.join(map(str, own))}] b) => (y)"
    (y,) = old(6, text, f"t = Relu(x) y = {op}<broadcast = 1, axis = {axis}>(t, b)", x=x, b=b)
    numpy_op = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Pow": np.power,
                "Greater": np.greater}[op]  # fmt: skip
    np.testing.assert_allclose(y, numpy_op(x, b.reshape(view)), rtol=1e-6)


def test_softmax_over_the_last_axis_stays_one_node() -> None:
    graph = parsed(model(11, "(float[2,3,4,5] x) => (y)", "f = Flatten(x) y = Softmax(f)")).graph
    assert ops_of(graph) == ["Flatten", "Softmax"]
    view = "s = Shape(x) z = Constant<value = int64 {0}>() b = Gather(s, z) u = Unsqueeze<axes = [0]>(b) "
    view += "m = Constant<value = int64[1] {-1}>() t = Concat<axis = 0>(u, m) f = Reshape(x, t) y = Softmax(f)"
    graph = parsed(model(11, "(float[n,3,4,5] x) => (y)", view)).graph
    assert ops_of(graph)[-2:] == ["Reshape", "Softmax"]


def test_bounds_of_a_clip_of_unknown_type_are_cast_to_that_type() -> None:
    body = "one = Constant<value = int64 {1}>() c = Constant<value = bool {1}>() "
    body += "t = Loop<body = b (int64 i, bool k, v) => (k2, w) { k2 = Identity(k) w = Add(v, v) }>(one, c, x) "
    text = model(10, "(double[3,4] x) => (y)", body + "y = Clip<max = 0.5>(t)")
    graph = parsed(text).graph
    assert "CastLike" in ops_of(graph)
    x = RNG.standard_normal((3, 4))
    (y,) = run_canonical(graph, {"x": x})
    np.testing.assert_array_equal(y, np.minimum(2 * x, 0.5))


@pytest.mark.parametrize(
    ("kind", "x"), [("string", np.array(["b", "?", "a"], object)), ("int64", np.array([1, 0, 7], np.int64))]
)
def test_old_label_encoders_map_to_indices(kind: str, x: Array) -> None:
    text = f"""<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 1]> g ({kind}[3] x) => (y)
        {{ t = Identity(x) y = ai.onnx.ml.LabelEncoder<classes_strings = ["a", "b"], default_int64 = -7>(t) }}"""
    graph = parsed(text).graph
    (y,) = run_canonical(graph, {"x": x})
    assert y.tolist() == ([1, -7, 0] if kind == "string" else ["b", "a", "_Unused"])


def test_bounds_of_a_clip_have_the_inferred_type() -> None:
    text = model(10, "(double[3,4] x) => (y)", "s = Shape(x) e = Expand(x, s) t = Exp(e) y = Clip<max = 1.5>(t)")
    graph = parsed(text).graph
    assert ops_of(graph) == ["Shape", "Expand", "Exp", "Clip"]
    assert {str(node.output.desc) for node in graph.nodes if node.op_type == "Const"} == {"f64[] ND"}


def test_training_only_outputs_are_refused() -> None:
    signature = "(float[2,3,4] x, float[3] s, float[3] b, float[3] m, float[3] v) => (y, sm)"
    body = "y, mm, vv, sm, sv = BatchNormalization(x, s, b, m, v)"
    with pytest.raises(Unsupported, match="serve training only") as raised:
        parsed(model(9, signature, body))
    assert raised.value.code == "E10055"
    with pytest.raises(Unsupported, match="made in training only"):
        parsed(model(10, "(float[3,4] x) => (y, mask)", "y, mask = Dropout(x)"))


@pytest.mark.parametrize(
    ("opset", "signature", "body", "needle"),
    [
        (6, "(float[] x, float[3] b) => (y)", "y = Add<broadcast = 1, axis = 1>(x, b)", "needs known ranks"),
        (6, "(float[2,3,4] x, int64[r] d, float[3] s) => (y)", "t = Reshape(x, d) y = PRelu(t, s)",
         "need known ranks"),
        (8, "(float[2] n, float[2,3] s, float[2,4,3] x) => (y, z)",
         "y, z = Scan<num_scan_inputs = 1, body = b (float[3] s1, float[3] e) => (float[3] t, float[3] u) "
         "{ t = Add(s1, e) u = Mul(t, e) }>(n, s, x)", "sequence_lens"),
        (1, "(float[2,3] x) => (y)", 'y = LpPool<p = 1.5, kernel_shape = [1]>(x)', "not a whole number"),
    ],
)  # fmt: skip
def test_models_without_a_canonical_form_are_refused_with_a_hint(
    opset: int, signature: str, body: str, needle: str
) -> None:
    with pytest.raises(Unsupported, match=needle) as raised:
        parsed(model(opset, signature, body, ir_version=3))
    assert "export the model" in raised.value.hint


def test_resize_without_sizes_is_invalid() -> None:
    with pytest.raises(ModelInvalid, match="neither scales nor sizes"):
        parsed(model(13, X, "y = Resize(x)"))
