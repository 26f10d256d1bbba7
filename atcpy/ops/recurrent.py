"""LSTM, GRU and RNN: a product with the inputs of all steps at once, and Recurrence, the steps.

LSTM(x, w, r, b, lens, h, c, p)  →  Recurrence(x·wᵀ + b, rᵀ, rb, p, lens, h, c) {kind=lstm …}

Recurrence's operands are those of the kernel family `recurrent`; csrc/recurrent/recurrent.h says what it computes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Engine, Format, Node, Reject, Rewriter, TensorDesc, Value
from atcpy.ir.shape import Shape
from atcpy.ops.core.half import HALF_DTYPES
from atcpy.ops.core.opdef import GeTypes, KernelCall, Known, Layout, OpDef, ParamValue, register_operator
from atcpy.ops.matmul.matmul import MATRIX

DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}
_ACTS = 3  # activations that the kernel has for a direction


@dataclass(frozen=True, slots=True)
class _Kind:
    """What tells the three ops apart. `acts` are the default activations of a direction."""

    name: str
    gates: int
    acts: tuple[str, ...]
    p: int = 99  # input indices
    c: int = 99


_KINDS = {
    "LSTM": _Kind("lstm", 4, ("Sigmoid", "Tanh", "Tanh"), p=7, c=6),
    "GRU": _Kind("gru", 3, ("Sigmoid", "Tanh")),
    "RNN": _Kind("rnn", 1, ("Tanh",)),
}
DEFAULT_ACTIVATIONS = {op_type: kind.acts for op_type, kind in _KINDS.items()}  # of a direction

# Which of alpha and beta an activation reads, with ONNX's defaults; a given list of alphas has one for each that does.
ACTIVATION_PARAMETERS: dict[str, tuple[float | None, float | None]] = {
    "Relu": (None, None),
    "Tanh": (None, None),
    "Sigmoid": (None, None),
    "Affine": (1.0, 0.0),
    "LeakyRelu": (0.01, None),
    "ThresholdedRelu": (1.0, None),
    "ScaledTanh": (1.0, 1.0),
    "HardSigmoid": (0.2, 0.5),
    "Elu": (1.0, None),
    "Softsign": (None, None),
    "Softplus": (None, None),
}
_SPELLINGS = {name.lower(): name for name in ACTIVATION_PARAMETERS}


# --- LSTM, GRU, RNN ----------------------------------------------------------------------------


def shapes_of_recurrent(node: Node) -> Mapping[int, str]:
    """What the operands have in common: directions, batch, sizes of inputs and states."""
    kind, direction = _KINDS[node.op_type], node.str_attr("direction", "forward")
    if direction not in DIRECTIONS:
        raise ModelInvalid("E13014", where=node, what=f"direction = {direction!r} is none of {', '.join(DIRECTIONS)}")
    is_batchwise, d = node.int_attr("layout", 0) == 1, DIRECTIONS[direction]
    size = node.int_attr("hidden_size", 0) if "hidden_size" in node.attrs else None
    if size is not None and size < 0:
        raise ModelInvalid("E13014", where=node, what=f"hidden_size = {size}")
    hidden, gates, twice, thrice = (
        f"{count if count > 1 else ''}hidden" if size is None else str(count * size)
        for count in (1, kind.gates, 2 * kind.gates, 3)
    )
    states = f"batch {d} {hidden}" if is_batchwise else f"{d} batch {hidden}"
    return {
        0: "batch steps inputs" if is_batchwise else "steps batch inputs",
        1: f"{d} {gates} inputs",
        2: f"{d} {gates} {hidden}",
        3: f"{d} {twice}",
        4: "batch",
        5: states,
        kind.c: states,
        kind.p: f"{d} {thrice}",
    }


def expand_recurrent(node: Node, rw: Rewriter) -> Sequence[Value] | Reject:
    """One product for all steps and directions, then Recurrence."""
    kind = _KINDS[node.op_type]
    x, w, r, b = node.operand(0), node.operand(1), node.operand(2), node.input(3)
    if x.desc.dtype is not DType.FLOAT32 and x.desc.dtype not in HALF_DTYPES:
        return Reject("dtype", node.name, x.desc.dtype.long)
    if w.desc.shape is None or r.desc.shape is None or not all(isinstance(dim, int) for dim in r.desc.shape):
        return Reject("shape-unknown", node.name, r.name)
    d, gates_by_hidden, hidden = r.desc.static_shape
    if DIRECTIONS.get(node.str_attr("direction", "forward")) != d or gates_by_hidden != kind.gates * hidden:
        raise ModelInvalid("E13014", where=node, what=f"R of shape {list(r.desc.static_shape)} does not fit")
    attrs = _attributes(node, kind, hidden)
    late = bool(attrs["linear_before_reset"])
    weights = rw.op("Transpose", w, perm=(2, 0, 1))  # [inputs, directions, gates · hidden]
    weights = rw.op("Reshape", weights, rw.const(np.array([0, d * kind.gates * hidden])))
    bias, reset_bias = _biases(rw, b, kind, d, hidden, late=late)
    sums = rw.op("FusedMatMul", x, weights, *([] if bias is None else [bias]))
    steps = rw.op("Reshape", r, rw.const(np.array([d, kind.gates, hidden, hidden])))
    steps = rw.op("Transpose", steps, perm=(0, 1, 3, 2))
    inputs = [sums, steps, reset_bias, node.input(kind.p), node.input(4), node.input(5), node.input(kind.c)]
    return rw.ops("Recurrence", *inputs, outputs=len(node.outputs), **attrs)


def _attributes(node: Node, kind: _Kind, hidden: int) -> dict[str, object]:
    direction = node.str_attr("direction", "forward")
    if node.int_attr("hidden_size", hidden) != hidden:
        raise ModelInvalid("E13014", where=node, what=f"hidden_size is not R's {hidden}")
    names, alphas, betas = _activations(node, kind, DIRECTIONS[direction])
    return {
        "kind": kind.name,
        "direction": direction,
        "layout": node.int_attr("layout", 0),
        "clip": node.float_attr("clip", 0.0),
        "linear_before_reset": node.int_attr("linear_before_reset", 0),
        "input_forget": node.int_attr("input_forget", 0),
        "activations": names,
        "activation_alpha": alphas,
        "activation_beta": betas,
    }


def _activations(
    node: Node, kind: _Kind, directions: int
) -> tuple[tuple[str, ...], tuple[float, ...], tuple[float, ...]]:
    """The activations of all directions, each with its alpha and beta."""
    activations = node.attrs.get("activations") or kind.acts * directions
    assert isinstance(activations, tuple)
    for name in ("activation_alpha", "activation_beta"):
        if len(_floats(node, name)) > len(activations):
            raise ModelInvalid("E13014", where=node, what=f"{name} has more numbers than there are activations")
    names = tuple(_SPELLINGS.get(str(name).lower(), "") for name in activations)
    if len(names) != len(kind.acts) * directions or "" in names:
        raise ModelInvalid("E13014", where=node, what=f"activations = {list(activations)}")
    lists = [iter(_floats(node, name)) for name in ("activation_alpha", "activation_beta")]
    alphas, betas = (
        tuple(
            0.0 if (default := ACTIVATION_PARAMETERS[name][which]) is None else next(lists[which], default)
            for name in names
        )
        for which in (0, 1)
    )
    return names, alphas, betas


def _floats(node: Node, name: str) -> tuple[float, ...]:
    values = node.attrs.get(name) or ()
    assert isinstance(values, tuple)
    return tuple(float(value) for value in values)


def _biases(
    rw: Rewriter, b: Value | None, kind: _Kind, d: int, hidden: int, *, late: bool
) -> tuple[Value | None, Value | None]:
    """What is added to the product with the inputs, and what GRU adds to that with h before it resets."""
    if b is None:
        return None, None
    both = rw.op("Reshape", b, rw.const(np.array([d, 2, kind.gates * hidden])))
    inputs, states = (rw.op("Gather", both, rw.const(np.array(half)), axis=1) for half in (0, 1))
    reset: Value | None = None
    if late:
        reset = _columns(rw, states, 2 * hidden, 3 * hidden)
        rest = _columns(rw, states, 0, 2 * hidden)
        pads = rw.const(np.array([0, 0, 0, hidden]))
        states = rw.op("Pad", rest, pads)
    total = rw.op("Add", inputs, states)
    return rw.op("Reshape", total, rw.const(np.array([-1]))), reset


def _columns(rw: Rewriter, matrix: Value, begin: int, end: int) -> Value:
    limits = (rw.const(np.array([number])) for number in (begin, end, 1))
    return rw.op("Slice", matrix, *limits)


# --- Recurrence --------------------------------------------------------------------------------


def shapes_of_recurrence(node: Node) -> Mapping[int, str]:
    """What the operands have in common: directions, batch, size of the states."""
    is_batchwise = node.int_attr("layout", 0) == 1
    order, states = ("batch steps", "batch d hidden") if is_batchwise else ("steps batch", "d batch hidden")
    shapes = [f"{order} sums", "d gates hidden hidden", "d hidden", "d 3hidden", "batch", states, states]
    return dict(enumerate(shapes))


def infer_recurrence(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The outputs: of each step, and after the last."""
    x, r = node.operand(0).desc, node.operand(1).desc.static_shape
    if x.shape is None:
        return [TensorDesc.plain(x.dtype, None)] * len(node.outputs)
    if len(x.shape) != 3:
        raise ModelInvalid("EZ8888", where=node, what=f"sums of rank {len(x.shape)}, 3 is needed")
    first, second, width = x.shape
    d, gates, hidden, _ = r
    if isinstance(width, int) and width != d * gates * hidden:
        raise ModelInvalid("EZ8888", where=node, what=f"{width} sums for {d * gates * hidden}")
    y: Shape
    state: Shape
    if node.int_attr("layout", 0):
        y, state = (first, second, d, hidden), (first, d, hidden)
    else:
        y, state = (first, d, second, hidden), (d, second, hidden)
    return [TensorDesc.plain(x.dtype, shape) for shape in (y, state, state)][: len(node.outputs)]


def supports_recurrence(node: Node) -> Iterable[Reject]:
    """The kernel takes float32."""
    if node.operand(0).desc.dtype is not DType.FLOAT32:
        yield Reject("dtype", node.name, node.operand(0).desc.dtype.long)
    unknown = [value.name for value in node.operands if not value.desc.is_static]
    if unknown:
        yield Reject("shape-unknown", node.name, unknown[0])


def layout_recurrence(node: Node, at_hand: tuple[Format, ...]) -> Layout | Reject:
    """Constant weights lie in FRACTAL_NZ; all else is row-major."""
    if node.operand(1).tensor is None:
        return Reject("weights-not-constant", node.name)
    return Layout((None, MATRIX, *[None] * (node.input_count - 2)), tuple([None] * len(node.outputs)))


def lower_recurrence(node: Node) -> Iterable[KernelCall]:
    """One launch of `recurrent`, without the results that nobody reads."""
    r = node.operand(1)
    d, _, hidden, _ = r.desc.static_shape
    layout = node.int_attr("layout", 0)
    batch, steps = node.operand(0).desc.static_shape[:2][:: 1 if layout else -1]
    required = [value for value in node.outputs if value.use_count and math.prod(value.desc.static_shape)]
    if not required:
        return
    params: dict[str, ParamValue] = {
        "kind": node.str_attr("kind", ""),
        "directions": d,
        "reverse": int(node.str_attr("direction", "") == "reverse"),
        "steps": steps, "batch": batch, "hidden": hidden, "layout": layout,
        "r_packed": int(r.desc.format == MATRIX),
        "linear_before_reset": node.int_attr("linear_before_reset", 0),
        "input_forget": node.int_attr("input_forget", 0),
        "clip": node.float_attr("clip", 0.0),
    }  # fmt: skip
    for name, value in zip(("y", "y_h", "y_c"), node.outputs, strict=False):
        params[name] = required.index(value) + 1 if value in required else 0
    params |= _activation_params(node, d)
    yield KernelCall("recurrent", (*node.inputs, *[None] * 7)[:7], tuple(required), params)


def _activation_params(node: Node, directions: int) -> dict[str, ParamValue]:
    names = node.attrs["activations"]
    alphas, betas = _floats(node, "activation_alpha"), _floats(node, "activation_beta")
    assert isinstance(names, tuple)
    each = len(names) // directions
    params: dict[str, ParamValue] = {}
    for index, name in enumerate(names):
        slot = index // each * _ACTS + index % each
        params |= {f"act{slot}": name, f"alpha{slot}": alphas[index], f"beta{slot}": betas[index]}
    return params


for _name in _KINDS:
    register_operator(OpDef(name=_name, operand_shapes=shapes_of_recurrent, expand=expand_recurrent))
register_operator(
    OpDef(
        name="Recurrence",
        ge_type=GeTypes(("RNN", "GRU", "LSTM"), lambda node: node.str_attr("kind", "rnn").upper()),
        operand_shapes=shapes_of_recurrence,
        infer=infer_recurrence,
        engines={Engine.AICORE: supports_recurrence},
        layout=layout_recurrence,
        lower=lower_recurrence,
        wide_weights=(1,),
    )
)
