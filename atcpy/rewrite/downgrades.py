"""Downgrades of single ops, newest opset first; the inverse of `parsers/onnx/opsets/opset_<n>.py`."""

import numpy as np
import onnx

from atcpy.ir import DType
from atcpy.rewrite.opset_form import CannotDowngrade, OpsetForm, constant, downgrades

# --- 21, 20, 18, 16, 14 -----------------------------------------------------------------------


@downgrades("GroupNormalization", 21)
def scaled_each_group(form: OpsetForm) -> None:
    """Below, scales were one a group."""
    raise CannotDowngrade("it scaled each group, not each channel")


@downgrades("DFT", 20)
def axis_to_attr(form: OpsetForm) -> None:
    """Input 2 → axis, 1 by default."""
    axes = form.ints(2)
    axis = -2 if axes is None else axes[0]
    rank = form.rank() if axis < 0 else 0
    form.attrs["axis"] = axis + rank
    form.keep_inputs(2)


@downgrades("GridSample", 20)
def modes_of_images(form: OpsetForm) -> None:
    """linear → bilinear, cubic → bicubic, for images only."""
    if form.rank() != 4:
        raise CannotDowngrade("it sampled images only")
    mode = form.attrs.get("mode", "linear")
    form.attrs["mode"] = {"linear": "bilinear", "cubic": "bicubic"}.get(str(mode), mode)


@downgrades(
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare", 18
)
@downgrades("ReduceSum", 13)
def reduced_axes_to_attr(form: OpsetForm) -> None:
    """Input 1 → axes."""
    axes = form.ints(1)
    if form.attrs.pop("noop_with_empty_axes", 0) and not axes:
        raise CannotDowngrade("no axes were all axes")
    form.keep_inputs(1)
    if axes:
        form.attrs["axes"] = axes


@downgrades("Split", 18)
def equal_parts(form: OpsetForm) -> None:
    """num_outputs is the number of outputs; parts without sizes were equal."""
    count = form.attrs.pop("num_outputs", None)
    if count is None:
        return
    shape, axis = form.shape(0), form.attrs.get("axis", 0)
    assert isinstance(axis, int)
    size = None if shape is None else shape[axis]
    if not isinstance(size, int) or size % len(form.outputs):
        raise CannotDowngrade("its parts are perhaps not equal")


@downgrades("RoiAlign", 16)
def shifted_never(form: OpsetForm) -> None:
    """Boxes were not shifted."""
    if form.attrs.pop("coordinate_transformation_mode", "half_pixel") != "output_half_pixel":
        raise CannotDowngrade("boxes were not shifted by half a pixel")


@downgrades("BatchNormalization", 14)
def inference_only(form: OpsetForm) -> None:
    """More than one output meant training."""
    form.drop("training_mode", 0)
    if len(form.outputs) > 1:
        raise CannotDowngrade("it trains")


# --- 13 ---------------------------------------------------------------------------------------


@downgrades("Squeeze Unsqueeze", 13)
def axes_to_attr(form: OpsetForm) -> None:
    """Input 1 → axes."""
    form.ints_to_attr(1, "axes")


@downgrades("Split", 13)
def sizes_to_attr(form: OpsetForm) -> None:
    """Input 1 → split."""
    form.ints_to_attr(1, "split")


@downgrades("Softmax LogSoftmax Hardmax", 13)
def of_the_last_axis(form: OpsetForm) -> None:
    """The axes from `axis` on were flattened: one alone is the last."""
    axis, rank = form.attrs.get("axis", -1), form.rank()
    if axis not in (-1, rank - 1):
        raise CannotDowngrade("axes from the given one on were flattened")
    form.attrs["axis"] = rank - 1


# --- 12, 11, 10 -------------------------------------------------------------------------------


@downgrades("Dropout", 12)
def ratio_to_attr(form: OpsetForm) -> None:
    """Input 1 → ratio; the mask is no longer made."""
    training = form.array(2)
    if len(form.outputs) > 1 or (training is not None and training.any()):
        raise CannotDowngrade("it trains, or somebody reads its mask")
    ratio = form.array(1)
    if ratio is not None:
        form.attrs["ratio"] = float(ratio.reshape(-1)[0])
    form.drop("seed", None)
    form.keep_inputs(1)


@downgrades("Clip", 11)
def limits_to_attrs(form: OpsetForm) -> None:
    """Inputs 1, 2 → min, max."""
    for index, name in ((1, "min"), (2, "max")):
        limit = form.array(index)
        if limit is not None:
            form.attrs[name] = float(limit.reshape(-1)[0])
    form.keep_inputs(1)


@downgrades("Pad", 11)
def pads_to_attr(form: OpsetForm) -> None:
    """Inputs 1, 2 → pads, value."""
    form.drop_inputs(3)
    filler = form.array(2)
    if filler is not None:
        form.attrs["value"] = float(filler.reshape(-1)[0])
    pads = form.ints(1)
    form.attrs["pads"] = () if pads is None else pads
    form.keep_inputs(1)


@downgrades("Resize", 13)
def all_inputs(form: OpsetForm) -> None:
    """What is left out was empty."""
    empty = constant([], DType.FLOAT32)
    inputs = [*form.inputs, None, None, None][:4]
    roi, scales, sizes = (inputs[index] for index in (1, 2, 3))
    form.inputs = [inputs[0], empty if roi is None else roi, empty if scales is None else scales, sizes]
    form.keep_inputs(4)


@downgrades("Resize", 11)
def from_the_corner(form: OpsetForm) -> None:
    """Opset 10 was `asymmetric`, took the pixel before the point when growing, behind it when shrinking."""
    form.drop_inputs(3)
    scales = form.array(2)
    mode = form.attrs.pop("mode", "nearest")
    nearest = form.attrs.pop("nearest_mode", "round_prefer_floor")
    if form.attrs.pop("coordinate_transformation_mode", "half_pixel") != "asymmetric":
        raise CannotDowngrade("coordinates began at the corner")
    if scales is None or mode not in ("nearest", "linear"):
        raise CannotDowngrade("it took scales, of mode nearest or linear")
    rounds = {"floor": (scales >= 1).all(), "ceil": (scales <= 1).all()}
    if mode == "nearest" and not rounds.get(str(nearest), False):
        raise CannotDowngrade("it took the pixel before the point when growing, behind it when shrinking")
    if form.attrs.pop("cubic_coeff_a", None) or form.attrs.pop("exclude_outside", 0):
        raise CannotDowngrade("cubic is newer")
    form.attrs.pop("extrapolation_value", None)
    form.attrs["mode"] = mode
    form.inputs = [form.inputs[0], form.inputs[2]]


@downgrades("Resize", 10)
def upsample(form: OpsetForm) -> None:
    """What only grows is an Upsample."""
    scales = form.array(1)
    if scales is None or not (scales >= 1).all():
        raise CannotDowngrade("there was Upsample, which does not shrink")
    form.op_type = "Upsample"


@downgrades("ScatterElements", 11)
def scatter(form: OpsetForm) -> None:
    """Renamed."""
    form.op_type = "Scatter"


@downgrades("Slice", 10)
def bounds_to_attrs(form: OpsetForm) -> None:
    """Inputs 1, 2, 3 → starts, ends, axes; steps were 1."""
    steps, axes = form.ints(4), form.ints(3)
    if steps is not None and set(steps) - {1}:
        raise CannotDowngrade("steps were 1")
    form.attrs["starts"], form.attrs["ends"] = form.ints(1) or (), form.ints(2) or ()
    if axes is not None:
        form.attrs["axes"] = axes
    form.keep_inputs(1)


@downgrades("TopK", 11)
def largest_and_sorted(form: OpsetForm) -> None:
    """There was no choice."""
    form.drop("largest", 1)
    form.drop("sorted", 1)


@downgrades("TopK", 10)
def k_to_attr(form: OpsetForm) -> None:
    """Input 1 → k."""
    k = form.ints(1)
    assert k is not None
    form.attrs["k"] = k[0]
    form.keep_inputs(1)


@downgrades("Concat Gather Flatten ArgMax ArgMin Compress", 11)
def axis_from_the_front(form: OpsetForm) -> None:
    """Axes were counted from the front."""
    axis = form.attrs.get("axis")
    if isinstance(axis, int) and axis < 0:
        form.attrs["axis"] = axis + form.rank()


# --- 9, 7 and below ---------------------------------------------------------------------------


@downgrades("Upsample", 9)
def scales_to_attr(form: OpsetForm) -> None:
    """Input 1 → scales."""
    scales = form.array(1)
    assert scales is not None
    form.attrs["scales"] = tuple(float(scale) for scale in scales)
    form.keep_inputs(1)


@downgrades("BatchNormalization", 9)
def channels_only(form: OpsetForm) -> None:
    """`spatial` was 1 by default."""


@downgrades("Add Sub Mul Div And Or Xor Equal Greater Less Pow", 7)
def one_sided_broadcast(form: OpsetForm) -> None:
    """The second operand was broadcast, where the node says so."""
    a, b = form.shape(0), form.shape(1)
    if a is None or b is None:
        raise CannotDowngrade("broadcasting was asked for by an attribute")
    if a == b:
        return
    if len(b) > len(a) or b != a[len(a) - len(b) :]:
        raise CannotDowngrade("only the second operand was broadcast, along the last axes")
    form.attrs["broadcast"] = 1


@downgrades("Gemm", 7)
def broadcast_bias(form: OpsetForm) -> None:
    """C was broadcast where the node says so."""
    form.attrs["broadcast"] = 1


@downgrades("PRelu", 7)
def slope_of_one_or_each(form: OpsetForm) -> None:
    """One slope, or one a channel."""
    if form.shape(1) not in ((), (1,)):
        raise CannotDowngrade("slopes were one, or one a channel")


@downgrades("BatchNormalization Dropout", 7)
def is_test(form: OpsetForm) -> None:
    """Inference was asked for."""
    form.attrs["is_test"] = 1


@downgrades("LSTM GRU RNN", 7)
def output_sequence(form: OpsetForm) -> None:
    """The outputs of all steps were asked for."""
    form.attrs["output_sequence"] = 1


@downgrades("Selu", 6)
def old_constants(form: OpsetForm) -> None:
    """The defaults had four digits."""
    form.attrs.setdefault("alpha", float(np.float32(1.67326319217681884765625)))
    form.attrs.setdefault("gamma", float(np.float32(1.05070102214813232421875)))


@downgrades("Cast", 6)
def type_by_name(form: OpsetForm) -> None:
    """to = 1 → to = "FLOAT"."""
    number = form.attrs["to"]
    assert isinstance(number, int)
    form.attrs["to"] = onnx.TensorProto.DataType.Name(number)


@downgrades("Reshape", 5)
def shape_to_attr(form: OpsetForm) -> None:
    """Input 1 → shape."""
    form.ints_to_attr(1, "shape")


@downgrades("Concat", 4)
def axis_was_named(form: OpsetForm) -> None:
    """An axis that is named was possible, too."""


@downgrades("Pad", 2)
def pads_were_paddings(form: OpsetForm) -> None:
    """pads → paddings."""
    form.attrs["paddings"] = form.attrs.pop("pads")


@downgrades("LpPool GlobalLpPool", 2)
def fractional_p(form: OpsetForm) -> None:
    """p was a float."""
    p = form.attrs.get("p", 2)
    assert isinstance(p, int)
    form.attrs["p"] = float(p)


@downgrades(
    """Abs Add Ceil Clip Div Dropout Elu Exp Floor HardSigmoid InstanceNormalization LeakyRelu Log Max Mean Min Mul Neg
    PRelu Reciprocal Relu Sigmoid Sqrt Sub Sum Tanh""",
    6,
)
def no_hint(form: OpsetForm) -> None:
    """`consumed_inputs` could be left out."""


@downgrades("Tile BatchNormalization", 6)
@downgrades("Scan", 9)
@downgrades("Upsample", 7)
@downgrades("Split", 2)
@downgrades("GRU", 3)
def another_op(form: OpsetForm) -> None:
    """It meant something else."""
    raise CannotDowngrade("it was another op")
