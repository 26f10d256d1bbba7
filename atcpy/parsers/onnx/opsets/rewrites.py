"""Steps of changes that no general kind covers: each up, and behind it the way down if a node may have one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx

from atcpy.ir import DType, Graph, Tensor, TensorDesc, Value
from atcpy.ir.desc import UNKNOWN
from atcpy.parsers.onnx.opsets.form import CannotDowngrade, OpsetForm

if TYPE_CHECKING:
    from atcpy.parsers.onnx.upgrade import Upgrade

_TYPE_NAMES = frozenset(onnx.TensorProto.DataType.keys())

# --- LpPool, GlobalLpPool 2 -------------------------------------------------------------------


def whole_p(up: Upgrade) -> None:
    """p was a float, 2.0 by default."""
    p = up.node.float_attr("p", 2.0)
    if not p.is_integer():
        raise up.unsupported(f"p = {p} is not a whole number", "export the model with an opset of 2 or later")
    up.attrs["p"] = int(p)


def fractional_p(form: OpsetForm) -> None:
    """Write p as a float."""
    p = form.attrs.get("p", 2)
    assert isinstance(p, int)
    form.attrs["p"] = float(p)


# --- Split 2 and 18 ---------------------------------------------------------------------------


def sizes_to_attr(up: Upgrade) -> None:
    """Opset 1 could give the sizes as an input, as opset 13 does again."""
    sizes = up.input(1)
    if sizes is None:
        return
    if sizes.tensor is None:
        raise up.unsupported("the sizes of the parts are computed", "export the model with opset 13 or later")
    if not np.isfinite(sizes.array).all():
        raise up.invalid("the sizes of the parts are not finite")
    up.attrs["split"] = tuple(int(size) for size in sizes.array.reshape(-1))
    up.set_inputs(up.input(0))


def count_parts(up: Upgrade) -> None:
    """Parts without sizes need num_outputs, the number of outputs."""
    if up.input(1) is None:
        up.attrs["num_outputs"] = len(up.node.outputs)


def check_parts_are_equal(form: OpsetForm) -> None:
    """Parts without sizes were equal; the last may be smaller since num_outputs."""
    if form.attrs.pop("num_outputs", None) is None:
        return
    shape, axis = form.shape(0), form.attrs.get("axis", 0)
    assert isinstance(axis, int)
    size = None if shape is None else shape[axis]
    if not isinstance(size, int) or size % len(form.outputs):
        raise CannotDowngrade("its parts are perhaps not equal")


# --- Reshape 5, Cast 6, Tile 6 ----------------------------------------------------------------


def check_shape_is_given(up: Upgrade) -> None:
    """Refuse a Reshape that has no shape, neither as an attribute nor as an input."""
    if up.input(1) is None:
        raise up.invalid("has no shape")


def type_by_number(up: Upgrade) -> None:
    """to = "FLOAT" → to = 1."""
    name = up.node.str_attr("to", "")
    if name not in _TYPE_NAMES:
        raise up.invalid(f'to = "{name}" is no element type')
    up.attrs["to"] = onnx.TensorProto.DataType.Value(name)


def type_by_name(form: OpsetForm) -> None:
    """to = 1 → to = "FLOAT"."""
    number = form.attrs["to"]
    assert isinstance(number, int)
    form.attrs["to"] = onnx.TensorProto.DataType.Name(number)


def repeats_of_all_axes(up: Upgrade) -> None:
    """(tiles, axis) → repeats, one number per axis."""
    tiles, axis, rank = up.input(1), up.input(2), up.rank(0)
    if tiles is None or axis is None or tiles.tensor is None or axis.tensor is None or rank is None:
        raise up.unsupported("tiles and axis are not both constants", "export the model with opset 6 or later")
    if tiles.array.size != 1 or axis.array.size != 1 or axis.array.item() not in range(rank):
        raise up.invalid(f"tiles and axis are not two numbers, with an axis of {rank}")
    repeats = [1] * rank
    repeats[int(axis.array.item())] = int(tiles.array.item())
    up.set_inputs(up.input(0), up.const(repeats, DType.INT64, label="repeats"))


# --- arithmetic and PRelu 7: operands are broadcast from the last axis, as in numpy --------------


def broadcast_from_last_axis(up: Upgrade) -> None:
    """B was aligned with the axes of A that begin at `axis`: append an axis of size 1 for each that follows."""
    broadcast = up.node.int_attr("broadcast", 0)
    axis = up.attrs.pop("axis", None)
    up.attrs.pop("broadcast", None)
    if not broadcast or not isinstance(axis, int):
        return
    rank, own = up.rank(0), up.rank(1)
    if rank is None or own is None:
        raise up.unsupported(f"broadcast along axis {axis} needs known ranks", "export the model with opset 7 or later")
    behind = rank - (axis + rank if axis < 0 else axis) - own
    if behind < 0:
        raise up.invalid(f"axis {axis} leaves no room for an input of rank {own} in one of rank {rank}")
    if behind:
        up.set_inputs(up.input(0), up.unsqueeze(up.node.operand(1), *range(own, own + behind)))


def broadcast_second_input(form: OpsetForm) -> None:
    """The second operand was broadcast, if an attribute said so."""
    a, b = form.shape(0), form.shape(1)
    if a is None or b is None:
        raise CannotDowngrade("broadcasting was asked for by an attribute")
    if a == b:
        return
    if len(b) > len(a) or b != a[len(a) - len(b) :]:
        raise CannotDowngrade("only the second operand was broadcast, along the last axes")
    form.attrs["broadcast"] = 1


def slope_of_all_axes(up: Upgrade) -> None:
    """A slope for each channel (axis 1) gets an axis of size 1 for each that follows."""
    rank, own, slope = up.rank(0), up.rank(1), up.node.operand(1)
    if slope.desc.shape in ((), (1,)):
        return
    if rank is None or own is None:
        raise up.unsupported("slopes for channels need known ranks", "export the model with opset 7 or later")
    if own == 1 and rank > 2:
        up.set_inputs(up.input(0), up.unsqueeze(slope, *range(1, rank - 1)))


def slope_of_channels(form: OpsetForm) -> None:
    """There was one slope, or one per channel."""
    if form.shape(1) not in ((), (1,)):
        raise CannotDowngrade("slopes were one, or one a channel")


# --- BatchNormalization 7, 9 and 14, Dropout 7 and 12 -----------------------------------------


def drop_training_outputs(up: Upgrade) -> None:
    """Inference was marked by is_test."""
    if up.attrs.get("is_test", 0):
        up.drop_outputs(1, "it is made in training only")


def flatten_all_but_batch(up: Upgrade) -> None:
    """spatial = 0 has statistics for each element: flatten to [N, C·D1·…] and restore the shape."""
    if up.attrs.pop("spatial", 1):
        return
    if len(up.node.outputs) > 1:
        raise up.unsupported("spatial = 0 in training", "export the model for inference")
    x = up.node.operand(0)
    shape = up.op("Shape", x)
    statistics = [up.reshape(value, (-1,)) for value in up.node.operands[1:]]
    up.set_inputs(up.op("Flatten", x, axis=1), *statistics)
    up.append(0, "Reshape", shape)


def set_training_mode(up: Upgrade) -> None:
    """More than one output meant training; the statistics saved for it are no longer returned."""
    if len(up.node.outputs) > 1:
        up.attrs["training_mode"] = 1
        up.drop_outputs(3, "saved_mean and saved_var serve training only")


def drop_mask(up: Upgrade) -> None:
    """The mask was computed in training only."""
    up.drop_outputs(1, "below opset 12 the mask is made in training only")


def check_mask(form: OpsetForm) -> None:
    """Outside of training there was no mask."""
    if len(form.outputs) > 1:
        raise CannotDowngrade("somebody reads its mask")


# --- Upsample 7 and 10, Resize 11 and 13 ------------------------------------------------------


def scales_of_all_axes(up: Upgrade) -> None:
    """height_scale and width_scale → scales."""
    mode = "linear" if up.attrs.get("mode") == "bilinear" else "nearest"
    scales = 1.0, 1.0, up.node.float_attr("height_scale", 1.0), up.node.float_attr("width_scale", 1.0)
    up.become("Upsample", up.input(0), mode=mode, scales=scales)


def upsample_to_resize(up: Upgrade) -> None:
    """Upsample maps coordinates from the corner (`asymmetric`) and takes the pixel before the point."""
    mode = up.node.str_attr("mode", "nearest")
    mode = "linear" if mode == "bilinear" else mode  # as the first opset spelt it
    attrs: dict[str, object] = {"mode": mode, "coordinate_transformation_mode": "asymmetric"}
    if mode == "nearest":
        attrs["nearest_mode"] = "floor"
    up.become("Resize", up.input(0), None, up.input(1), **attrs)


def resize_to_upsample(form: OpsetForm) -> None:
    """A Resize of opset 10 that only grows is an Upsample."""
    scales = form.array(1)
    if scales is None or not (scales >= 1).all():
        raise CannotDowngrade("there was Upsample, which does not shrink")


def resize_with_coordinates(up: Upgrade) -> None:
    """Opset 10 was `asymmetric`; nearest took the pixel before the point when growing, behind it when shrinking.

    Axes are resized independently, so a Resize that does both is two: one grows, one shrinks.
    """
    if up.attrs.get("coordinate_transformation_mode") is not None:
        return  # it was an Upsample
    x, scales = up.node.operand(0), up.node.operand(1)
    attrs: dict[str, object] = {"coordinate_transformation_mode": "asymmetric"}
    if up.node.str_attr("mode", "nearest") != "nearest":
        up.become("Resize", x, None, scales, **attrs, mode="linear")
        return
    grows: dict[str, object] = {**attrs, "mode": "nearest", "nearest_mode": "floor"}
    shrinks: dict[str, object] = {**attrs, "mode": "nearest", "nearest_mode": "ceil"}
    if scales.tensor is not None and (scales.array >= 1).all():
        up.become("Resize", x, None, scales, **grows)
    elif scales.tensor is not None and (scales.array <= 1).all():
        up.become("Resize", x, None, scales, **shrinks)
    else:
        grown = up.op("Resize", x, None, _clamped(up, "Max", scales), **grows)
        up.become("Resize", grown, None, _clamped(up, "Min", scales), **shrinks)


def _clamped(up: Upgrade, op_type: str, scales: Value) -> Value:
    """Return the scales, at least (Max) or at most (Min) 1."""
    if scales.tensor is None:
        return up.op(op_type, scales, up.const(1.0, DType.FLOAT32, label="one"))
    clamp = np.maximum if op_type == "Max" else np.minimum
    return up.const(clamp(scales.array, np.float32(1)), DType.FLOAT32, label="scales")


def resize_from_corner(form: OpsetForm) -> None:
    """Remove what opset 10 did by itself: see `resize_with_coordinates`."""
    if form.input(3) is not None:
        raise CannotDowngrade("input 3 is given")
    scales = form.array(2)
    mode = form.attrs.get("mode", "nearest")
    nearest = form.attrs.pop("nearest_mode", "round_prefer_floor")
    if form.attrs.pop("coordinate_transformation_mode", "half_pixel") != "asymmetric":
        raise CannotDowngrade("coordinates began at the corner")
    if scales is None or mode not in ("nearest", "linear"):
        raise CannotDowngrade("it took scales, of mode nearest or linear")
    rounds = {"floor": (scales >= 1).all(), "ceil": (scales <= 1).all()}
    if mode == "nearest" and not rounds.get(str(nearest), False):
        raise CannotDowngrade("it took the pixel before the point when growing, behind it when shrinking")
    form.attrs.pop("extrapolation_value", None)  # only tf_crop_and_resize reads it
    form.inputs = [form.inputs[0], form.inputs[2]]


def give_empty_inputs(form: OpsetForm) -> None:
    """An empty tensor stood for roi and scales that are left out."""
    form.inputs += [None] * (3 - len(form.inputs))
    for index in (1, 2):
        if form.inputs[index] is None:
            form.inputs[index] = Tensor.of(np.empty(0, np.float32), DType.FLOAT32)


# --- Scan 9 -----------------------------------------------------------------------------------


def scan_each_of_batch(up: Upgrade) -> None:
    """Axis 0 was the batch: a Scan over it, whose body is the Scan over the sequence.

    The outer Scan takes states and sequences apart alike, and puts them together again.
    """
    if up.input(0) is not None:
        raise up.unsupported("sequence_lens is given", "export the model with opset 9 or later")
    inputs = list(up.node.inputs[1:])
    inner = dict(up.attrs)
    if "directions" in inner:
        inner["scan_input_directions"] = inner.pop("directions")
    body = Graph(f"{up.node.name}/sequence", names=up.graph.names)
    items = [
        body.append("Data", attrs={"index": index}, name=f"{up.node.name}/item").output for index in range(len(inputs))
    ]
    outputs = ("",) * len(up.node.outputs)
    scan = body.append("Scan", items, inner, name=f"{up.node.name}/Scan", outputs=outputs)
    scan.sources = up.node.sources
    body.append("NetOutput", scan.outputs, name="NetOutput", outputs=())
    for item, batch in zip(items, inputs, strict=True):
        if batch is not None and batch.desc is not UNKNOWN and batch.desc.shape:
            item.desc = TensorDesc.plain(batch.desc.dtype, batch.desc.shape[1:])
    up.become("Scan", *inputs, body=body, num_scan_inputs=len(inputs))


# --- reductions 13 and 18, Softmax 13 ---------------------------------------------------------


def check_empty_axes(form: OpsetForm) -> None:
    """No axes were all axes."""
    if form.attrs.pop("noop_with_empty_axes", 0) and "axes" not in form.attrs:
        raise CannotDowngrade("no axes were all axes")


def softmax_of_flattened(up: Upgrade) -> None:
    """Opsets below flatten to (axes before `axis`) × (axes from there on) and work along the second.

    For the last axis that is the same as now; else it is written out.
    """
    axis, rank = up.node.int_attr("axis", 1), up.rank(0)
    if axis == -1 or (rank is not None and axis == rank - 1):
        up.attrs["axis"] = -1
        return
    x = up.node.operand(0)
    shape = up.op("Shape", x)
    flat = up.op("Flatten", x, axis=axis)
    result = up.op(up.node.op_type, flat, axis=-1)
    up.become("Reshape", result, shape)


def softmax_of_last_axis(form: OpsetForm) -> None:
    """The axes from `axis` on were flattened: if it is the last, that is the same."""
    axis, rank = form.attrs.get("axis", -1), form.rank()
    if axis not in (-1, rank - 1):
        raise CannotDowngrade("axes from the given one on were flattened")
    form.attrs["axis"] = rank - 1


# --- GridSample 20, GroupNormalization 21 -----------------------------------------------------


def check_is_image(form: OpsetForm) -> None:
    """It sampled images only."""
    if form.rank() != 4:
        raise CannotDowngrade("it sampled images only")


def scale_each_channel(up: Upgrade) -> None:
    """Scale and bias of a group are repeated for each of its channels: [G] → [G, 1] → [G, C/G] → [C]."""
    x, groups = up.node.operand(0), up.node.int_attr("num_groups", 1)
    channels = up.op("Gather", up.op("Shape", x), up.const([1], label="axis"))
    per_group = up.op("Div", channels, up.const([groups], label="groups"))
    target = up.op("Concat", up.const([groups], label="groups"), per_group, axis=0)

    def repeated(value: Value) -> Value:
        return up.reshape(up.op("Expand", up.unsqueeze(value, 1), target), (-1,))

    # Stage one was done in the type of the input.
    dtype = up.dtype(0)
    if dtype is not None:
        up.attrs["stash_type"] = dtype.onnx
    up.set_inputs(x, repeated(up.node.operand(1)), repeated(up.node.operand(2)))


# --- ai.onnx.ml: LabelEncoder 2 ---------------------------------------------------------------


def labels_to_keys_and_values(up: Upgrade) -> None:
    """classes_strings: from a string to its index, or back, as the input's type says."""
    classes = up.attrs.pop("classes_strings", ())
    assert isinstance(classes, tuple)
    indices = tuple(range(len(classes)))
    dtype = up.dtype(0)
    if dtype is DType.STRING:
        up.attrs.update(keys_strings=classes, values_int64s=indices)
    elif dtype is DType.INT64:
        up.attrs.update(keys_int64s=indices, values_strings=classes)
    else:
        raise up.unsupported("the type of the input is unknown", "export the model with ai.onnx.ml 2 or later")
