"""Elementwise ops of two and more operands with broadcasting: launches of `binary`.

Of several operands, the first two go into the result's memory and each other one is added to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Engine, Format, Node, Reject, TensorDesc, Value
from atcpy.ir.shape import Dim
from atcpy.ir.symbolic import maximum, minimum, same
from atcpy.ir.tensor import Array
from atcpy.ops.core.broadcast import collapsed_walk, infer_same_type, layout_broadcast, supports_broadcast
from atcpy.ops.core.opdef import (
    Evaluate,
    GeTypes,
    KernelCall,
    Known,
    Layout,
    Neutral,
    OpDef,
    ParamValue,
    Propagate,
    Trait,
    as_epilogue,
    register_operator,
)
from atcpy.ops.core.shape_values import UNNAMED, Combine, add, broadcast, div, is_vector, mul, sub
from atcpy.ops.elementwise.elementwise import FLOATS, INTS, unary_call

BOOLS = frozenset({DType.BOOL})
NUMBERS = FLOATS | INTS

Function = Callable[[Array, Array], Array]


def broadcast_params(a: Value, b: Value, y: Value) -> dict[str, ParamValue]:
    """How a kernel of two operands walks them."""
    dims, (a_strides, b_strides) = collapsed_walk([a, b], y)
    return {"rank": len(dims), "dims": dims, "a_strides": a_strides, "b_strides": b_strides}


def binary_call(op: str, a: Value, b: Value, y: Value) -> KernelCall:
    """A launch of the `binary` family."""
    return KernelCall("binary", (a, b), (y,), {"op": op, **broadcast_params(a, b, y)})


def infer_binary(node: Node, known: Known) -> Sequence[TensorDesc]:
    """Operands of one type give a result of that type and of the shape that they broadcast to."""
    return [infer_same_type(node, node.operands)]


def infer_truth(node: Node, known: Known) -> Sequence[TensorDesc]:
    """As `infer_binary`, but the result is bool."""
    return [TensorDesc.plain(DType.BOOL, infer_same_type(node, node.operands).shape)]


def supports_binary(node: Node, dtypes: frozenset[DType]) -> Iterable[Reject]:
    """The kernels of an op take some types."""
    dtype = node.operand(0).desc.dtype
    if dtype not in dtypes:
        yield Reject("dtype", node.name, dtype.long)
    yield from supports_broadcast(node, node.operands)


def lower_chain(node: Node, op: str) -> Iterable[KernelCall]:
    """y = a op b, then y = y op c, …"""
    first, *others = node.operands
    y = node.output
    if not others:
        yield binary_call("Max", first, first, y)  # a copy, of any type and NaN included
        return
    yield binary_call(op, first, others[0], y)
    for value in others[1:]:
        yield binary_call(op, y, value, y)


def evaluate_with(function: Function) -> Evaluate:
    """Constant folding by a function of numpy."""

    def evaluate(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
        operands = [np.asarray(array) for array in arrays]
        with np.errstate(all="ignore"):
            return [np.asarray(reduce(function, operands))]

    return evaluate


def propagate_with(combine: Combine) -> Propagate:
    """Shape arithmetic on the known elements of two operands of at most one dim."""

    def propagate(node: Node, known: Known) -> tuple[Dim, ...] | None:
        if node.input_count != 2 or not all(is_vector(value) for value in node.operands):
            return None
        a, b = known(node.input(0)), known(node.input(1))
        return None if a is None or b is None else broadcast(combine, a, b)

    return propagate


def _on_ints(function: Callable[[int, int], int]) -> Combine:
    return lambda a, b: function(a, b) if isinstance(a, int) and isinstance(b, int) else UNNAMED


def _one_of(choose: Callable[[int, int], int]) -> Combine:
    on_ints = _on_ints(choose)
    return lambda a, b: a if same(a, b) else on_ints(a, b)


def equal(a: Dim, b: Dim) -> Dim:
    """1 if equal, 0 if not, the unnamed size where that is unknown."""
    if isinstance(a, int) and isinstance(b, int):
        return int(a == b)
    if a == b != UNNAMED:
        return 1
    # A size is not negative: the -1 of Expand and Reshape recipes is not equal to one.
    return 0 if any(isinstance(item, int) and item < 0 for item in (a, b)) else UNNAMED


def layout_divide(node: Node, at_hand: tuple[Format, ...]) -> Layout | Reject:
    """Integers stay plain: a zero in the padding would be a division by zero, also where a power is below it."""
    if node.operand(0).desc.dtype.is_int:
        return Reject("integer-division", node.name)
    return layout_broadcast(node, at_hand)


def infer_division(node: Node, known: Known) -> Sequence[TensorDesc]:
    """As `infer_binary`; a constant divisor of integers must have no zero."""
    divisor = node.operand(1).tensor
    if divisor is not None and divisor.dtype.is_int and not np.all(divisor.array):
        raise ModelInvalid("EZ8888", where=node, what="divides by a constant that has a zero")
    return infer_binary(node, known)


def evaluate_divide(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """True division of floats; integers truncate."""
    a, b = (np.asarray(array) for array in arrays)
    if not node.operand(0).desc.dtype.is_int:
        with np.errstate(all="ignore"):
            return [np.asarray(np.divide(a, b))]
    with np.errstate(all="ignore"):
        rest = np.fmod(a, b)  # has the sign of a, so a - rest divides without remainder
        return [np.asarray((a - rest) // b, a.dtype)]


def _fmod(node: Node) -> str:
    return "FMod" if node.int_attr("fmod", 0) else "Mod"


def _shift(node: Node) -> str:
    direction = node.str_attr("direction", "")
    if direction not in {"LEFT", "RIGHT"}:
        raise ModelInvalid("E13014", where=node, what=f"direction = {direction!r}, must be LEFT or RIGHT")
    return f"Shift{direction.title()}"


_DIVISIONS = frozenset({"Div", "Mod"})


def _register(
    name: str,
    ge_type: str | GeTypes,
    dtypes: frozenset[DType],
    *,
    op: str | Callable[[Node], str] = "",
    truth: bool = False,
    evaluate: Evaluate | None = None,
    propagate: Propagate | None = None,
    inplace: tuple[int, ...] = (0, 1),
    traits: Trait = Trait.NONE,
    neutral: Neutral | None = None,
    coefficients: tuple[int, ...] = (),
) -> None:
    def kernel_op(node: Node) -> str:
        return (op if isinstance(op, str) else op(node)) or name

    def supports(node: Node) -> Iterable[Reject]:
        return supports_binary(node, dtypes)

    register_operator(
        OpDef(
            name=name,
            ge_type=ge_type,
            infer=infer_division if name in _DIVISIONS else infer_truth if truth else infer_binary,
            propagate=propagate,
            evaluate=evaluate,
            engines={Engine.VECTOR: supports} | ({Engine.AICORE: as_epilogue(supports)} if name == "Add" else {}),
            layout=layout_divide if name in _DIVISIONS else layout_broadcast,
            lower=lambda node: lower_chain(node, kernel_op(node)),
            inplace=inplace,
            traits=Trait.ELEMENTWISE | traits,
            neutral=neutral,
            coefficients=coefficients,
        )
    )


def _register_arithmetic() -> None:
    functions: Mapping[str, tuple[Function, Combine, Neutral, tuple[int, ...]]] = {
        "Add": (np.add, add, Neutral(-0.0), (1, 1)),
        "Sub": (np.subtract, sub, Neutral(0.0, (1,)), (1, -1)),
        "Mul": (np.multiply, mul, Neutral(1), ()),
    }
    for name, (function, on_dims, neutral, coefficients) in functions.items():
        _register(
            name,
            name,
            NUMBERS,
            evaluate=evaluate_with(function),
            propagate=propagate_with(on_dims),
            neutral=neutral,
            coefficients=coefficients,
        )
    for name, ge_type, function, choose, neutral_number in (
        ("Max", "Maximum", np.maximum, maximum, -np.inf),
        ("Min", "Minimum", np.minimum, minimum, np.inf),
    ):
        _register(
            name,
            ge_type,
            NUMBERS,
            evaluate=evaluate_with(function),
            propagate=propagate_with(_one_of(choose)),
            inplace=(0,),
            traits=Trait.IDEMPOTENT | Trait.VARIADIC,
            neutral=Neutral(neutral_number),
        )
    _register(
        "Div",
        GeTypes(
            ("RealDiv", "TruncateDiv"),
            lambda node: "TruncateDiv" if node.operand(0).desc.dtype.is_int else "RealDiv",
        ),
        NUMBERS,
        evaluate=evaluate_divide,
        propagate=propagate_with(div),
        neutral=Neutral(1, (1,)),
    )
    mod_types = GeTypes(
        ("FloorMod", "TruncateMod"), lambda node: "TruncateMod" if _fmod(node) == "FMod" else "FloorMod"
    )
    _register("Mod", mod_types, NUMBERS, op=_fmod)
    _register(
        "Sum",
        GeTypes(("Add", "Sum"), lambda node: "Add" if node.input_count == 2 else "Sum"),
        FLOATS,
        op="Add",
        inplace=(0,),
        traits=Trait.VARIADIC,
    )


def _register_truth() -> None:
    comparisons: Mapping[str, tuple[str, Function, Combine]] = {
        "Equal": ("Equal", np.equal, equal),
        "Less": ("Less", np.less, _on_ints(lambda a, b: int(a < b))),
        "Greater": ("Greater", np.greater, _on_ints(lambda a, b: int(a > b))),
        "LessOrEqual": ("LessEqual", np.less_equal, _on_ints(lambda a, b: int(a <= b))),
        "GreaterOrEqual": ("GreaterEqual", np.greater_equal, _on_ints(lambda a, b: int(a >= b))),
    }
    for name, (ge_type, function, on_dims) in comparisons.items():
        _register(
            name,
            ge_type,
            NUMBERS | BOOLS if name == "Equal" else NUMBERS,
            truth=True,
            evaluate=evaluate_with(function),
            propagate=propagate_with(on_dims),
            inplace=(),
        )
    logic: Mapping[str, tuple[Function, Combine, Trait, Neutral]] = {
        "And": (np.logical_and, _on_ints(lambda a, b: int(a != 0 and b != 0)), Trait.IDEMPOTENT, Neutral(1)),
        "Or": (np.logical_or, _on_ints(lambda a, b: int(a != 0 or b != 0)), Trait.IDEMPOTENT, Neutral(0)),
        "Xor": (np.logical_xor, _on_ints(lambda a, b: int((a != 0) != (b != 0))), Trait.NONE, Neutral(0)),
    }
    for name, (function, on_truths, traits, neutral) in logic.items():
        _register(
            name,
            f"Logical{name}",
            BOOLS,
            truth=True,
            evaluate=evaluate_with(function),
            propagate=propagate_with(on_truths),
            traits=traits,
            neutral=neutral,
        )
    bits: Mapping[str, tuple[Function, Trait, Neutral | None]] = {
        "BitwiseAnd": (np.bitwise_and, Trait.IDEMPOTENT, None),
        "BitwiseOr": (np.bitwise_or, Trait.IDEMPOTENT, Neutral(0)),
        "BitwiseXor": (np.bitwise_xor, Trait.NONE, Neutral(0)),
    }
    for name, (function, traits, zero) in bits.items():
        _register(name, name, INTS, evaluate=evaluate_with(function), traits=traits, neutral=zero)
    _register("BitShift", "BitShift", INTS, op=_shift, neutral=Neutral(0, (1,)))


_register_arithmetic()
_register_truth()


def infer_prelu(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The slope broadcasts to the input, not the other way."""
    desc = infer_same_type(node, node.operands)
    x = node.operand(0).desc
    if x.shape is None or desc.shape is None:
        return [x.as_plain()]
    grows = any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(x.shape, desc.shape, strict=False))
    if grows or len(desc.shape) != len(x.shape):
        what = f"slope {node.operand(1).desc} does not broadcast to the input {x}"
        raise ModelInvalid("EZ8888", where=node, what=what)
    return [x.as_plain()]


register_operator(
    OpDef(
        name="PRelu",
        infer=infer_prelu,
        engines={Engine.VECTOR: lambda node: supports_binary(node, NUMBERS)},
        layout=layout_broadcast,
        lower=lambda node: lower_chain(node, "PRelu"),
        inplace=(0,),
        traits=Trait.ELEMENTWISE,
    )
)


def lower_mean(node: Node) -> Iterable[KernelCall]:
    """The sum, then a division by the count."""
    yield from lower_chain(node, "Add")
    if node.input_count > 1:
        yield unary_call("Divs", node.output, node.output, {"alpha": float(node.input_count)})


register_operator(
    OpDef(
        name="Mean",
        infer=infer_binary,
        engines={Engine.VECTOR: lambda node: supports_binary(node, FLOATS)},
        layout=layout_broadcast,
        lower=lower_mean,
        inplace=(0,),
        traits=Trait.ELEMENTWISE | Trait.VARIADIC,
    )
)
