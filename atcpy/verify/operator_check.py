"""The forms of one custom operator beside each other: a test of an operator in one line.

infer      promises what `forward` returns
decompose  computes what `forward` computes, in a package of one node; so does the kernel
kernel     leaves its inputs alone, and the bytes around its outputs
backward   is the slope of `forward`, in float64
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from atcpy import InferenceSession
from atcpy.errors import CustomOpError
from atcpy.ir import DType, Graph, Node, Tensor, TensorDesc
from atcpy.ir.tensor import Array
from atcpy.om import writer
from atcpy.ops.custom import CustomOp, OpContext, TensorType, custom_op_of
from atcpy.options import convert_options
from atcpy.stages.pipeline import compile_model
from atcpy.verify.compare import compare

_GUARD_BYTES = 64
_GUARD = 0xA5
_STEP = 1e-6
_MAX_SLOPES = 64  # of one input
_SLOPE_SHARE = 1e-5  # of the largest slope, by which gradients may differ


def check_operator(operator: type | str, *arrays: Any, **attrs: Any) -> None:
    """Compare all forms that a registered operator has, on these inputs (None: left out) and attributes.

    CustomOpError: C0001 for what raises, C0002 for what differs.
    """
    custom = custom_op_of(operator)
    inputs = [None if array is None else np.asarray(array) for array in arrays]
    node = _node_of(custom, inputs, attrs)
    expected = custom.evaluate(node, inputs)
    if custom.kernel is not None:
        _check_memory(custom, node, inputs)
    if not custom.random:
        _check_package(custom, node, inputs, attrs, expected)
        if "backward" in custom.hooks:
            _check_gradients(custom, node, inputs, attrs)


def _node_of(custom: CustomOp, inputs: Sequence[Array | None], attrs: Mapping[str, Any]) -> Node:
    """A node of the operator whose outputs have the types that `infer` promises."""
    graph = Graph("check_operator")
    values = [None if array is None else graph.append("Data", name="x").output for array in inputs]
    for value, array in zip(values, inputs, strict=True):
        if value is not None and array is not None:
            value.desc = TensorDesc.plain(DType.from_numpy(array.dtype), array.shape)
    converted = {name: Tensor.of(value) if isinstance(value, np.ndarray) else value for name, value in attrs.items()}
    converted = {name: tuple(value) if isinstance(value, list) else value for name, value in converted.items()}
    outputs = 1 if custom.outputs is None else custom.outputs
    node = graph.append(
        custom.name, values, converted, name=custom.name, outputs=("",) * outputs, domain=custom.node_domain
    )
    types = [None if array is None else TensorType.of(array) for array in inputs]
    for value, desc in zip(node.outputs, custom.infer_types(node, types, inputs), strict=True):
        value.desc = desc
    return node


def _check_package(
    custom: CustomOp, node: Node, inputs: Sequence[Array | None], attrs: Mapping[str, Any], expected: Sequence[Array]
) -> None:
    options = convert_options({"custom_ops": custom.source or None})
    package = writer.to_bytes(compile_model(_model_of(custom, node, inputs, attrs), options)[0])
    feeds = {f"x{index}": array for index, array in enumerate(inputs) if array is not None}
    form = "the kernel" if custom.kernel is not None else "decompose" if "decompose" in custom.hooks else "the package"
    for index, (actual, expected_array) in enumerate(
        zip(InferenceSession(package, threads=1).run(None, feeds), expected, strict=True)
    ):
        report = compare(f"output {index}", actual, expected_array)
        if not report.passed:
            raise _differs(custom, f"{form} does not compute what forward does: output {index} {report.why}")


def _model_of(
    custom: CustomOp, node: Node, inputs: Sequence[Array | None], attrs: Mapping[str, Any]
) -> onnx.ModelProto:
    names = ["" if array is None else f"x{index}" for index, array in enumerate(inputs)]
    converted: dict[str, Any] = {
        name: numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        for name, value in attrs.items()
    }
    results = [f"y{index}" for index in range(len(node.outputs))]
    proto = helper.make_node(custom.name, names, results, domain=custom.domain, **converted)
    ports = [
        helper.make_tensor_value_info(name, DType.from_numpy(array.dtype).onnx, array.shape)
        for name, array in zip(names, inputs, strict=True)
        if array is not None
    ]
    ends = [
        helper.make_tensor_value_info(name, v.desc.dtype.onnx, None)
        for name, v in zip(results, node.outputs, strict=True)
    ]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(custom.domain, 1)]
    return helper.make_model(helper.make_graph([proto], "g", ports, ends), opset_imports=opsets, ir_version=10)


def _check_memory(custom: CustomOp, node: Node, inputs: Sequence[Array | None]) -> None:
    copies = [None if array is None else array.copy() for array in inputs]
    raws = [np.full(value.desc.nbytes + 2 * _GUARD_BYTES, _GUARD, np.uint8) for value in node.outputs]
    outputs = [
        raw[_GUARD_BYTES:-_GUARD_BYTES].view(value.desc.dtype.numpy).reshape(value.desc.static_shape)
        for raw, value in zip(raws, node.outputs, strict=True)
    ]
    custom.compute(node, copies, outputs)
    for index, raw in enumerate(raws):
        if np.any(raw[:_GUARD_BYTES] != _GUARD) or np.any(raw[-_GUARD_BYTES:] != _GUARD):
            raise _differs(custom, f"the kernel writes beside its output {index}")
    for index, (before, after) in enumerate(zip(inputs, copies, strict=True)):
        if before is not None and after is not None and before.tobytes() != after.tobytes():
            raise _differs(custom, f"the kernel changes its input {index}")


def _check_gradients(custom: CustomOp, node: Node, inputs: Sequence[Array | None], attrs: Mapping[str, Any]) -> None:
    rng = np.random.default_rng(0)
    wide = [_wide(array) for array in inputs]
    ctx = OpContext(attrs)
    results = _tuple(custom.call("forward", node, ctx, *wide))
    grads = [rng.standard_normal(np.shape(result)) for result in results]
    for index, slope in enumerate(_tuple(custom.call("backward", node, ctx, *grads))):
        array = inputs[index] if index < len(inputs) else None
        if slope is None or array is None or not np.issubdtype(array.dtype, np.floating):
            continue
        if np.shape(slope) != array.shape:
            raise _differs(custom, f"backward gives {np.shape(slope)} for input {index}, which is {array.shape}")
        flat = rng.permutation(array.size)[:_MAX_SLOPES]
        actual = np.asarray(slope, np.float64).reshape(-1)[flat]
        expected = np.array([_slope(custom, node, attrs, wide, grads, index, int(at)) for at in flat])
        share = _SLOPE_SHARE * max(1.0, float(np.abs(expected).max(initial=0)))
        if not np.allclose(actual, expected, rtol=0, atol=share):
            worst = int(np.abs(actual - expected).argmax())
            what = f"{actual[worst]:.6g}, differences give {expected[worst]:.6g}"
            raise _differs(custom, f"backward is not the slope of forward: input {index} has {what}")


def _slope(
    custom: CustomOp,
    node: Node,
    attrs: Mapping[str, Any],
    inputs: Sequence[Array | None],
    grads: Sequence[Array],
    index: int,
    at: int,
) -> float:
    """The change of ⟨grads, forward⟩ with one element of one input, by central differences."""
    ends = []
    for step in (_STEP, -_STEP):
        moved = [None if array is None else array.copy() for array in inputs]
        target = moved[index]
        assert target is not None
        target.reshape(-1)[at] += step
        results = _tuple(custom.call("forward", node, OpContext(attrs), *moved))
        ends.append(sum(float(np.sum(grad * result)) for grad, result in zip(grads, results, strict=True)))
    return (ends[0] - ends[1]) / (2 * _STEP)


def _wide(array: Array | None) -> Array | None:
    return array.astype(np.float64) if array is not None and np.issubdtype(array.dtype, np.floating) else array


def _tuple(returned: Any) -> tuple[Any, ...]:
    return tuple(returned) if isinstance(returned, tuple | list) else (returned,)


def _differs(custom: CustomOp, what: str) -> CustomOpError:
    return CustomOpError("C0002", f"{custom.name}: {what}", where=custom.where)
