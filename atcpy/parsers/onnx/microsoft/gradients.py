"""Gradients of elementwise ops, softmax, dropout and normalization, as ONNX Runtime's training writes them."""

from atcpy.ir import Value
from atcpy.ir.arithmetic import Expr
from atcpy.ops.lowerings.activation_gradients import BY_INPUT, BY_RESULT
from atcpy.ops.lowerings.broadcast_gradients import division_gradients
from atcpy.ops.lowerings.normalization import move_statistic, train_batch_norm
from atcpy.parsers.onnx.microsoft.expansion import Expansion
from atcpy.parsers.onnx.microsoft.table import STANDARD, microsoft

# --- elementwise ----------------------------------------------------------------------------------


def _of_input(e: Expansion) -> None:
    """The gradient of the op that the node is named after, by its input X."""
    gradient = BY_INPUT[e.node.op_type.removesuffix("Grad")]
    e.finish(gradient(Expr(e, e.operand("dY")), Expr(e, e.operand("X"))).value)


microsoft("ReluGrad GeluGrad FastGeluGrad", "dY X")(_of_input)  # ReluGrad's X may be the result as well
microsoft("SinGrad", "dY X", domain=STANDARD)(_of_input)


@microsoft("SigmoidGrad TanhGrad", "dY Y")
def of_result(e: Expansion) -> None:
    """The gradient of the op that the node is named after, by its result Y."""
    gradient = BY_RESULT[e.node.op_type.removesuffix("Grad")]
    e.finish(gradient(Expr(e, e.operand("dY")), Expr(e, e.operand("Y"))).value)


@microsoft("LeakyReluGrad", "dY Y", "alpha:f")
def leaky_relu_grad(e: Expansion) -> None:
    """dY where Y > 0, alpha · dY elsewhere."""
    alpha = e.node.float_attr("alpha", 0.01)
    e.finish(BY_INPUT["LeakyRelu"](Expr(e, e.operand("dY")), Expr(e, e.operand("Y")), alpha).value)


@microsoft("QuickGeluGrad", "dY X", "alpha:f")
def quick_gelu_grad(e: Expansion) -> None:
    """The gradient of X · Sigmoid(alpha · X)."""
    alpha = e.node.float_attr("alpha", 1.702)
    e.finish(BY_INPUT["QuickGelu"](Expr(e, e.operand("dY")), Expr(e, e.operand("X")), alpha).value)


@microsoft("BiasGeluGrad_dX BiasFastGeluGrad_dX", "dY X B")
def bias_gelu_grad(e: Expansion) -> None:
    """The gradient of Gelu(X + B)."""
    gradient = BY_INPUT[e.node.op_type.removeprefix("Bias").removesuffix("Grad_dX")]
    e.finish(gradient(Expr(e, e.operand("dY")), Expr(e, e.operand("X")) + Expr(e, e.operand("B"))).value)


@microsoft("DivGrad", "dY A B", outputs=(0, 2))
def div_grad(e: Expansion) -> None:
    """dY/B and −dY·A/B², each summed to the shape of what it belongs to."""
    a, b = e.operand("A"), e.operand("B")
    e.finish(*division_gradients(e, e.operand("dY"), a, b, e.op("Div", a, b)))


@microsoft("BroadcastGradientArgs", "a_shape b_shape", outputs=(0, 2))
def broadcast_axes(e: Expansion) -> None:
    """The axes, last first, along which a broadcast of the two shapes repeats each of them."""
    shapes = [e.operand("a_shape"), e.operand("b_shape")]
    lengths = [e.op("Shape", shape) for shape in shapes]
    longest = e.op("Max", *lengths)
    missing = e.const([-1])
    padded = [
        e.op("Concat", e.op("Expand", missing, e.op("Sub", longest, length)), shape, axis=0)
        for shape, length in zip(shapes, lengths, strict=True)
    ]
    differ = e.op("Not", e.op("Equal", *padded))
    one, last = e.const(1), e.const([-1])
    results = []
    for shape, other in (padded, padded[::-1]):
        short = e.op("And", e.op("Equal", e.op("Abs", shape), one), e.op("Greater", other, missing))
        repeated = e.op("And", differ, short)
        axes = e.squeeze(e.op("NonZero", repeated), 0)
        results.append(e.op("Slice", axes, last, e.const([-(2**63)]), e.const([0]), last))
    e.finish(*results)


@microsoft("ReduceSumTraining", "data axes", "keepdims:i noop_with_empty_axes:i")
def reduce_sum(e: Expansion) -> None:
    """ReduceSum."""
    e.finish(e.op("ReduceSum", e.operand("data"), e.operand("axes"), **e.node.attrs))


# --- softmax and dropout --------------------------------------------------------------------------


def _softmax_axes(e: Expansion, of: Value) -> Value:
    """The axes that were one row: since opset 13 (`_13`) a single one, before all from `axis` on."""
    if e.node.op_type.endswith("_13"):
        return e.const([e.node.int_attr("axis", -1)])
    axis = e.node.int_attr("axis", 1)
    if axis == -1:
        return e.const([-1])
    rank = e.known_rank(of)
    return e.const([*range(e.axis("axis", 1, rank), rank)])


def _of_softmax(e: Expansion, dy: Value, y: Value, axes: Value) -> Value:
    """Y · (dY − Σ Y · dY)"""
    total = e.op("ReduceSum", e.op("Mul", y, dy), axes, keepdims=1)
    return e.op("Mul", y, e.op("Sub", dy, total))


@microsoft("SoftmaxGrad SoftmaxGrad_13", "dY Y", "axis:i")
def softmax_grad(e: Expansion) -> None:
    """Y · (dY − Σ Y · dY)"""
    y = e.operand("Y")
    e.finish(_of_softmax(e, e.operand("dY"), y, _softmax_axes(e, y)))


@microsoft("LogSoftmaxGrad LogSoftmaxGrad_13", "dY X", "axis:i")
def log_softmax_grad(e: Expansion) -> None:
    """dY − exp(Y) · Σ dY; X is the result's name in the schema."""
    dy, y = e.operand("dY"), e.operand("X")
    total = e.op("ReduceSum", dy, _softmax_axes(e, y), keepdims=1)
    e.finish(e.op("Sub", dy, e.op("Mul", e.op("Exp", y), total)))


def _kept(e: Expansion, dy: Value, mask: Value, ratio: Value) -> Value:
    """dY / (1 − ratio) where the mask is true."""
    scale = e.op("Sub", e.like(1.0, dy), e.scalar(e.cast_like(ratio, dy)))
    return e.op("Where", mask, e.op("Div", dy, scale), e.like(0.0, dy))


@microsoft("DropoutGrad", "dy mask ratio? training_mode?", "seed:i")
def dropout_grad(e: Expansion) -> None:
    """dy / (1 − ratio) where the mask is true; outside of training nothing was scaled."""
    dy, mode, ratio = e.operand("dy"), e.input("training_mode"), e.input("ratio")
    ratio = e.like(0.5, dy) if ratio is None else ratio
    if mode is not None:
        ratio = e.op("Where", e.scalar(mode), e.scalar(ratio), e.like(0.0, ratio))
    e.finish(_kept(e, dy, e.operand("mask"), ratio))


@microsoft("TrainableDropoutGrad", "dy mask ratio?", "seed:i")
def trainable_dropout_grad(e: Expansion) -> None:
    """dy / (1 − ratio) where the mask is true."""
    dy, ratio = e.operand("dy"), e.input("ratio")
    e.finish(_kept(e, dy, e.operand("mask"), e.like(0.5, dy) if ratio is None else ratio))


@microsoft("SoftmaxDropoutGrad", "dy mask softmax_y ratio?", "axis:i!")
def softmax_dropout_grad(e: Expansion) -> None:
    """The gradient of Softmax behind that of Dropout."""
    dy, y, ratio = e.operand("dy"), e.operand("softmax_y"), e.input("ratio")
    dy = _kept(e, dy, e.operand("mask"), e.like(0.5, dy) if ratio is None else ratio)
    e.finish(_of_softmax(e, dy, y, _softmax_axes(e, y)))


# --- normalization --------------------------------------------------------------------------------

_LAYER = "axis:i epsilon:f stash_type:i"


def _of_normalized(e: Expansion, x: Value, normal: Value, inverse: Value, *, centred: bool) -> None:
    """The gradients behind a normalization along the last axes: of X (whose type `x` has), of the scale, and of the
    bias if it was centred. `normal` is the normalized data, `inverse` 1/deviation; both have the type of the sums.
    """
    dy, scale = e.operand("Y_grad"), e.operand("scale")
    rank = e.known_rank(dy)
    axis = e.axis("axis", -1, rank)
    own, rows = e.const([*range(axis, rank)]), e.const([*range(axis)])
    wide = e.cast_like(dy, inverse)
    b = e.op("Mul", e.op("Mul", wide, e.cast_like(scale, inverse)), inverse)
    mean_c = e.op("ReduceMean", e.op("Mul", b, normal), own, keepdims=1)
    if centred:
        b = e.op("Sub", b, e.op("ReduceMean", b, own, keepdims=1))
    dx = e.op("Sub", b, e.op("Mul", normal, mean_c))

    def summed(value: Value) -> Value:
        total = e.op("ReduceSum", value, rows, keepdims=0, noop_with_empty_axes=1)
        return e.cast_like(e.op("Reshape", total, e.op("Shape", scale)), scale)

    results = [e.cast_like(dx, x), summed(e.op("Mul", wide, normal))]
    e.finish(*results, *([summed(wide)] if centred else []))


@microsoft("LayerNormalizationGrad", "Y_grad X scale mean inv_std_dev", _LAYER, outputs=(3, 3))
def layer_norm_grad(e: Expansion) -> None:
    """From the mean and 1/deviation that the forward pass kept."""
    x, inverse = e.operand("X"), e.operand("inv_std_dev")
    centred = e.op("Sub", e.cast_like(x, inverse), e.cast_like(e.operand("mean"), inverse))
    _of_normalized(e, x, e.op("Mul", centred, inverse), inverse, centred=True)


@microsoft("SimplifiedLayerNormalizationGrad", "Y_grad X scale inv_std_var", _LAYER, outputs=(2, 2))
def rms_norm_grad(e: Expansion) -> None:
    """From 1/√mean(X²) that the forward pass kept."""
    x, inverse = e.operand("X"), e.operand("inv_std_var")
    _of_normalized(e, x, e.op("Mul", e.cast_like(x, inverse), inverse), inverse, centred=False)


@microsoft("InvertibleLayerNormalizationGrad", "Y_grad Y scale bias inv_std_var", _LAYER, outputs=(3, 3))
def invertible_layer_norm_grad(e: Expansion) -> None:
    """From the result, whose scale and bias are taken back."""
    inverse = e.operand("inv_std_var")
    y, scale, bias = (e.cast_like(e.operand(name), inverse) for name in ("Y", "scale", "bias"))
    _of_normalized(e, e.operand("Y"), e.op("Div", e.op("Sub", y, bias), scale), inverse, centred=True)


def _per_channel(e: Expansion, vector: Value, like: Value, rank: int) -> Value:
    """[C] → [C, 1…], to stand beside [N, C, …]"""
    wide = e.cast_like(vector, like)
    return wide if rank == 2 else e.unsqueeze(wide, *range(1, rank - 1))


@microsoft("BatchNormalizationGrad", "dY X scale mean variance", "epsilon:f", outputs=(3, 3))
def batch_norm_grad(e: Expansion) -> None:
    """From the batch's mean and, in spite of its name, 1/deviation: what BatchNormInternal kept."""
    dy, x, scale = e.operand("dY"), e.operand("X"), e.operand("scale")
    rank = e.known_rank(x)
    if rank < 2:
        raise e.invalid(f"X has {rank} dims")
    others = e.const([0, *range(2, rank)])
    inverse = _per_channel(e, e.operand("variance"), x, rank)
    normal = e.op("Mul", e.op("Sub", x, _per_channel(e, e.operand("mean"), x, rank)), inverse)
    product = e.op("Mul", dy, normal)
    mean_dy, mean_product = (e.op("ReduceMean", value, others, keepdims=1) for value in (dy, product))
    inner = e.op("Sub", e.op("Sub", dy, mean_dy), e.op("Mul", normal, mean_product))
    dx = e.op("Mul", inner, e.op("Mul", _per_channel(e, scale, x, rank), inverse))
    sums = [e.cast_like(e.op("ReduceSum", value, others, keepdims=0), scale) for value in (product, dy)]
    e.finish(dx, *sums)


@microsoft(
    "BatchNormInternal", "X scale B input_mean input_var", "epsilon:f momentum:f training_mode:i", outputs=(1, 5)
)
def batch_norm_internal(e: Expansion) -> None:
    """BatchNormalization, with the batch's mean and 1/deviation while training."""
    x, scale, bias, mean, variance = (e.operand(name) for name in ("X", "scale", "B", "input_mean", "input_var"))
    epsilon = e.node.float_attr("epsilon", 1e-5)
    if not e.node.int_attr("training_mode", 1):
        e.finish(e.op("BatchNormalization", x, scale, bias, mean, variance, epsilon=epsilon), *["inference"] * 4)
        return
    y, of_batch, biased = train_batch_norm(e, x, scale, bias, epsilon)
    momentum = e.node.float_attr("momentum", 0.9)
    running = [move_statistic(e, mean, of_batch, momentum), move_statistic(e, variance, biased, momentum)]
    deviation = e.op("Sqrt", e.op("Add", biased, e.like(epsilon, biased)))
    e.finish(y, *running, e.cast_like(of_batch, mean), e.cast_like(e.op("Reciprocal", deviation), variance))
