"""Reductions along dims: ReduceSum, ReduceMean …, ArgMax, ArgMin, and the global pools."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import NC1HWC0, DType, Engine, Format, Node, Reject, Rewriter, TensorDesc, Value
from atcpy.ir.shape import Dim, Shape, StaticShape, Sym
from atcpy.ir.symbolic import same
from atcpy.ir.tensor import Array
from atcpy.ops.core.axes import around_axis, normal_axis, supports_along_axis
from atcpy.ops.core.opdef import (
    Axis,
    KernelCall,
    Known,
    Layout,
    OpDef,
    ParamValue,
    Perm,
    Permuted,
    Supports,
    Trait,
    register_operator,
)
from atcpy.ops.core.permute import permute_axes_input
from atcpy.ops.elementwise.elementwise import FLOATS, INTS

_NUMBERS = FLOATS | {DType.INT32, DType.INT64, DType.UINT32, DType.UINT64}
_ORDERED = _NUMBERS | {DType.INT8, DType.UINT8, DType.BOOL}
_FOLDS: dict[str, Callable[[list[int]], int]] = {
    "ReduceSum": sum,
    "ReduceProd": math.prod,
    "ReduceMax": max,
    "ReduceMin": min,
}
_LP = {1: "ReduceL1", 2: "ReduceL2"}
REDUCE_DIMS = 4  # kept and reduced dims that the kernel steps through; csrc/reduce/reduce.h


@dataclass(frozen=True, slots=True)
class Reduction:
    """What a reduction op is: its kind in csrc/reduce/reduce.h, its types, its name in GE, its traits."""

    kind: str
    dtypes: frozenset[DType]
    ge_type: str
    traits: Trait = Trait.NONE


REDUCTIONS = {
    "ReduceSum": Reduction("sum", _NUMBERS, "ReduceSum", Trait.STEPWISE),
    "ReduceMean": Reduction("mean", _NUMBERS, "ReduceMean", Trait.STEPWISE),
    "ReduceMax": Reduction("max", _ORDERED, "ReduceMax", Trait.STEPWISE | Trait.IDEMPOTENT),
    "ReduceMin": Reduction("min", _ORDERED, "ReduceMin", Trait.STEPWISE | Trait.IDEMPOTENT),
    "ReduceProd": Reduction("prod", _NUMBERS, "ReduceProd", Trait.STEPWISE),
    "ReduceL1": Reduction("l1", _NUMBERS, "ReduceL1", Trait.NON_NEGATIVE),
    "ReduceL2": Reduction("l2", _NUMBERS, "ReduceL2"),
    "ReduceSumSquare": Reduction("sum_square", _NUMBERS, "ReduceSumSquare", Trait.NON_NEGATIVE),
    "ReduceLogSum": Reduction("log_sum", FLOATS, "ReduceLogSum"),
    "ReduceLogSumExp": Reduction("log_sum_exp", FLOATS, "ReduceLogSumExp"),
}
GLOBAL_POOLS = {
    "GlobalAveragePool": Reduction("mean", FLOATS, "GlobalAveragePool"),
    "GlobalMaxPool": Reduction("max", FLOATS, "GlobalMaxPool"),
}


# --- inference ---------------------------------------------------------------------------------


def infer_reduce(node: Node, known: Known) -> Sequence[TensorDesc]:
    """Reduced dims become 1, or go where keepdims is 0."""
    x = node.operand(0).desc
    if x.shape is None:
        return [TensorDesc.plain(x.dtype, None)]
    keepdims = node.int_attr("keepdims", 1) != 0
    axes = _axes(node, len(x.shape), known)
    if axes is None:
        # Which dims go is unknown; how many, too, unless they are kept as 1.
        shape = tuple(Sym(f"{node.name}.{axis}") for axis in range(len(x.shape))) if keepdims else None
        return [TensorDesc.plain(x.dtype, shape)]
    return [TensorDesc.plain(x.dtype, _without(x.shape, axes, keepdims=keepdims))]


def infer_arg(node: Node, known: Known) -> Sequence[TensorDesc]:
    """Indices along one dim, int64."""
    x = node.operand(0).desc
    if x.shape is None:
        return [TensorDesc.plain(DType.INT64, None)]
    axis = _normalized(node, node.int_attr("axis", 0), len(x.shape))
    keepdims = node.int_attr("keepdims", 1) != 0
    return [TensorDesc.plain(DType.INT64, _without(x.shape, {axis}, keepdims=keepdims))]


def infer_global_pool(node: Node, known: Known) -> Sequence[TensorDesc]:
    """Every spatial dim becomes 1."""
    x = node.operand(0).desc
    if x.shape is None:
        return [TensorDesc.plain(x.dtype, None)]
    if len(x.shape) < 2:
        raise ModelInvalid("EZ8888", where=node, what=f"input of rank {len(x.shape)} has no channels")
    return [TensorDesc.plain(x.dtype, (*x.shape[:2], *[1] * (len(x.shape) - 2)))]


def propagate_reduce(node: Node, known: Known) -> tuple[Dim, ...] | None:
    """Sums, products and extremes of a vector of sizes, such as the number of elements."""
    elements, shape = known(node.operand(0)), node.operand(0).desc.shape
    if elements is None or shape is None or len(shape) != 1:
        return None
    axes = _axes(node, 1, known)
    if axes == set():
        return elements
    numbers = [element for element in elements if isinstance(element, int)]
    if axes is None or len(numbers) < len(elements) or not numbers:
        return None
    return (_FOLDS[node.op_type](numbers),)


def _axes(node: Node, rank: int, known: Known) -> set[int] | None:
    """The reduced dims, or None if they are not known yet."""
    stated: tuple[Dim, ...] | None = ()
    if node.input(1) is not None:
        stated = known(node.input(1))
    if stated is None:
        return None
    if not stated:
        return set() if node.int_attr("noop_with_empty_axes", 0) else set(range(rank))
    numbers = [axis for axis in stated if isinstance(axis, int)]
    if len(numbers) < len(stated):
        return None
    return {_normalized(node, axis, rank) for axis in numbers}


def _normalized(node: Node, axis: int, rank: int) -> int:
    return normal_axis(node, axis, max(rank, 1))  # a scalar has an axis 0, as in numpy's reductions


def _without(shape: Shape, axes: set[int], *, keepdims: bool) -> Shape:
    if keepdims:
        return tuple(1 if axis in axes else dim for axis, dim in enumerate(shape))
    return tuple(dim for axis, dim in enumerate(shape) if axis not in axes)


# --- engines and layout ------------------------------------------------------------------------


def constant_axes(node: Node) -> set[int] | None:
    """The reduced dims of a node that is about to run, or None if they are an input at run time."""
    rank = len(node.operand(0).desc.static_shape)
    if node.op_type in GLOBAL_POOLS:
        return set(range(2, rank))
    return _axes(node, rank, _constant)


def _constant(value: Value | None) -> tuple[Dim, ...] | None:
    if value is None or value.tensor is None:
        return None
    return tuple(int(element) for element in value.array.reshape(-1))


def supports(reduction: Reduction) -> Supports:
    """The reasons against a node of that reduction."""

    def supports_reduce(node: Node) -> Iterable[Reject]:
        x = node.operand(0).desc
        if x.dtype not in reduction.dtypes:
            yield Reject("dtype", node.name, x.dtype.long)
        if not x.is_static:
            yield Reject("shape-unknown", node.name)
            return
        axes = constant_axes(node)
        if axes is None:
            yield Reject("axes-not-constant", node.name)
            return
        dims = merge_dims(x.static_shape, axes)
        if max(len(dims.kept), len(dims.reduced)) > REDUCE_DIMS:
            yield Reject("rank", node.name, f"{len(dims.reduced)} groups of reduced dims")
        if reduction.kind == "mean" and x.dtype.is_int and 0 in x.static_shape:
            yield Reject("empty", node.name)

    return supports_reduce


def layout_reduce(node: Node, at_hand: tuple[Format, ...]) -> Layout | Reject:
    """In NC1HWC0 where the input is and the channels stay apart."""
    if at_hand[0] != NC1HWC0:
        return Reject("no-blocked-input", node.name)
    axes = constant_axes(node)
    if axes is None or 1 in axes:
        return Reject("channel-axis", node.name)
    if len(node.output.desc.static_shape) != 4:
        return Reject("dims-removed", node.name)
    return Layout((NC1HWC0, *[None] * (node.input_count - 1)), (NC1HWC0,))


# --- lowering ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MergedDims:
    """Dims of a reduction, neighbours of one kind merged: (size, stride) each, outermost first."""

    kept: tuple[tuple[int, int], ...]
    reduced: tuple[tuple[int, int], ...]
    inner: int


def merge_dims(shape: StaticShape, axes: set[int]) -> MergedDims:
    """Merges neighbouring dims that are all kept or all reduced; dims of 1 vanish."""
    runs: list[tuple[bool, int, int]] = []
    stride = 1
    for axis in reversed(range(len(shape))):
        size, is_reduced = shape[axis], axis in axes
        if same(size, 1):
            continue
        if runs and runs[-1][0] == is_reduced:
            runs[-1] = (is_reduced, runs[-1][1] * size, runs[-1][2])
        else:
            runs.append((is_reduced, size, stride))
        stride *= size
    inner = runs.pop(0)[1] if runs and not runs[0][0] else 1
    kept = tuple((size, step) for is_reduced, size, step in reversed(runs) if not is_reduced)
    reduced = tuple((size, step) for is_reduced, size, step in reversed(runs) if is_reduced)
    return MergedDims(kept, reduced, inner)


def lower_reduce(node: Node) -> Iterable[KernelCall]:
    """One launch of `reduce`."""
    x = node.operand(0)
    axes = constant_axes(node)
    assert axes is not None, node.name
    # N, H and W are the same axes in NC1HWC0; C1 and C0 are kept with C.
    dims = merge_dims(x.desc.memory_shape, axes)
    kind = (REDUCTIONS | GLOBAL_POOLS)[node.op_type].kind
    params: dict[str, ParamValue] = {"kind": kind, "inner": dims.inner}
    for name, groups in (("kept", dims.kept), ("reduced", dims.reduced)):
        padded = [(1, 0)] * (REDUCE_DIMS - len(groups)) + list(groups)
        if 0 in (size for size, _ in padded) and name == "reduced":
            padded = [(0, 0)] + [(1, 0)] * (REDUCE_DIMS - 1)
        params[name] = [size for size, _ in padded]
        params[f"{name}_stride"] = [step for _, step in padded]
    yield KernelCall("reduce", (x,), (node.output,), params)


def evaluate_global_pool(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """Over the spatial dims; onnx's own takes two for granted."""
    x = np.asarray(arrays[0])
    fold = np.max if GLOBAL_POOLS[node.op_type].kind == "max" else np.mean
    return [np.asarray(fold(x, axis=tuple(range(2, x.ndim)), keepdims=True), x.dtype)]


# --- ArgMax, ArgMin ----------------------------------------------------------------------------


def lower_arg(node: Node) -> Iterable[KernelCall]:
    """One launch of `argreduce`."""
    x = node.operand(0)
    shape = x.desc.static_shape or (1,)
    axis = _normalized(node, node.int_attr("axis", 0), len(shape))
    params: dict[str, ParamValue] = {
        "kind": "max" if node.op_type == "ArgMax" else "min",
        **around_axis(shape, axis),
        "last": int(node.int_attr("select_last_index", 0) != 0),
    }
    yield KernelCall("argreduce", (x,), (node.output,), params)


def expand_global_lp(node: Node, rw: Rewriter) -> Sequence[Value] | Reject:
    """(sum of |x|ᵖ over the spatial dims)^(1/p)."""
    x, p = node.operand(0), node.int_attr("p", 2)
    if x.desc.shape is None:
        return Reject("shape-unknown", node.name)
    if p < 1:
        raise ModelInvalid("E13014", where=node, what=f"p = {p}")
    axes = rw.const(np.arange(2, len(x.desc.shape)))
    if p in _LP:
        return [rw.op(_LP[p], x, axes, keepdims=1)]
    power, root = (rw.const(exponent, dtype=x.desc.dtype) for exponent in (p, 1 / p))
    total = rw.op("ReduceSum", rw.op("Pow", rw.op("Abs", x), power), axes, keepdims=1)
    return [rw.op("Pow", total, root)]


def permute_reduction(node: Node, perm: Perm) -> Permuted | None:
    """The dims must stay."""
    if not node.int_attr("keepdims", 1):
        return None
    return Permuted() if node.input(1) is None else permute_axes_input(1)(node, perm)


# --- records -----------------------------------------------------------------------------------

for _name, _reduction in REDUCTIONS.items():
    register_operator(
        OpDef(
            name=_name,
            ge_type=_reduction.ge_type,
            infer=infer_reduce,
            propagate=propagate_reduce if _name in _FOLDS else None,
            engines={Engine.VECTOR: supports(_reduction)},
            layout=layout_reduce,
            lower=lower_reduce,
            traits=Trait.REDUCTION | _reduction.traits,
            data=(0,),
            permute=permute_reduction,
        )
    )
for _name, _reduction in GLOBAL_POOLS.items():
    register_operator(
        OpDef(
            name=_name,
            ge_type=_reduction.ge_type,
            infer=infer_global_pool,
            evaluate=evaluate_global_pool,
            engines={Engine.VECTOR: supports(_reduction)},
            layout=layout_reduce,
            lower=lower_reduce,
            traits=Trait.REDUCTION | Trait.CHANNELWISE,
            data=(0,),
        )
    )
register_operator(
    OpDef(name="GlobalLpPool", infer=infer_global_pool, expand=expand_global_lp, traits=Trait.CHANNELWISE, data=(0,))
)
for _name in ("ArgMax", "ArgMin"):
    register_operator(
        OpDef(
            name=_name,
            infer=infer_arg,
            engines={Engine.VECTOR: supports_along_axis(FLOATS | INTS)},
            lower=lower_arg,
            axis=Axis(0),
        )
    )
