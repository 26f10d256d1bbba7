"""Accumulators, optimizers and what scales and checks gradients in ONNX Runtime's training graphs.

What ONNX Runtime writes into the memory of an input is an output here: the signature's `updates`.
"""

from __future__ import annotations

from collections.abc import Sequence

from atcpy.ir import DType, Value
from atcpy.ops.contrib.expansion import Expansion
from atcpy.ops.contrib.record import contrib, refuses
from atcpy.ops.core.signature import UNBOUNDED
from atcpy.ops.lowerings.averages import moving_average

# --- gradients ------------------------------------------------------------------------------------


@contrib("InPlaceAccumulator", "old_sum value update_signal?")
def in_place_accumulator(e: Expansion) -> Value:
    """old_sum + value, or old_sum where the signal is false."""
    old, signal = e.operand("old_sum"), e.input("update_signal")
    new = e.op("Add", old, e.cast_like(e.operand("value"), old))
    return new if signal is None else e.op("Where", e.scalar(signal), new, old)


@contrib(
    "InPlaceAccumulatorV2",
    "accumulation_buffer value overwrite_flag?",
    outputs=(1, 2),
    updates={1: "accumulation_buffer"},
)
def in_place_accumulator_2(e: Expansion) -> Sequence[Value]:
    """True, and the buffer with the value added, or overwritten by it where the flag is true."""
    buffer, flag = e.operand("accumulation_buffer"), e.input("overwrite_flag")
    value = e.cast_like(e.operand("value"), buffer)
    new = e.op("Add", buffer, value)
    if flag is not None:
        new = e.op("Where", e.scalar(flag), value, new)
    return [e.const([True], DType.BOOL), new]


@contrib("ZeroGradient", "old_gradient reset_signal")
def zero_gradient(e: Expansion) -> Value:
    """Zeros in the shape of the gradient."""
    old = e.operand("old_gradient")
    return e.zeros(e.op("Shape", old), old)


@contrib("Group", "input_tensors+")
def group(e: Expansion) -> Value:
    """True: what it waits for needs no order here."""
    return e.const([True], DType.BOOL)


@contrib("PassThrough", "inputs+", outputs=(1, UNBOUNDED))
def pass_through(e: Expansion) -> Sequence[Value]:
    """Its inputs."""
    return _as_outputs(e, e.every("inputs"))


def _as_outputs(e: Expansion, results: Sequence[Value]) -> Sequence[Value]:
    if len(results) != len(e.node.outputs):
        raise e.invalid(f"{len(e.node.outputs)} outputs, {len(results)} are possible")
    return results


# --- scales and checks ----------------------------------------------------------------------------


def _finite(e: Expansion, x: Value) -> Value:
    return e.op("Not", e.op("Or", e.op("IsNaN", x), e.op("IsInf", x)))


def _all(e: Expansion, flags: Value) -> Value:
    lowest = e.op("ReduceMin", e.cast(flags, DType.INT32), keepdims=0)
    return e.cast(lowest, DType.BOOL)


@contrib("IsFinite", "X")
def is_finite(e: Expansion) -> Value:
    """Neither NaN nor infinite."""
    return _finite(e, e.operand("X"))


@contrib("IsAllFinite", "input+", "isinf_only:i isnan_only:i")
def is_all_finite(e: Expansion) -> Value:
    """Is no element of any input NaN or infinite?"""
    only_inf, only_nan = e.node.int_attr("isinf_only", 0), e.node.int_attr("isnan_only", 0)
    if only_inf and only_nan:
        raise e.invalid("both isinf_only and isnan_only are set")
    op_type = "IsInf" if only_inf else "IsNaN" if only_nan else None
    total: Value | None = None
    for x in e.every("input"):
        flag = _all(e, e.op("Not", e.op(op_type, x)) if op_type else _finite(e, x))
        total = flag if total is None else e.op("And", total, flag)
    assert total is not None
    return total


@contrib("All", "X")
def all_true(e: Expansion) -> Value:
    """Are all elements true?"""
    return _all(e, e.operand("X"))


@contrib("Scale", "input scale", "scale_down:i")
def scale(e: Expansion) -> Value:
    """input · scale, or input / scale."""
    x = e.operand("input")
    factor = e.cast_like(e.scalar(e.operand("scale")), x)
    return e.op("Div" if e.node.int_attr("scale_down", 0) else "Mul", x, factor)


@contrib("MixedPrecisionScale", "S X+", "to:i! fuse_outputs:i", outputs=(1, UNBOUNDED))
def mixed_precision_scale(e: Expansion) -> Sequence[Value]:
    """X · S in another type; fused, all of them one after another."""
    factor = e.scalar(e.operand("S"))
    to = e.node.int_attr("to", 0)
    scaled = [e.op("Cast", e.op("Mul", e.cast_like(x, factor), factor), to=to) for x in e.every("X")]
    if e.node.int_attr("fuse_outputs", 0):
        scaled = [e.op("Concat", *(e.reshape(value, (-1,)) for value in scaled), axis=0)]
    return _as_outputs(e, scaled)


@contrib("ReduceAllL2", "X+")
def reduce_all_l2(e: Expansion) -> Value:
    """The norm of all elements of all inputs, in float32 at least."""
    narrow = (DType.FLOAT16, DType.BFLOAT16)
    wide = [e.cast(x, DType.FLOAT32) if e.dtype_of(x) in narrow else x for x in e.every("X")]
    return e.op("Sqrt", e.sum(*(e.op("ReduceSumSquare", value, keepdims=0) for value in wide)))


# --- optimizers -----------------------------------------------------------------------------------


@contrib("SGDOptimizer", "ETA W G", outputs=(0, 2))
def sgd(e: Expansion) -> Sequence[Value]:
    """W − ETA · G, and −ETA · G."""
    w, g = e.operand("W"), e.operand("G")
    delta = e.op("Neg", e.op("Mul", g, e.cast_like(e.scalar(e.operand("ETA")), g)))
    return [e.op("Add", w, e.cast_like(delta, w)), delta]


def _correction(e: Expansion, decay: float, step: Value) -> Value:
    """1 − decay^step"""
    one, base = (e.const(number, DType.FLOAT32) for number in (1.0, decay))
    return e.op("Sub", one, e.op("Pow", base, e.cast(step, DType.FLOAT32)))


def _moments(b: Expansion, e: Expansion, g: Value, m: Value, v: Value) -> tuple[Value, Value]:
    """The running means of the gradient and of its square, by the attributes of the node of `e`."""
    alpha, beta = e.node.float_attr("alpha", 0.9), e.node.float_attr("beta", 0.999)
    return moving_average(b, m, g, alpha), moving_average(b, v, b.op("Mul", g, g), beta)


_ADAM = "alpha:f beta:f lambda:f epsilon:f max_norm_clip:f do_bias_correction:i weight_decay_mode:i"


@contrib(
    "AdamOptimizer",
    "R T weights gradients moment_1 moment_2 mixed_precision_weights? loss_scale? global_gradient_norm? update_signal?",
    _ADAM,
    outputs=(3, 6),
)
def adam(e: Expansion) -> Sequence[Value | str]:
    """Adam as ONNX Runtime's kernel for CPUs has it, which knows neither scales nor clipping."""
    hint = "ONNX Runtime has it for GPUs only"
    e.refuse_inputs("mixed_precision_weights loss_scale global_gradient_norm update_signal", hint)
    e.refuse_attrs("weight_decay_mode", hint)
    w, g, step = e.operand("weights"), e.operand("gradients"), e.operand("T")
    m, v = _moments(e, e, g, e.operand("moment_1"), e.operand("moment_2"))
    m_now, v_now = e.cast_like(m, w), e.cast_like(v, w)
    if e.node.int_attr("do_bias_correction", 1):
        of_m, of_v = (
            _correction(e, e.node.float_attr(name, default), e.scalar(step))
            for name, default in (("alpha", 0.9), ("beta", 0.999))
        )
        m_now, v_now = e.op("Div", m_now, e.cast_like(of_m, w)), e.op("Div", v_now, e.cast_like(of_v, w))
    root = e.op("Add", e.op("Sqrt", v_now), e.like(e.node.float_attr("epsilon", 1e-8), w))
    move = e.op("Div", m_now, root)
    decay = e.node.float_attr("lambda", 0.0)
    if decay:
        move = e.op("Add", move, e.scale(w, decay))
    delta = e.op("Neg", e.op("Mul", move, e.cast_like(e.scalar(e.operand("R")), w)))
    new_step = e.op("Add", step, e.like(1, step))
    return [new_step, m, v, e.op("Add", w, delta), e.cast_like(delta, g), "there is no weight of 16 bits"]


def _flag(e: Expansion, signal: Value | None, shape_of: Value) -> Value:
    """Whether the node did anything, in the shape of one of its inputs and the type that the model states."""
    flag = e.const(True, DType.BOOL) if signal is None else e.scalar(signal)
    if e.node.outputs[0].desc.dtype is DType.INT64:  # of older nodes, which counted
        flag = e.cast(flag, DType.INT64)
    return e.op("Expand", flag, e.op("Shape", shape_of))


def _if_signalled(b: Expansion, signal: Value | None, new: Value, old: Value) -> Value:
    return new if signal is None else b.op("Where", b.scalar(signal), new, old)


@contrib("SGDOptimizerV2", "lr weights gradients update_signal?", outputs=(1, 2), updates={1: "weights"})
def sgd_2(e: Expansion) -> Sequence[Value]:
    """weight − lr · gradient for each tensor of the sequences, which ONNX Runtime changes in place."""
    rate, signal = e.operand("lr"), e.input("update_signal")

    def step(b: Expansion, w: Value, g: Value) -> Sequence[Value]:
        move = b.op("Mul", g, b.cast_like(b.scalar(rate), g))
        return [_if_signalled(b, signal, b.op("Sub", w, b.cast_like(move, w)), w)]

    return [_flag(e, signal, rate), *e.each([e.operand("weights"), e.operand("gradients")], step, 1)]


@contrib(
    "AdamWOptimizer",
    "lr step weights gradients momentums_1 momentums_2 update_signal?",
    "alpha:f beta:f epsilon:f weight_decay:f correct_bias:i adam_mode:i",
    outputs=(1, 4),
    updates={1: "weights", 2: "momentums_1", 3: "momentums_2"},
)
def adam_w(e: Expansion) -> Sequence[Value]:
    """AdamW for each tensor of the sequences: the weights decay before (`adam_mode` 0, PyTorch) or after (1, Hugging
    Face) the move.
    """
    mode = e.node.int_attr("adam_mode", 0)
    if mode not in (0, 1):
        raise e.invalid(f"adam_mode = {mode}")
    lr, step, signal = e.operand("lr"), e.operand("step"), e.input("update_signal")
    rate, epsilon = e.scalar(lr), e.node.float_attr("epsilon", 1e-8)
    one = e.const(1.0, DType.FLOAT32)
    by_m = by_v = one
    if e.node.int_attr("correct_bias", 1):
        by_m = _correction(e, e.node.float_attr("alpha", 0.9), e.scalar(step))
        by_v = _correction(e, e.node.float_attr("beta", 0.999), e.scalar(step))
    pace = e.op("Div", rate, by_m)
    if mode == 1:
        pace = e.op("Mul", pace, e.op("Sqrt", by_v))
    keep = e.op("Sub", one, e.op("Mul", rate, e.const(e.node.float_attr("weight_decay", 1e-2), DType.FLOAT32)))

    def move(b: Expansion, w: Value, g: Value, m: Value, v: Value) -> Sequence[Value]:
        m_new, v_new = _moments(b, e, g, m, v)
        variance = v_new if mode == 1 else b.op("Div", v_new, b.cast_like(by_v, v))
        root = b.op("Add", b.op("Sqrt", variance), b.like(epsilon, v))
        delta = b.cast_like(b.op("Mul", b.op("Div", m_new, b.cast_like(root, m)), b.cast_like(pace, m)), w)
        kept = b.cast_like(keep, w)
        new = b.op("Mul", b.op("Sub", w, delta), kept) if mode == 1 else b.op("Sub", b.op("Mul", w, kept), delta)
        return [_if_signalled(b, signal, *pair) for pair in ((new, w), (m_new, m), (v_new, v))]

    lists = [e.operand(name) for name in ("weights", "gradients", "momentums_1", "momentums_2")]
    return [_flag(e, signal, step), *e.each(lists, move, 3)]


@contrib("InplaceClipGradNorm", "gradients", "max_norm:f norm_type:s")
def clip_grad_norm(e: Expansion) -> Value:
    """Gradients scaled down where the norm of all of them is above the largest one."""
    gradients = e.operand("gradients")
    if (norm := e.node.str_attr("norm_type", "fro")) != "fro":
        raise e.unsupported(f'norm_type = "{norm}"', "ONNX Runtime does not know it, either")

    def squared(b: Expansion, g: Value) -> Sequence[Value]:
        return [b.unsqueeze(b.op("ReduceSumSquare", g, keepdims=0), 0)]

    (squares,) = e.each([gradients], squared, 1)
    total = e.op("Sqrt", e.op("ReduceSum", e.op("ConcatFromSequence", squares, axis=0), keepdims=0))
    limit = e.like(e.node.float_attr("max_norm", 1.0), total)
    by = e.op("Min", e.op("Div", limit, e.op("Add", total, e.like(1e-6, total))), e.like(1.0, total))
    (clipped,) = e.each([gradients], lambda b, g: [b.op("Mul", g, b.cast_like(by, g))], 1)
    return clipped


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
