"""Normalizations: Batch, Instance, Layer, RMS and Group, and LRN."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import NC1HWC0, DType, Engine, Format, Node, Reject, Rewriter, TensorDesc, Value
from atcpy.ir.shape import Dim, Shape, StaticShape
from atcpy.ir.tensor import Array
from atcpy.ops.core.axes import normal_axis
from atcpy.ops.core.opdef import Axis, KernelCall, Known, Layout, OpDef, ParamValue, Trait, register_operator
from atcpy.ops.core.signature import Signature
from atcpy.ops.core.structural import same_as_input
from atcpy.ops.lowerings.averages import moving_average
from atcpy.ops.lowerings.normalization import train_batch_norm

FLOATS = frozenset({DType.FLOAT32, DType.FLOAT64})

# --- inference ---------------------------------------------------------------------------------


def infer_channelwise(node: Node, known: Known) -> Sequence[TensorDesc]:
    """Every output has the input's type, or, of training, the vectors'; the vectors have one entry a channel."""
    x = node.operand(0).desc
    if x.shape is not None:
        if len(x.shape) < 2:
            raise ModelInvalid("EZ8888", where=node, what=f"input of rank {len(x.shape)} has no channels")
        for index in range(1, node.input_count):
            _check_vector(node, index, x.shape[1])
    statistics = [node.operand(index).desc.as_plain() for index in range(3, min(node.input_count, 5))]
    return [x.as_plain(), *statistics][: len(node.outputs)]


def _check_vector(node: Node, index: int, channels: Dim) -> None:
    shape = node.operand(index).desc.shape
    if shape is None:
        return
    if len(shape) != 1 or (isinstance(shape[0], int) and isinstance(channels, int) and shape[0] != channels):
        what = f"input {index} has shape {[str(dim) for dim in shape]}, not [{channels}]"
        raise ModelInvalid("EZ8888", where=node, what=what)


def infer_layer(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The output is of the input's type; the statistics keep the dims before the axis."""
    x = node.operand(0).desc
    if x.shape is None:
        return [x.as_plain(), *[TensorDesc.plain(DType.FLOAT32, None)] * 2][: len(node.outputs)]
    axis = _axis(node, len(x.shape))
    statistics: Shape = (*x.shape[:axis], *[1] * (len(x.shape) - axis))
    stash = DType.from_onnx(node.int_attr("stash_type", DType.FLOAT32.onnx))
    return [x.as_plain(), *[TensorDesc.plain(stash, statistics)] * 2][: len(node.outputs)]


def infer_group(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The output is of the input's type; the groups must divide the channels."""
    x = node.operand(0).desc
    groups = node.int_attr("num_groups", 0)
    if groups < 1:
        raise ModelInvalid("E13014", where=node, what=f"num_groups = {groups}")
    if x.shape is not None and len(x.shape) > 1 and isinstance(x.shape[1], int) and x.shape[1] % groups:
        raise ModelInvalid("E13014", where=node, what=f"num_groups = {groups} does not divide {x.shape[1]} channels")
    return infer_channelwise(node, known)


def infer_as_input(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The output is of the input's type."""
    return [node.operand(0).desc.as_plain()]


def infer_lrn(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The output is of the input's type."""
    if node.int_attr("size", 0) < 1:
        raise ModelInvalid("E13014", where=node, what=f"size = {node.int_attr('size', 0)}")
    return [node.operand(0).desc.as_plain()]


def _axis(node: Node, rank: int) -> int:
    return normal_axis(node, node.int_attr("axis", -1), rank)


# --- engines and layout ------------------------------------------------------------------------


def supports_floats(node: Node) -> Iterable[Reject]:
    """The kernels take float32 or float64, all dims known, and no statistics as outputs."""
    dtypes = [value.desc.dtype for value in node.operands]
    if dtypes[0] not in FLOATS:
        yield Reject("dtype", node.name, dtypes[0].long)
    other = next((dtype for dtype in dtypes if dtype is not dtypes[0]), None)
    if other is not None:
        yield Reject("mixed-types", node.name, f"{dtypes[0].long} and {other.long}")
    if not all(value.desc.is_static for value in node.operands):
        yield Reject("shape-unknown", node.name)
    elif 0 in node.operand(0).desc.static_shape:
        yield Reject("empty", node.name)
    if node.int_attr("training_mode", 0):
        yield Reject("training-mode", node.name)
    elif any(value.use_count for value in node.outputs[1:]):
        yield Reject("statistics-used", node.name)


def supports_layer(node: Node) -> Iterable[Reject]:
    """Also: scale and bias have the normalized dims, and none is spread."""
    yield from supports_floats(node)
    yield from _supports_stash_type(node)
    if not all(value.desc.is_static for value in node.operands):
        return
    x = node.operand(0).desc.static_shape
    normalized = _significant(x[_axis(node, len(x)) :])
    for index in range(1, node.input_count):
        value = node.input(index)
        if value is not None and _significant(value.desc.static_shape) != normalized:
            yield Reject("broadcast", node.name, f"input {index}")


def supports_group(node: Node) -> Iterable[Reject]:
    """Also: computes in float32."""
    yield from supports_floats(node)
    yield from _supports_stash_type(node)


def _supports_stash_type(node: Node) -> Iterable[Reject]:
    """Statistics are computed in the input's type, which must be no less precise than what is asked for."""
    asked = DType.from_onnx(node.int_attr("stash_type", DType.FLOAT32.onnx))
    if asked is not DType.FLOAT32 and asked is not node.operand(0).desc.dtype:
        yield Reject("stash-type", node.name)


def supports_lrn(node: Node) -> Iterable[Reject]:
    """Also: there are channels."""
    yield from supports_floats(node)
    shape = node.operand(0).desc.shape
    if shape is not None and len(shape) < 2:
        yield Reject("rank", node.name)


def _significant(shape: StaticShape) -> StaticShape:
    """The dims without leading ones."""
    for index, dim in enumerate(shape):
        if dim != 1:
            return shape[index:]
    return ()


def layout_channelwise(node: Node, at_hand: tuple[Format, ...]) -> Layout | Reject:
    """In NC1HWC0 where the input is: each lane is a channel. The vectors stay plain."""
    if at_hand[0] != NC1HWC0:
        return Reject("no-blocked-input", node.name)
    return Layout(
        (NC1HWC0, *[None] * (node.input_count - 1)),
        (NC1HWC0, *[None] * (len(node.outputs) - 1)),
    )


# --- lowering ----------------------------------------------------------------------------------


def lower_channelwise(node: Node) -> Iterable[KernelCall]:
    """One launch of `batchnorm`; an InstanceNormalization has no mean and variance to give it."""
    x = node.operand(0)
    n, c, *spatial = x.desc.static_shape
    params: dict[str, ParamValue] = {
        "n": n,
        "c": c,
        "pixels": math.prod(spatial),
        "c0": x.desc.format.c0 or 1,
        "epsilon": node.float_attr("epsilon", 1e-5),
    }
    yield KernelCall("batchnorm", (*node.inputs, None, None)[:5], (node.output,), params)


def lower_layer(node: Node) -> Iterable[KernelCall]:
    """One launch of `normalize`, each element under its own scale."""
    x = node.operand(0)
    shape = x.desc.static_shape
    axis = _axis(node, len(shape))
    params: dict[str, ParamValue] = {
        "kind": "layer" if node.op_type == "LayerNormalization" else "rms",
        "rows": math.prod(shape[:axis]),
        "n": math.prod(shape[axis:]),
        "run": 1,
        "period": 1,
        "epsilon": node.float_attr("epsilon", 1e-5),
    }
    yield KernelCall("normalize", (*node.inputs, None)[:3], (node.output,), params)


def lower_group(node: Node) -> Iterable[KernelCall]:
    """One launch of `normalize`, each channel of a group under its own scale."""
    x = node.operand(0)
    n, c, *spatial = x.desc.static_shape
    groups, pixels = node.int_attr("num_groups", 1), math.prod(spatial)
    params: dict[str, ParamValue] = {
        "kind": "layer",
        "rows": n * groups,
        "n": c // groups * pixels,
        "run": pixels,
        "period": groups,
        "epsilon": node.float_attr("epsilon", 1e-5),
    }
    yield KernelCall("normalize", (*node.inputs, None)[:3], (node.output,), params)


def lower_lrn(node: Node) -> Iterable[KernelCall]:
    """One launch of `lrn`."""
    x = node.operand(0)
    n, c, *spatial = x.desc.static_shape
    params: dict[str, ParamValue] = {
        "n": n,
        "c": c,
        "pixels": math.prod(spatial),
        "size": node.int_attr("size", 1),
        "alpha": node.float_attr("alpha", 1e-4),
        "beta": node.float_attr("beta", 0.75),
        "bias": node.float_attr("bias", 1.0),
    }
    yield KernelCall("lrn", (x,), (node.output,), params)


def evaluate_lrn(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """By definition: ONNX's reference sums over the wrong channels unless N = C."""
    x, size = arrays[0], node.int_attr("size", 1)
    assert x is not None
    pads = [(0, 0), ((size - 1) // 2, size // 2), *[(0, 0)] * (x.ndim - 2)]
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(np.square(x), pads), size, 1)
    power = node.float_attr("bias", 1.0) + node.float_attr("alpha", 1e-4) / size * windows.sum(-1)
    return [np.asarray(x / power ** node.float_attr("beta", 0.75), x.dtype)]


# --- in other ops --------------------------------------------------------------------------------


def expand_training(node: Node, rw: Rewriter) -> Sequence[Value] | Reject | None:
    """Normalizes with the statistics of this batch, and moves the running ones towards them."""
    if not node.int_attr("training_mode", 0):
        return None
    x, scale, bias, *running = node.operands
    if x.desc.shape is None:
        return Reject("shape-unknown", node.name)
    y, *batch = train_batch_norm(rw, x, scale, bias, node.float_attr("epsilon", 1e-5))
    momentum = node.float_attr("momentum", 0.9)
    return [y, *(moving_average(rw, old, new, momentum) for old, new in zip(running, batch, strict=True))]


def expand_lp(node: Node, rw: Rewriter) -> Sequence[Value] | Reject:
    """x / |x|, where |x| is not 0."""
    x, kind = node.operand(0), {1: "ReduceL1", 2: "ReduceL2"}.get(node.int_attr("p", 2))
    if kind is None:
        raise ModelInvalid("E13014", where=node, what=f"p = {node.int_attr('p', 2)}")
    norm = rw.op(kind, x, rw.const(np.array([node.int_attr("axis", -1)])), keepdims=1)
    zero, one = (rw.const(number, dtype=x.desc.dtype) for number in (0, 1))
    return [rw.op("Div", x, rw.op("Where", rw.op("Equal", norm, zero), one, norm))]


def expand_mean_variance(node: Node, rw: Rewriter) -> Sequence[Value] | None:
    """(x − mean) / (deviation + 1e-9) where x is no float32: the standard's function adds one, halves have no 1e-9."""
    x = node.operand(0)
    if x.desc.dtype is DType.FLOAT32:
        return None
    wide = x if x.desc.dtype in FLOATS else rw.op("Cast", x, to=DType.FLOAT32.onnx)
    axes = rw.const(np.array(node.ints_attr("axes", (0, 2, 3))))
    apart = rw.op("Sub", wide, rw.op("ReduceMean", wide, axes, keepdims=1))
    deviation = rw.op("Sqrt", rw.op("ReduceMean", rw.op("Mul", apart, apart), axes, keepdims=1))
    min_deviation = rw.const(1e-9, dtype=x.desc.dtype if x.desc.dtype in FLOATS else DType.FLOAT32)
    y = rw.op("Div", apart, rw.op("Add", deviation, min_deviation))
    return [y if wide is x else rw.op("Cast", y, to=x.desc.dtype.onnx)]


# --- records -----------------------------------------------------------------------------------

for _name, _ge_type in (("BatchNormalization", "BatchNorm"), ("InstanceNormalization", "InstanceNorm")):
    register_operator(
        OpDef(
            name=_name,
            ge_type=_ge_type,
            infer=infer_channelwise,
            expand=expand_training,
            engines={Engine.VECTOR: supports_floats},
            layout=layout_channelwise,
            lower=lower_channelwise,
            inplace=(0,),
            traits=Trait.CHANNELWISE,
            data=(0,),
        )
    )
# New in opset 17; ONNX Runtime's optimizer writes it into models of any opset.
_EARLY = {"LayerNormalization": Signature.of("X Scale B?", "axis:i epsilon:f stash_type:i", (1, 3))}
for _name, _ge_type in (("LayerNormalization", "LayerNorm"), ("RMSNormalization", "RMSNormalization")):
    register_operator(
        OpDef(
            name=_name,
            signature=_EARLY.get(_name),
            ge_type=_ge_type,
            infer=infer_layer,
            engines={Engine.VECTOR: supports_layer},
            lower=lower_layer,
            inplace=(0,),
            data=(0,),
            axis=Axis(-1, to_last=True),
        )
    )
register_operator(
    OpDef(
        name="GroupNormalization",
        infer=infer_group,
        engines={Engine.VECTOR: supports_group},
        lower=lower_group,
        inplace=(0,),
    )
)
register_operator(OpDef(name="LpNormalization", infer=same_as_input, expand=expand_lp))
register_operator(
    OpDef(name="LRN", infer=infer_lrn, evaluate=evaluate_lrn, engines={Engine.VECTOR: supports_lrn}, lower=lower_lrn)
)
register_operator(OpDef(name="MeanVarianceNormalization", infer=infer_as_input, expand=expand_mean_variance))
