"""Operands that do not fit each other: refused at conversion where they are known, else in the run that meets them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import atcpy
from atcpy.errors import AtcError, ModelInvalid

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
BATCH, STEPS, INPUTS, HIDDEN = 2, 4, 5, 3


def right_shapes(op: str, layout: int) -> dict[str, list[int]]:
    gates, state = GATES[op], [BATCH, 1, HIDDEN] if layout else [1, BATCH, HIDDEN]
    shapes = {
        "X": [BATCH, STEPS, INPUTS] if layout else [STEPS, BATCH, INPUTS],
        "W": [1, gates * HIDDEN, INPUTS],
        "R": [1, gates * HIDDEN, HIDDEN],
        "B": [1, 2 * gates * HIDDEN],
        "sequence_lens": [BATCH],
        "initial_h": state,
    }
    return shapes | ({"initial_c": state, "P": [1, 3 * HIDDEN]} if op == "LSTM" else {})


def wrong_shapes(shape: list[int]) -> list[list[int]]:
    """One dim larger or smaller, one more, one less."""
    changed = [[*shape[:axis], size, *shape[axis + 1 :]] for axis in range(len(shape)) for size in (1, shape[axis] + 1)]
    return [other for other in [*changed, [1, *shape], shape[1:]] if other != shape and other]


def recurrent(op: str, shapes: Mapping[str, list[int]], layout: int, open_input: str = "") -> onnx.ModelProto:
    inputs = [
        helper.make_tensor_value_info(
            name,
            TensorProto.INT32 if name == "sequence_lens" else TensorProto.FLOAT,
            [f"{name}{axis}" for axis in range(len(shape))] if name == open_input else shape,
        )
        for name, shape in shapes.items()
    ]
    node = helper.make_node(op, [*shapes], ["Y", "Y_h"], name="n", hidden_size=HIDDEN, layout=layout)
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("Y", "Y_h")]
    graph = helper.make_graph([node], "g", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


CASES = [
    (op, layout, name, shape)
    for op in GATES
    for layout in (0, 1)
    for name, right in right_shapes(op, layout).items()
    for shape in wrong_shapes(right)
    if not (name == "X" and len(shape) == 3 and shape[2] == INPUTS and shape[1 - layout] == BATCH)
]


def feeds_of(shapes: Mapping[str, list[int]]) -> dict[str, np.ndarray[Any, Any]]:
    return {name: np.ones(shape, np.int32 if name == "sequence_lens" else np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize(("op", "layout", "name", "shape"), CASES)
def test_a_recurrent_layer_of_operands_that_do_not_fit_is_refused(
    op: str, layout: int, name: str, shape: list[int], tmp_path: Path
) -> None:
    shapes = right_shapes(op, layout) | {name: shape}
    with pytest.raises(ModelInvalid) as raised:
        atcpy.convert(recurrent(op, shapes, layout), tmp_path / "m.om")
    assert (raised.value.code, raised.value.where.node) == ("EZ8888", "n")


@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("name", ["X", "sequence_lens", "initial_h", "initial_c", "P"])
def test_operands_of_open_dims_are_refused_when_they_do_not_fit(
    op: str, layout: int, name: str, tmp_path: Path
) -> None:
    shapes = right_shapes(op, layout)
    if name not in shapes:
        pytest.skip(f"{op} has no {name}")
    atcpy.convert(recurrent(op, shapes, layout, name), tmp_path / "m.om")
    session = atcpy.InferenceSession(tmp_path / "m.om")
    y, _ = session.run(None, feeds_of(shapes))
    assert np.isfinite(y).all() and y.size == STEPS * BATCH * HIDDEN
    for case_op, case_layout, case_name, shape in CASES:
        if (case_op, case_layout, case_name, len(shape)) == (op, layout, name, len(shapes[name])):
            with pytest.raises(ModelInvalid) as raised:
                session.run(None, feeds_of(shapes | {name: shape}))
            assert raised.value.code in ("EZ8888", "D0001")


H = '<ir_version: 10, opset_import: ["" : 21]> '
NAN, INF = np.float32(np.nan), np.float32(np.inf)
# What is refused at conversion when all is constant, when it runs when it is fed.
VALUES: dict[str, tuple[str, dict[str, Any]]] = {
    "Range from NaN": ("Range(a, b, c)", {"a": NAN, "b": np.float32(1), "c": np.float32(1)}),
    "Range to NaN": ("Range(a, b, c)", {"a": np.float32(1), "b": NAN, "c": np.float32(1)}),
    "Range to infinity": ("Range(a, b, c)", {"a": np.float32(1), "b": INF, "c": np.float32(1)}),
    "Range in steps of NaN": ("Range(a, b, c)", {"a": np.float32(1), "b": np.float32(1), "c": NAN}),
    "Range in infinite steps": ("Range(a, b, c)", {"a": np.float32(1), "b": np.float32(2), "c": INF}),
    "Range in steps of 0": ("Range(a, b, c)", {"a": np.float32(1), "b": np.float32(2), "c": np.float32(0)}),
    "Range of integers in steps of 0": ("Range(a, b, c)", {"a": np.int64(1), "b": np.int64(2), "c": np.int64(0)}),
    "TopK of a negative K": ("TopK(x, k)", {"x": np.ones(4, np.float32), "k": np.array([-1])}),
    "TopK of more than there are": ("TopK(x, k)", {"x": np.ones(4, np.float32), "k": np.array([5])}),
    "TopK of two K": ("TopK(x, k)", {"x": np.ones(4, np.float32), "k": np.array([1, 2])}),
    "TopK of no K": ("TopK(x, k)", {"x": np.ones(4, np.float32), "k": np.array([], np.int64)}),
    "Resize by NaN": ("Resize(x, , s)", {"x": np.ones((1, 1), np.float32), "s": np.array([1, NAN], np.float32)}),
    "Resize by infinity": ("Resize(x, , s)", {"x": np.ones((1, 1), np.float32), "s": np.array([1, INF], np.float32)}),
    "Resize by -1": ("Resize(x, , s)", {"x": np.ones((1, 1), np.float32), "s": np.array([1, -1], np.float32)}),
    "Resize to -1": ("Resize(x, , , z)", {"x": np.ones((1, 1), np.float32), "z": np.array([1, -1])}),
    "Resize by a matrix": ("Resize(x, , s)", {"x": np.ones((1, 1), np.float32), "s": np.ones((1, 2), np.float32)}),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_that_make_no_sense_are_refused(name: str, tmp_path: Path) -> None:
    call, values = VALUES[name]
    arrays = {key: np.asarray(value) for key, value in values.items()}
    results = "y, i" if "TopK" in call else "y"
    model = onnx.parser.parse_model(f"{H} g () => (y) {{ [n] {results} = {call} }}")
    fed = onnx.ModelProto.FromString(model.SerializeToString())
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, key) for key, array in arrays.items())
    fed.graph.input.extend(
        helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for key, array in arrays.items()
    )
    with pytest.raises(ModelInvalid) as raised:
        atcpy.convert(model, tmp_path / "m.om")
    assert (raised.value.code, raised.value.where.node) == ("EZ8888", "n")
    with pytest.raises(ModelInvalid) as raised:
        atcpy.convert(fed, tmp_path / "m.om")
        atcpy.InferenceSession(tmp_path / "m.om").run(None, arrays)
    assert raised.value.where.node == "n"


@pytest.mark.parametrize("is_known", [True, False])
def test_a_resize_has_scales_or_sizes_but_not_both(is_known: bool, tmp_path: Path) -> None:
    shape = "2" if is_known else "k"
    model = f"{H} g (float[1,1] x, float[{shape}] s, int64[{shape}] z) => (y) {{ [n] y = Resize(x, , s, z) }}"
    with pytest.raises(ModelInvalid, match="E13014: has both scales and sizes"):
        atcpy.convert(onnx.parser.parse_model(model), tmp_path / "m.om")


@pytest.mark.parametrize(
    ("call", "feeds"),
    [
        ("Expand(x, s)", {"x": np.ones(1, np.float32), "s": np.array([10**6, 10**6])}),
        ("Tile(x, s)", {"x": np.ones(1, np.float32), "s": np.array([10**12])}),
        ("Resize(x, , s)", {"x": np.ones((1, 1), np.float32), "s": np.array([1e6, 1e6], np.float32)}),
        ("MelWeightMatrix(a, a, b, c, d)", {
            "a": np.array(10**6), "b": np.array(16000), "c": np.array(0.0, np.float32), "d": np.array(8e3, np.float32),
        }),
    ],
)  # fmt: skip
def test_results_beyond_the_memory_are_a_limit(
    call: str, feeds: dict[str, np.ndarray[Any, Any]], tmp_path: Path
) -> None:
    """Before they are computed: the reference implementation builds them piece by piece."""
    model = onnx.parser.parse_model(f"{H} g () => (y) {{ [n] y = {call} }}")
    model.graph.input.extend(
        helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for key, array in feeds.items()
    )
    atcpy.convert(model, tmp_path / "m.om")
    with pytest.raises(AtcError, match="R0001"):
        atcpy.InferenceSession(tmp_path / "m.om").run(None, feeds)


# A node that is right, and what makes it wrong: a text in it, and what stands there instead.
CHANGES: list[tuple[str, str, str, str]] = [
    (signature, call, old, new)
    for signature, call, changes in (
        (
            "float[1,2,4,4] x, float[3,2,3,3] w, float[1,18,2,2] o, float[3] b, float[1,9,2,2] m",
            "DeformConv(x, w, o, b, m)",
            {"1,18": "1,9", "2,2] o": "3,3] o", "3] b": "4] b", "1,9": "1,18", "(x": "<kernel_shape = [2, 2]>(x",
             "(x, w": "<group = -1>(x, w", "(x, w, o": "<offset_group = -1>(x, w, o"},
        ),
        ("float[1,2,4,4] x, float[3,4] r, int64[3] i", "RoiAlign(x, r, i)",
         {"3] i": "2] i", "3,4": "3,5", "(x": "<sampling_ratio = -1>(x", "(x, r": "<sampling_ratio = 99999>(x, r"}),
        ("float[1,2,3,8] x, float[1,3,4] c, float[1,3,4] s", "RotaryEmbedding(x, c, s)",
         {"4] c": "5] c", "4] s": "3] s", "(x": "<rotary_embedding_dim = -2>(x"}),
        ("float[1,2,3,8] q, float[1,2,5,8] k, float[1,2,5,4] v", "Attention(q, k, v)",
         {"8] q": "6] q", "8] k": "9] k", "5,4] v": "6,4] v", "[1,2,5,4] v": "[1,2,1,5,4] v"}),
        ("float[3,4] x, int64[2,4] i, float[2,4] u", "ScatterElements(x, i, u)",
         {"[2,4] i": "[4] i", "[2,4] u": "[1,4] u", "[3,4] x": "[1,3,4] x"}),
        ("float[3,4] x, int64[2,1] i, float[2,4] u", "ScatterND(x, i, u)",
         {"[2,4] u": "[2,3] u", "[2,1] i": "[2,3] i", "[2,4]": "[3,4]"}),
        ("float[2,5,4] x, float[2,1,4] u, int64[2] i", "TensorScatter(x, u, i)",
         {"[2] i": "[3] i", "[2] ": "[2,1] ", "1,4] u": "1,3] u"}),
        ("int64[2] i", "ConstantOfShape(i)", {"[2] i": "[2,2] i", "[2]": ""}),
        ("float[1,2,3] x, int64[4] i", "AffineGrid(x, i)", {"[4] i": "[1,4] i"}),
        ("float[2,1] x, int64[1] i", "Squeeze(x, i)", {"[1] i": "[1,1] i"}),
        ("float[2] x, int64[1] i", "Unsqueeze(x, i)", {"[1] i": "[1,1] i"}),
        ("float[1,1,4] x, float[1,1,2] w", "ConvTranspose(x, w)",
         {"(x": "<output_padding = [0, 0], output_shape = [5]>(x", "(x, w": "<output_shape = [1, 5]>(x, w"}),
        ("float[2,3] x, float[3] s", "LayerNormalization(x, s)", {"(x": "<stash_type = 77>(x"}),
        ("float[3,4] x, int64[1] s, int64[1] e, int64[1] a", "Slice(x, s, e, a)",
         {"int64[1] s": "int64[2] s", "int64[1] e": "int64 e", "int64[1] a": "int64 a"}),
        ("float[3,4] x, float[3,2] s, uint8[3,2] z", "QuantizeLinear<axis = 1, block_size = 2>(x, s, z)",
         {"float[3,2] s": "float[3] s", "uint8[3,2] z": "uint8[2] z", "float[3,2]": "float[2,2]"}),
        ("float[2,3] x", "ReduceMax(x)", {"(x": "<keepdims = 2>(x"}),
        ("float[2,3] x", "ArgMax(x)", {"(x": "<select_last_index = -1>(x"}),
        ("float[2,3] x, float8e8m0 s", "CastLike(x, s)", {"(x": '<round_mode = "away">(x'}),
        ("float[4,1,2] x, float[1,6,2] w, float[1,6,6] r", "RNN<hidden_size = 6>(x, w, r)",
         {"<hidden_size = 6": "<hidden_size = 6, activation_alpha = [0.1, 0.2]", "= 6>": "= -6>"}),
        ("float[1,1] x", "Resize(x, , s)", {"(x": '<mode = "spline">(x', "(x,": '<nearest_mode = "away">(x,'}),
        ("float[2,3,4] x, int64[2,1] i", "GatherND<batch_dims = 1>(x, i)", {"[2,1] i": "[3,1] i"}),
        ("float[1,1,4,4] x, float[1,1,2,2] w", "ConvTranspose<output_shape = [5, 5]>(x, w)",
         {"<": "<strides = [0, 0], ", "<output": "<dilations = [1], output"}),
    )
    for old, new in changes.items()
]  # fmt: skip


def node_model(signature: str, call: str) -> onnx.ModelProto:
    extra = "s = Constant<value_floats = [1.0, 1.0]>()" if "Resize" in call else ""
    head = '<ir_version: 11, opset_import: ["" : 24]> '
    return onnx.parser.parse_model(f"{head} g ({signature}) => (y) {{ {extra} [n] y = {call} }}")


@pytest.mark.parametrize(("signature", "call"), sorted({change[:2] for change in CHANGES}))
def test_operands_that_fit_are_accepted(signature: str, call: str, tmp_path: Path) -> None:
    assert atcpy.convert(node_model(signature, call), tmp_path / "m.om").output


@pytest.mark.parametrize(("signature", "call", "old", "new"), CHANGES)
def test_operands_and_attributes_that_do_not_fit_are_refused(
    signature: str, call: str, old: str, new: str, tmp_path: Path
) -> None:
    changed = (signature.replace(old, new, 1), call.replace(old, new, 1))
    assert changed != (signature, call)
    with pytest.raises(AtcError) as raised:
        atcpy.convert(node_model(*changed), tmp_path / "m.om")
    assert (raised.value.code in ("EZ8888", "E13014", "R0001"), raised.value.where.node) == (True, "n"), raised.value
