"""Accumulators, optimizers and what scales and checks gradients in ONNX Runtime's training graphs.

What these ops write into the memory of their inputs becomes an output more of the model where nobody asks for it
otherwise (`Expansion.update`).
"""

from collections.abc import Sequence

from atcpy.ir import DType, Value
from atcpy.parsers.onnx.microsoft.expansion import Expansion
from atcpy.parsers.onnx.microsoft.table import MANY, microsoft, refuses

# --- gradients ------------------------------------------------------------------------------------


@microsoft("InPlaceAccumulator", "old_sum value update_signal?")
def in_place_accumulator(e: Expansion) -> None:
    """old_sum + value, or old_sum where the signal is false."""
    old, signal = e.operand("old_sum"), e.input("update_signal")
    new = e.op("Add", old, e.cast_like(e.operand("value"), old))
    e.finish(new if signal is None else e.op("Where", e.scalar(signal), new, old))


@microsoft("InPlaceAccumulatorV2", "accumulation_buffer value overwrite_flag?", outputs=(1, 2))
def in_place_accumulator_2(e: Expansion) -> None:
    """True, and the buffer with the value added, or overwritten by it where the flag is true."""
    buffer, flag = e.operand("accumulation_buffer"), e.input("overwrite_flag")
    value = e.cast_like(e.operand("value"), buffer)
    new = e.op("Add", buffer, value)
    if flag is not None:
        new = e.op("Where", e.scalar(flag), value, new)
    _updated(e, 1, {buffer: new}, e.const("done", [True], DType.BOOL))


@microsoft("ZeroGradient", "old_gradient reset_signal")
def zero_gradient(e: Expansion) -> None:
    """Zeros in the shape of the gradient."""
    old = e.operand("old_gradient")
    e.finish(e.zeros(e.op("Shape", old), old))


def _updated(e: Expansion, first: int, new: dict[Value, Value], flag: Value) -> None:
    """The end of a node that says whether it did, and then perhaps what it changed in place."""
    for place, (held, value) in enumerate(new.items(), first):
        if not e.asks(place) or not e.node.outputs[place].name:
            e.update(held, value)
    e.finish(flag, *new.values())


@microsoft("Group", "input_tensors+")
def group(e: Expansion) -> None:
    """True: what it waits for needs no order here."""
    e.finish(e.const("done", [True], DType.BOOL))


@microsoft("PassThrough", "inputs+", outputs=(1, MANY))
def pass_through(e: Expansion) -> None:
    """Its inputs."""
    _finish_each(e, e.every("inputs"))


def _finish_each(e: Expansion, results: Sequence[Value]) -> None:
    if len(results) != len(e.node.outputs):
        raise e.invalid(f"{len(e.node.outputs)} outputs, {len(results)} are possible")
    e.finish(*results)


# --- scales and checks ----------------------------------------------------------------------------


def _finite(e: Expansion, x: Value) -> Value:
    return e.op("Not", e.op("Or", e.op("IsNaN", x), e.op("IsInf", x)))


def _all(e: Expansion, flags: Value) -> Value:
    lowest = e.op("ReduceMin", e.op("Cast", flags, to=DType.INT32.onnx), keepdims=0)
    return e.op("Cast", lowest, to=DType.BOOL.onnx)


@microsoft("IsFinite", "X")
def is_finite(e: Expansion) -> None:
    """Neither NaN nor infinite."""
    e.finish(_finite(e, e.operand("X")))


@microsoft("IsAllFinite", "input+", "isinf_only:i isnan_only:i")
def is_all_finite(e: Expansion) -> None:
    """Is no element of any input NaN or infinite?"""
    only_inf, only_nan = e.node.int_attr("isinf_only", 0), e.node.int_attr("isnan_only", 0)
    if only_inf and only_nan:
        raise e.invalid("both isinf_only and isnan_only are set")
    found: list[Value] = []
    for x in e.every("input"):
        good = e.op("Not", e.op("IsInf" if only_inf else "IsNaN", x)) if only_inf or only_nan else _finite(e, x)
        found.append(_all(e, good))
    total = found[0]
    for flag in found[1:]:
        total = e.op("And", total, flag)
    e.finish(total)


@microsoft("All", "X")
def all_true(e: Expansion) -> None:
    """Are all elements true?"""
    e.finish(_all(e, e.operand("X")))


@microsoft("Scale", "input scale", "scale_down:i")
def scale(e: Expansion) -> None:
    """input · scale, or input / scale."""
    x = e.operand("input")
    factor = e.cast_like(e.scalar(e.operand("scale")), x)
    e.finish(e.op("Div" if e.node.int_attr("scale_down", 0) else "Mul", x, factor))


@microsoft("MixedPrecisionScale", "S X+", "to:i! fuse_outputs:i", outputs=(1, MANY))
def mixed_precision_scale(e: Expansion) -> None:
    """X · S in another type; fused, all of them one after another."""
    factor = e.scalar(e.operand("S"))
    to = e.node.int_attr("to", 0)
    scaled = [e.op("Cast", e.op("Mul", e.cast_like(x, factor), factor), to=to) for x in e.every("X")]
    if e.node.int_attr("fuse_outputs", 0):
        scaled = [e.op("Concat", *(e.reshape(value, -1) for value in scaled), axis=0)]
    _finish_each(e, scaled)


def _squares(e: Expansion, values: Sequence[Value]) -> Value:
    """The sum of the squares of all elements."""
    first, *others = (e.op("ReduceSumSquare", value, keepdims=0) for value in values)
    return e.sum(first, *others)


@microsoft("ReduceAllL2", "X+")
def reduce_all_l2(e: Expansion) -> None:
    """The norm of all elements of all inputs, in float32 at least."""
    narrow = (DType.FLOAT16, DType.BFLOAT16)
    wide = [e.op("Cast", x, to=DType.FLOAT32.onnx) if e.dtype(x) in narrow else x for x in e.every("X")]
    e.finish(e.op("Sqrt", _squares(e, wide)))


# --- optimizers -----------------------------------------------------------------------------------


@microsoft("SGDOptimizer", "ETA W G", outputs=(0, 2))
def sgd(e: Expansion) -> None:
    """W − ETA · G, and −ETA · G."""
    w, g = e.operand("W"), e.operand("G")
    delta = e.op("Neg", e.op("Mul", g, e.cast_like(e.scalar(e.operand("ETA")), g)))
    e.finish(e.op("Add", w, e.cast_like(delta, w)), delta)


def _correction(e: Expansion, decay: float, step: Value) -> Value:
    """1 − decay^step"""
    one, base = (e.const("number", number, DType.FLOAT32) for number in (1.0, decay))
    return e.op("Sub", one, e.op("Pow", base, e.op("Cast", step, to=DType.FLOAT32.onnx)))


def _moments(e: Expansion, g: Value, m: Value, v: Value) -> tuple[Value, Value]:
    """The running means of the gradient and of its square."""
    alpha, beta = e.node.float_attr("alpha", 0.9), e.node.float_attr("beta", 0.999)
    m_new = e.op("Add", e.scaled(m, alpha), e.cast_like(e.scaled(g, 1 - alpha), m))
    return m_new, e.op("Add", e.scaled(v, beta), e.cast_like(e.scaled(e.op("Mul", g, g), 1 - beta), v))


_ADAM = "alpha:f beta:f lambda:f epsilon:f max_norm_clip:f do_bias_correction:i weight_decay_mode:i"


@microsoft(
    "AdamOptimizer",
    "R T weights gradients moment_1 moment_2 mixed_precision_weights? loss_scale? global_gradient_norm? update_signal?",
    _ADAM,
    outputs=(3, 6),
)
def adam(e: Expansion) -> None:
    """Adam as ONNX Runtime's kernel for CPUs has it, which knows neither scales nor clipping."""
    hint = "ONNX Runtime has it for GPUs only"
    e.refuse_inputs("mixed_precision_weights loss_scale global_gradient_norm update_signal", hint)
    e.refuse_attrs("weight_decay_mode", hint)
    w, g, step = e.operand("weights"), e.operand("gradients"), e.operand("T")
    m, v = _moments(e, g, e.operand("moment_1"), e.operand("moment_2"))
    m_now, v_now = e.cast_like(m, w), e.cast_like(v, w)
    if e.node.int_attr("do_bias_correction", 1):
        of_m, of_v = (
            _correction(e, e.node.float_attr(name, default), e.scalar(step))
            for name, default in (("alpha", 0.9), ("beta", 0.999))
        )
        m_now, v_now = e.op("Div", m_now, e.cast_like(of_m, w)), e.op("Div", v_now, e.cast_like(of_v, w))
    root = e.op("Add", e.op("Sqrt", v_now), e.number(e.node.float_attr("epsilon", 1e-8), w))
    move = e.op("Div", m_now, root)
    decay = e.node.float_attr("lambda", 0.0)
    if decay:
        move = e.op("Add", move, e.scaled(w, decay))
    delta = e.op("Neg", e.op("Mul", move, e.cast_like(e.scalar(e.operand("R")), w)))
    new_step = e.op("Add", step, e.number(1, step))
    e.finish(new_step, m, v, e.op("Add", w, delta), e.cast_like(delta, g), "there is no weight of 16 bits")


# --- what has no form here ------------------------------------------------------------------------

refuses(
    "YieldOp PythonOp PythonOpGrad",
    "it hands control to PyTorch in the middle of a run: write the graph with onnxruntime.training.artifacts",
)
refuses("RecordEvent WaitEvent Send Recv", "it orders the parts of a pipeline: write the graph of one process")
refuses(
    "NcclAllReduce NcclAllGather NcclReduceScatter AdasumAllReduce MegatronF MegatronG",
    "its group of ranks is known to ONNX Runtime's launcher alone: write com.microsoft AllReduce or AllGather",
)
refuses(
    "SummaryScalar SummaryHistogram SummaryMerge SummaryText",
    "it writes TensorBoard's records: take it out of the graph",
)
refuses(
    """GistBinarizeEncoder GistBinarizeDecoder GistPack1Encoder GistPack1Decoder GistPack8Encoder GistPack8Decoder
    GistPack16Encoder GistPack16Decoder GistPackMsfp15Encoder GistPackMsfp15Decoder""",
    "it packs what the backward pass reads: train without gist",
)
refuses("BitmaskDropout BitmaskDropoutGrad BiasSoftmaxDropout", "it draws or packs a mask on GPUs: export with Dropout")
refuses("LambOptimizer", "it takes up to 1024 groups of tensors: use AdamWOptimizer or SGDOptimizerV2")
refuses("LSTMTraining LSTMGrad GRUTraining GRUGrad", "gates are not kept here: train a Loop or Scan of the cell's ops")
