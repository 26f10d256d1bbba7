"""Helpers for ops that only move elements: results equal the reference's bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from hypothesis import strategies as st
from onnx import helper

from atcpy.ir import NC1HWC0, Node, Reject
from atcpy.ir.tensor import Array
from atcpy.ops import find_opdef
from atcpy.ops.core.reference import infer_by_onnx, known_constant, to_node_proto
from tests.harness import make_node, reference_op, run_op
from tests.ort import open_ort

ITEMS = [np.uint8, np.float16, np.float32, np.int64, np.complex128]


def arange(shape: Sequence[int], dtype: type = np.float32) -> Array:
    """Distinct elements, modulo 256 for 8-bit dtypes; the first float is NaN, the second −0."""
    array = np.arange(1, int(np.prod(shape)) + 1).astype(dtype).reshape(shape)
    if array.dtype.kind == "f":
        array.reshape(-1)[:2] = [np.nan, -0.0][: min(2, array.size)]
    return array


def shapes(rank: int, largest: int = 5) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes of a rank; sizes include 0 and values around the channel block."""
    return st.tuples(*[st.sampled_from([0, 1, 1, 2, 3, largest, largest, 16, 17][: 6 if axis else 9])
                       for axis in range(rank)])  # fmt: skip


def check_exact(
    op_type: str,
    arrays: Sequence[Array | None],
    attrs: Mapping[str, object] | None = None,
    *,
    isa: str | None = None,
    outputs: int = 1,
    oracle: Callable[[Node, Sequence[Array | None]], list[Array]] = reference_op,
) -> Node:
    """Assert that the kernels agree with the oracle, in plain format and in NC1HWC0 if the op supports it, and that
    inference agrees with ONNX's. Integer inputs after the first are constants.
    """
    constants = [index for index, array in enumerate(arrays) if array is not None and index and array.dtype.kind == "i"]
    plain, blocked = (make_node(op_type, arrays, attrs, constants=constants, outputs=outputs) for _ in range(2))
    for value, expected in zip(plain.outputs, infer_by_onnx(plain, known_constant), strict=True):
        assert value.desc == expected
    expected_arrays = oracle(plain, arrays)
    assert_same(run_op(plain, arrays, isa=isa, threads=2), expected_arrays)
    if takes_blocked(blocked):
        assert_same(run_op(blocked, arrays, isa=isa, threads=2, blocked=True), expected_arrays)
    opdef = find_opdef(plain)
    assert opdef is not None
    if opdef.evaluate is not None:
        assert_same(opdef.evaluate(plain, arrays), expected_arrays)
    return plain


def onnxruntime_op(node: Node, arrays: Sequence[Array | None]) -> list[Array]:
    """The outputs of ONNX Runtime, at an opset that it supports fully."""
    proto = to_node_proto(node)
    feeds = {name: array for name, array in zip(proto.input, arrays, strict=True) if array is not None}
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in feeds.items()
    ]
    outputs = [
        helper.make_tensor_value_info(value.name, value.desc.dtype.onnx, value.desc.static_shape)
        for value in node.outputs
    ]
    model = helper.make_model(
        helper.make_graph([proto], "op", inputs, outputs), opset_imports=[helper.make_opsetid("", 21)], ir_version=10
    )
    session = open_ort(model)
    return list(session.run(None, feeds))


def assert_same(ours: Sequence[Array], expected: Sequence[Array]) -> None:
    """Assert equal types, shapes and elements; NaN equals NaN, and −0 differs from 0."""
    assert len(ours) == len(expected)
    for mine, theirs in zip(ours, expected, strict=True):
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_array_equal(np.ascontiguousarray(mine), theirs)
        if mine.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(mine), np.signbit(theirs))


def takes_blocked(node: Node) -> bool:
    """Whether the op's layout accepts input 0 in NC1HWC0."""
    opdef = find_opdef(node)
    assert opdef is not None
    if opdef.layout is None or node.operand(0).desc.shape is None or len(node.operand(0).desc.static_shape) != 4:
        return False
    if any(value.tensor is None and len(value.desc.static_shape) != 4 for value in node.operands):
        return False
    at_hand = tuple(
        NC1HWC0 if value is not None and value.tensor is None else node.operand(0).desc.format for value in node.inputs
    )
    return not isinstance(opdef.layout(node, at_hand), Reject)
