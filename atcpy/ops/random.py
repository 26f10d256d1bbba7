"""Ops that draw random numbers, by Philox in C: never folded, never merged, compared by type and shape only.

With the attribute `seed`, a node draws the same in each run; without, each launch draws anew. ONNX Runtime's draws
cannot be had: its generator and its ways from bits to numbers are its own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from atcpy.ir import DType, Engine, Node, Reject, Rewriter, Value
from atcpy.ops.core.opdef import KernelCall, OpDef, ParamValue, Trait, register_operator
from atcpy.ops.core.strided import rejects_value

_DRAWN = frozenset({DType.FLOAT32, DType.FLOAT64})
# Of each op: the kind of the kernel, and the attributes a and b with their defaults.
_KINDS = {
    "RandomUniform": ("uniform", ("low", 0.0), ("high", 1.0)),
    "RandomNormal": ("normal", ("mean", 0.0), ("scale", 1.0)),
}


def _seed(node: Node) -> dict[str, ParamValue]:
    """The bits of the seed, if there is one."""
    if "seed" not in node.attrs:
        return {}
    (bits,) = struct.unpack("<I", struct.pack("<f", node.float_attr("seed", 0.0)))
    return {"seeded": 1, "seed": bits}


def supports_draws(node: Node) -> Iterable[Reject]:
    """Results of a known shape in float32 or float64."""
    result = node.output.desc
    yield from rejects_value(node, result)
    if result.dtype not in _DRAWN:
        yield Reject("dtype", node.name, result.dtype.long)


def lower_draws(node: Node) -> Iterable[KernelCall]:
    """One launch, which reads nothing: of an operand, only the shape counts."""
    kind, (a, low), (b, high) = _KINDS[node.op_type.removesuffix("Like")]
    params: dict[str, ParamValue] = {
        "n": node.output.desc.elements,
        "kind": kind,
        "a": node.float_attr(a, low),
        "b": node.float_attr(b, high),
        **_seed(node),
    }
    yield KernelCall("random", (), (node.output,), params)


def supports_multinomial(node: Node) -> Iterable[Reject]:
    """Rows of one class at least."""
    x = node.operand(0).desc
    yield from rejects_value(node, x)
    if x.dtype not in _DRAWN:
        yield Reject("dtype", node.name, x.dtype.long)
    elif x.shape is not None and len(x.shape) == 2 and x.shape[1] == 0:
        yield Reject("no-classes", node.name)


def lower_multinomial(node: Node) -> Iterable[KernelCall]:
    """One launch."""
    rows, classes = node.operand(0).desc.static_shape
    params: dict[str, ParamValue] = {
        "rows": rows,
        "classes": classes,
        "samples": node.int_attr("sample_size", 1),
        "wide": int(node.output.desc.dtype is DType.INT64),
        **_seed(node),
    }
    yield KernelCall("multinomial", (node.operand(0),), (node.output,), params)


def _uniform(node: Node, rw: Rewriter) -> Value:
    """A number in [0, 1) for each element of the input."""
    seed = {"seed": node.float_attr("seed", 0.0)} if "seed" in node.attrs else {}
    return rw.op("RandomUniformLike", node.operand(0), dtype=DType.FLOAT32.onnx, **seed)


def expand_bernoulli(node: Node, rw: Rewriter) -> Sequence[Value | None] | Reject | None:
    """1 with the probability that each element is."""
    probability = node.operand(0)
    drawn = rw.op("Less", _uniform(node, rw), rw.cast(probability, DType.FLOAT32))
    return [rw.cast(drawn, DType.from_onnx(node.int_attr("dtype", probability.desc.dtype.onnx)))]


def expand_dropout(node: Node, rw: Rewriter) -> Sequence[Value | None] | Reject | None:
    """Zero with a probability of `ratio`, and what is left larger by 1 / (1 - ratio), where the node trains; else the
    input, of which all is kept.
    """
    if "seed" in node.attrs:
        return None  # ONNX's reference says what it draws: by numpy's generator, on the host
    x, ratio, training = node.operand(0), node.input(1), node.input(2)
    if training is not None and training.tensor is None:
        return Reject("training-mode", node.name)
    if training is None or not training.array.any():
        return [x, rw.op("Expand", rw.const(True, DType.BOOL, label="kept"), rw.op("Shape", x))]
    ratio = rw.const(0.5, DType.FLOAT32, label="ratio") if ratio is None else rw.cast(ratio, DType.FLOAT32)
    is_kept = rw.op("GreaterOrEqual", _uniform(node, rw), ratio)
    factor = rw.op("Reciprocal", rw.op("Sub", rw.const(1.0, DType.FLOAT32, label="one"), ratio))
    return [rw.op("Where", is_kept, rw.op("Mul", x, rw.cast_like(factor, x)), rw.like(0.0, x)), is_kept]


for _name in ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"):
    register_operator(OpDef(name=_name, engines={Engine.AICPU: supports_draws}, lower=lower_draws, traits=Trait.RANDOM))
register_operator(
    OpDef(
        name="Multinomial",
        engines={Engine.AICPU: supports_multinomial},
        lower=lower_multinomial,
        traits=Trait.RANDOM,
    )
)
register_operator(OpDef(name="Bernoulli", expand=expand_bernoulli, traits=Trait.RANDOM))
