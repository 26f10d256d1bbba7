"""Elementwise ops of one operand, activations among them: each is one launch of `unary`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Engine, Node, Reject, Value
from atcpy.ir.shape import Dim, element_count
from atcpy.ir.tensor import Array
from atcpy.ops.core.broadcast import layout_like_input, supports_broadcast
from atcpy.ops.core.opdef import (
    Evaluate,
    KernelCall,
    Known,
    OpDef,
    ParamValue,
    Propagate,
    Supports,
    Trait,
    as_epilogue,
    register_operator,
)
from atcpy.ops.core.structural import same_as_input

FLOATS = frozenset({DType.FLOAT32, DType.FLOAT64})
SIGNED = frozenset({DType.INT8, DType.INT16, DType.INT32, DType.INT64})
INTS = SIGNED | {DType.UINT8, DType.UINT16, DType.UINT32, DType.UINT64}

Params = Callable[[Node], Mapping[str, ParamValue]]


def supports_unary(node: Node, dtypes: frozenset[DType]) -> Iterable[Reject]:
    """The kernels of an op take some types."""
    x = node.operand(0)
    if x.desc.dtype not in dtypes:
        yield Reject("dtype", node.name, x.desc.dtype.long)
    yield from supports_broadcast(node, [x])


def lower_unary(node: Node, op: str, params: Mapping[str, ParamValue]) -> Iterable[KernelCall]:
    """One launch over the elements as they lie in memory, padding included."""
    yield unary_call(op, node.operand(0), node.output, params)


def unary_call(op: str, x: Value, y: Value, params: Mapping[str, ParamValue]) -> KernelCall:
    """A launch of the `unary` family."""
    return KernelCall("unary", (x,), (y,), {"op": op, "n": element_count(x.desc.memory_shape), **params})


def _floats(node: Node, **defaults: float) -> dict[str, ParamValue]:
    return {name: node.float_attr(name, default) for name, default in defaults.items()}


def _register(
    name: str,
    ge_type: str,
    dtypes: frozenset[DType] = FLOATS,
    params: Params = lambda node: {},
    *,
    op: str | Callable[[Node], str] = "",
    evaluate: Evaluate | None = None,
    propagate: Propagate | None = None,
    epilogue: bool = False,
    traits: Trait = Trait.NONE,
    coefficients: tuple[int, ...] = (),
) -> None:
    def kernel_op(node: Node) -> str:
        return (op if isinstance(op, str) else op(node)) or name

    def activation(node: Node) -> tuple[str, float, float]:
        alpha, beta = (params(node).get(name, 0.0) for name in ("alpha", "beta"))
        assert isinstance(alpha, float) and isinstance(beta, float)
        return kernel_op(node), alpha, beta

    register_operator(
        OpDef(
            name=name,
            ge_type=ge_type,
            infer=same_as_input,
            propagate=propagate,
            evaluate=evaluate,
            engines=_engines(dtypes, epilogue=epilogue),
            layout=layout_like_input,
            lower=lambda node: lower_unary(node, kernel_op(node), params(node)),
            inplace=(0,),
            traits=Trait.ELEMENTWISE | traits,
            activation=activation if epilogue else None,
            coefficients=coefficients,
        )
    )


def _engines(dtypes: frozenset[DType], *, epilogue: bool) -> dict[Engine, Supports]:
    """The vector engine; for what a cube op can do before it stores its result, the cube's too."""

    def supports(node: Node) -> Iterable[Reject]:
        return supports_unary(node, dtypes)

    return {Engine.VECTOR: supports} | ({Engine.AICORE: as_epilogue(supports)} if epilogue else {})


def _on_arrays(function: Callable[[Array], Array]) -> Evaluate:
    def evaluate(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
        with np.errstate(all="ignore"):
            return [np.asarray(function(np.asarray(arrays[0])))]

    return evaluate


def _each(function: Callable[[int], int]) -> Propagate:
    def propagate(node: Node, known: Known) -> tuple[Dim, ...] | None:
        elements = known(node.input(0))
        if elements is None or not all(isinstance(item, int) for item in elements):
            return None
        return tuple(function(item) for item in elements if isinstance(item, int))

    return propagate


def _selu(node: Node) -> Mapping[str, ParamValue]:
    defaults = _floats(node, alpha=1.67326319217681884765625, gamma=1.05070102214813232421875)
    return {"alpha": defaults["alpha"], "beta": defaults["gamma"]}


def _shrink(node: Node) -> Mapping[str, ParamValue]:
    return {"alpha": node.float_attr("lambd", 0.5), "beta": node.float_attr("bias", 0.0)}


def _erf(x: Array) -> Array:
    """The reference computes it, and what is made of it, in float32."""
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x).astype(x.dtype))


def _evaluate_gelu(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    x = np.asarray(arrays[0])
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        if _gelu(node) == "GeluTanh":
            gate = np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3))
        else:
            gate = _erf(wide / math.sqrt(2))
        return [(wide / 2 * (1 + gate)).astype(x.dtype)]


def _hard_swish(x: Array) -> Array:
    wide = x.astype(np.float64)
    return np.asarray((wide * np.clip(wide / 6 + 0.5, 0, 1)).astype(x.dtype))


def _softsign(x: Array) -> Array:
    return np.asarray(x / (1 + np.abs(x)))


def _gelu(node: Node) -> str:
    approximate = node.str_attr("approximate", "none")
    if approximate not in {"none", "tanh"}:
        raise ModelInvalid("E13014", where=node, what=f"approximate = {approximate!r}, must be none or tanh")
    return "GeluTanh" if approximate == "tanh" else "Gelu"


_register("Relu", "Relu", FLOATS | SIGNED, epilogue=True, traits=Trait.IDEMPOTENT | Trait.NON_NEGATIVE)
_register("LeakyRelu", "LeakyRelu", params=lambda node: _floats(node, alpha=0.01), epilogue=True)
_register("ThresholdedRelu", "ThresholdedRelu", params=lambda node: _floats(node, alpha=1.0), epilogue=True)
_register("Shrink", "Shrink", FLOATS | INTS, params=_shrink)
_register("Sigmoid", "Sigmoid", epilogue=True, traits=Trait.NON_NEGATIVE)
_register(
    "HardSigmoid",
    "HardSigmoid",
    params=lambda node: _floats(node, alpha=0.2, beta=0.5),
    epilogue=True,
    traits=Trait.NON_NEGATIVE,
)
_register("HardSwish", "HardSwish", evaluate=_on_arrays(_hard_swish), epilogue=True)
_register("Swish", "Swish", params=lambda node: _floats(node, alpha=1.0), epilogue=True)
_register("Mish", "Mish", epilogue=True)
_register("Gelu", "Gelu", op=_gelu, evaluate=_evaluate_gelu, epilogue=True)
_register("Elu", "Elu", params=lambda node: _floats(node, alpha=1.0), epilogue=True)
_register("Selu", "Selu", params=_selu, epilogue=True)
_register("Celu", "Celu", params=lambda node: _floats(node, alpha=1.0), epilogue=True)
_register("Softplus", "Softplus", epilogue=True, traits=Trait.NON_NEGATIVE)
_register("Softsign", "Softsign", evaluate=_on_arrays(_softsign), epilogue=True)
_register("Tanh", "Tanh", epilogue=True)
_register("Erf", "Erf", evaluate=_on_arrays(_erf))
_register("Exp", "Exp", traits=Trait.NON_NEGATIVE)
_register("Log", "Log")
_register("Sqrt", "Sqrt", evaluate=_on_arrays(np.sqrt))
_register("Reciprocal", "Reciprocal")
_register(
    "Abs",
    "Abs",
    FLOATS | INTS,
    evaluate=_on_arrays(np.abs),
    propagate=_each(abs),
    traits=Trait.IDEMPOTENT | Trait.NON_NEGATIVE,
)
_register(
    "Neg",
    "Neg",
    FLOATS | SIGNED,
    evaluate=_on_arrays(np.negative),
    propagate=_each(lambda item: -item),
    traits=Trait.INVOLUTION,
    coefficients=(-1,),
)
_register(
    "Sign",
    "Sign",
    FLOATS | INTS,
    evaluate=_on_arrays(np.sign),
    propagate=_each(lambda item: (item > 0) - (item < 0)),
    traits=Trait.IDEMPOTENT,
)
_register("Floor", "Floor", evaluate=_on_arrays(np.floor), traits=Trait.IDEMPOTENT)
_register("Ceil", "Ceil", evaluate=_on_arrays(np.ceil), traits=Trait.IDEMPOTENT)
_register("Round", "Round", evaluate=_on_arrays(np.rint), traits=Trait.IDEMPOTENT)
for _name in ("Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh"):
    _register(_name, _name)
_register(
    "Not",
    "LogicalNot",
    frozenset({DType.BOOL}),
    evaluate=_on_arrays(np.logical_not),
    propagate=_each(lambda truth: int(truth == 0)),
    traits=Trait.INVOLUTION,
)
_register("BitwiseNot", "BitwiseNot", INTS, evaluate=_on_arrays(np.bitwise_not), traits=Trait.INVOLUTION)
