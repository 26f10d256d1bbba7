"""MatMul, Gemm, and FusedMatMul: a product with its scale, bias, residual and activation.

FusedMatMul(a, b, bias?, residual?) {transA, transB, scale, activation, alpha, beta}
    = activation(scale · a·b + bias + residual)

a and b are as in MatMul, their last two dims swapped where transA or transB says so; bias spreads
to [M, N] as Gemm's C does; residual has the result's shape. `alpha` and `beta` are the
activation's, as in FusedConv. A scale other than 1 allows no residual.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import Engine, Format, FormatKind, Node, Reject, TensorDesc, Value
from atcpy.ir.dtype import DType
from atcpy.ir.shape import Dim, Shape, StaticShape, Sym, element_count
from atcpy.ir.symbolic import agree, always_below, same
from atcpy.ir.tensor import Array
from atcpy.ops.core.half import HALF_DTYPES, MULTIPLIES_BF16, supports_weights, weight_type
from atcpy.ops.core.opdef import GeTypes, KernelCall, Known, Layout, OpDef, ParamValue, Trait, register_operator

MATRIX = Format(FormatKind.FRACTAL_NZ, 16)
MATRIX_OF_PAIRS = Format(FormatKind.FRACTAL_NZ_VNNI2, 16)
BATCH_RANK = 5  # batch dims that the kernel steps through; csrc/matmul/matmul.h
MIN_DOT = 16  # elements of a dot product that is faster than a panel with one column
KERNEL_DTYPES = frozenset({DType.FLOAT32, DType.FLOAT64, DType.INT32, DType.INT64})
_INPUTS = ("a", "b", "bias", "residual")


# --- inference ---------------------------------------------------------------------------------


def infer_matmul(node: Node, known: Known) -> Sequence[TensorDesc]:
    """numpy's matmul: a vector is a row on the left and a column on the right."""
    a, b = node.operand(0).desc, node.operand(1).desc
    if a.shape is None or b.shape is None:
        return [TensorDesc.plain(a.dtype, None)]
    if not a.shape or not b.shape:
        raise ModelInvalid("EZ8888", where=node, what="a scalar cannot be multiplied as a matrix")
    left, right = _as_matrix(a.shape, row=True), _as_matrix(b.shape, row=False)
    left = _transposed(left, node.int_attr("transA", 0))
    right = _transposed(right, node.int_attr("transB", 0))
    _check_inner(node, left[-1], right[-2])
    batch = _broadcast(node, left[:-2], right[:-2])
    rows = (left[-2],) if len(a.shape) > 1 else ()
    columns = (right[-1],) if len(b.shape) > 1 else ()
    return [TensorDesc.plain(a.dtype, (*batch, *rows, *columns))]


def infer_gemm(node: Node, known: Known) -> Sequence[TensorDesc]:
    """[M, K] by [K, N], each transposed where its attribute says so."""
    a, b = node.operand(0).desc, node.operand(1).desc
    if a.shape is None or b.shape is None:
        return [TensorDesc.plain(a.dtype, None)]
    if len(a.shape) != 2 or len(b.shape) != 2:
        raise ModelInvalid("EZ8888", where=node, what=f"matrices of rank {len(a.shape)} and {len(b.shape)}, not 2")
    (m, k), (k_right, n) = (
        _transposed(a.shape, node.int_attr("transA", 0)),
        _transposed(b.shape, node.int_attr("transB", 0)),
    )
    _check_inner(node, k, k_right)
    c = node.input(2)
    if c is not None and c.desc.shape is not None:
        _check_spreads(node, c.desc.shape, (m, n))
    return [TensorDesc.plain(a.dtype, (m, n))]


def _as_matrix(shape: Shape, *, row: bool) -> Shape:
    if len(shape) > 1:
        return shape
    return (1, *shape) if row else (*shape, 1)


def _transposed(shape: Shape, trans: int) -> Shape:
    return (*shape[:-2], shape[-1], shape[-2]) if trans else shape


def _check_inner(node: Node, left: Dim, right: Dim) -> None:
    if isinstance(left, int) and isinstance(right, int) and not agree(left, right):
        raise ModelInvalid("EZ8888", where=node, what=f"{left} columns by {right} rows cannot be multiplied")


def _check_spreads(node: Node, shape: Shape, to: Shape) -> None:
    fits = len(shape) <= len(to) and all(
        have == 1 or have == want or isinstance(have, Sym) or isinstance(want, Sym)
        for have, want in zip(reversed(shape), reversed(to), strict=False)
    )
    if not fits:
        raise ModelInvalid("EZ8888", where=node, what=f"C of shape {_text(shape)} does not spread to {_text(to)}")


def _broadcast(node: Node, left: Shape, right: Shape) -> Shape:
    rank = max(len(left), len(right))
    pairs = zip((1,) * (rank - len(left)) + left, (1,) * (rank - len(right)) + right, strict=True)
    found: list[Dim] = []
    for x, y in pairs:
        if same(x, y) or same(y, 1):
            found.append(x)
        elif same(x, 1):
            found.append(y)
        elif isinstance(x, int) and isinstance(y, int) and not agree(x, y):
            raise ModelInvalid("EZ8888", where=node, what=f"batches {_text(left)} and {_text(right)} do not fit")
        else:  # a symbol beside a size above 1 must be that size or 1: the result is that size
            sizes = [dim for dim in (x, y) if isinstance(dim, int)]
            found.append(sizes[0] if sizes else Sym(f"{node.name}.{len(found)}"))
    return tuple(found)


def _text(shape: Shape) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


def evaluate_matmul(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """numpy's matmul is what ONNX defines MatMul by."""
    a, b = arrays[:2]
    assert a is not None and b is not None
    return [np.asarray(np.matmul(a, b))]


# --- engines and layout ------------------------------------------------------------------------


def _is_packable(b: Value, *, transposed: bool) -> bool:
    """True if a right operand can lie in FRACTAL_NZ."""
    return b.tensor is not None and b.desc.shape is not None and len(b.desc.shape) > 1 and not transposed


def supports_matmul(node: Node) -> Iterable[Reject]:
    """The kernels take float32 and float64, int32 and int64 in any rank, and float32 by weights of 16 bits."""
    dtype = node.operand(0).desc.dtype
    if dtype not in KERNEL_DTYPES:
        yield Reject("dtype", node.name, dtype.long)
    packable = _is_packable(node.operand(1), transposed=bool(node.int_attr("transB", 0)))
    yield from supports_weights(node, 1, half=(1,) if packable else ())
    unknown = [value.name for value in node.operands if not value.desc.is_static]
    if unknown:
        yield Reject("shape-unknown", node.name, unknown[0])
        return
    if len(_plan(node).batch) > BATCH_RANK:
        yield Reject("rank", node.name, f"{len(_plan(node).batch)} batch dims that cannot be merged")
    if dtype is not DType.FLOAT32 and node.str_attr("activation", ""):
        yield Reject("activation-dtype", node.name, dtype.long)
    if node.float_attr("scale", 1.0) != 1.0 and node.input(3) is not None:
        yield Reject("scale-with-residual", node.name)
    if node.op_type == "Gemm" and dtype.is_int and _scales(node) != (1.0, 1.0):
        yield Reject("scale-dtype", node.name, dtype.long)


def layout_matmul(node: Node, at_hand: tuple[Format, ...]) -> Layout | Reject:
    """A constant right operand lies in FRACTAL_NZ; all else is row-major."""
    b = node.operand(1)
    inputs: list[Format | None] = [None] * node.input_count
    if b.tensor is None:
        return Reject("weights-not-constant", node.name)
    packed_dtype = b.desc.dtype is DType.FLOAT32 or b.desc.dtype in HALF_DTYPES
    if not packed_dtype or not _is_packable(b, transposed=bool(node.int_attr("transB", 0))):
        return Reject("weights-not-a-matrix", node.name)
    if b.desc.dtype is DType.FLOAT32 and _takes_transposed(node):
        return Reject("weights-not-a-matrix", node.name)
    in_pairs = node.int_attr(MULTIPLIES_BF16, 0) and not node.int_attr("transA", 0)
    inputs[1] = MATRIX_OF_PAIRS if in_pairs else MATRIX
    return Layout(tuple(inputs), (None,))


# --- lowering ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _BatchDim:
    size: int
    a: int
    b: int
    y: int

    def merges_into(self, outer: _BatchDim) -> bool:
        """True if `outer` steps over just what this dim covers."""
        steps = (outer.a, self.a), (outer.b, self.b), (outer.y, self.y)
        return all(same(step, inner * self.size) for step, inner in steps)


@dataclass(frozen=True, slots=True)
class _Plan:
    """A product as the kernel sees it: sizes and strides in elements."""

    batch: tuple[_BatchDim, ...]
    m: int
    k: int
    n: int
    a: tuple[int, int]  # strides of a row and of a column
    b: tuple[int, int]
    bias: tuple[int, int]
    transposed: bool = False  # yᵀ = bᵀ·aᵀ: a and b change places


def _plan(node: Node) -> _Plan:
    a_shape, b_shape = _static(node.operand(0), row=True), _static(node.operand(1), row=False)
    (m, k), a_strides = _matrix(a_shape, node.int_attr("transA", 0))
    (_, n), b_strides = _matrix(b_shape, node.int_attr("transB", 0))
    bias = _bias_strides(node.input(2), n)
    packed = node.operand(1).desc.storage_shape
    sizes = (
        a_shape[-2] * a_shape[-1],
        element_count(packed[len(b_shape) - 2 :]) if packed else b_shape[-2] * b_shape[-1],
    )
    batch = _batch_dims(a_shape[:-2], b_shape[:-2], sizes, m * n)
    if len(batch) == 1 and same(batch[0].b, 0) and same(batch[0].a, m * a_strides[0]) and same(bias[0], 0):
        m, batch = m * batch[0].size, ()  # one right operand for all: the matrices make one tall one
    if node.operand(1).desc.format.is_plain and _takes_transposed(node):
        batch = tuple(_BatchDim(dim.size, dim.b, dim.a, dim.y) for dim in batch)
        return _Plan(batch, n, k, m, b_strides[::-1], a_strides[::-1], bias[::-1], transposed=True)
    return _Plan(batch, m, k, n, a_strides, b_strides, bias)


def _takes_transposed(node: Node) -> bool:
    """True if b is one column, which would leave 15 of the 16 columns of a panel empty. The kernel then computes
    bᵀ·aᵀ: it multiplies one row by aᵀ where that lies, by dot products, if long enough, or as a sum of the rows of aᵀ.
    """
    (k, n), _ = _matrix(_static(node.operand(1), row=False), node.int_attr("transB", 0))
    return same(n, 1) and (node.int_attr("transA", 0) == 1 or not always_below(k, MIN_DOT))


def _static(value: Value, *, row: bool) -> StaticShape:
    shape = value.desc.static_shape
    if len(shape) > 1:
        return shape
    return (1, *shape) if row else (*shape, 1)


def _matrix(shape: StaticShape, trans: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Sizes and strides of the last two dims."""
    rows, columns = shape[-2:]
    return ((columns, rows), (1, columns)) if trans else ((rows, columns), (columns, 1))


def _batch_dims(a: StaticShape, b: StaticShape, matrix: tuple[int, int], result: int) -> tuple[_BatchDim, ...]:
    """The batch dims, those of size 1 left out, neighbours merged where all strides allow it."""
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    (a_step, b_step), y_step = matrix, result
    dims: list[_BatchDim] = []  # innermost first
    for x, y in zip(reversed(a), reversed(b), strict=True):
        size = y if same(x, 1) else x
        dim = _BatchDim(size, 0 if same(x, 1) else a_step, 0 if same(y, 1) else b_step, y_step)
        a_step, b_step, y_step = a_step * x, b_step * y, y_step * size
        if same(size, 1):
            continue
        if dims and dims[-1].merges_into(dim):
            inner = dims.pop()
            dim = _BatchDim(size * inner.size, inner.a, inner.b, inner.y)
        dims.append(dim)
    return tuple(reversed(dims))


def _bias_strides(bias: Value | None, n: int) -> tuple[int, int]:
    """Steps of C from row to row and from column to column."""
    if bias is None:
        return (0, 0)
    rows, columns = (1, 1, *bias.desc.static_shape)[-2:]
    return (0 if same(rows, 1) else columns, 0 if same(columns, 1) else 1)


def _scales(node: Node) -> tuple[float, float]:
    """Factors of the product and of the bias."""
    if node.op_type == "Gemm":
        return (node.float_attr("alpha", 1.0), node.float_attr("beta", 1.0))
    return (node.float_attr("scale", 1.0), 1.0)


def lower_matmul(node: Node) -> Iterable[KernelCall]:
    """One launch of `matmul`."""
    plan = _plan(node)
    pad = BATCH_RANK - len(plan.batch)
    scale, bias_scale = _scales(node)
    fused = node.op_type == "FusedMatMul"
    b = node.operand(1).desc
    packed = not b.format.is_plain
    params: dict[str, ParamValue] = {
        "batch": [1] * pad + [dim.size for dim in plan.batch],
        "a_batch": [0] * pad + [dim.a for dim in plan.batch],
        "b_batch": [0] * pad + [dim.b for dim in plan.batch],
        "y_batch": [0] * pad + [dim.y for dim in plan.batch],
        "m": plan.m, "k": plan.k, "n": plan.n,
        "a_row": plan.a[0], "a_col": plan.a[1], "b_row": plan.b[0], "b_col": plan.b[1], "y_row": plan.n,
        "b_packed": int(packed), "weights": weight_type(b) if packed else "f32",
        "bias_row": plan.bias[0], "bias_col": plan.bias[1],
        "scale": scale, "bias_scale": bias_scale,
        "activation": node.str_attr("activation", "") if fused else "",
        "alpha": node.float_attr("alpha", 0.0) if fused else 0.0,
        "beta": node.float_attr("beta", 0.0) if fused else 0.0,
    }  # fmt: skip
    first, second, *others = (*node.inputs, None, None)[: len(_INPUTS)]
    src = (second, first, *others) if plan.transposed else (first, second, *others)
    yield KernelCall("matmul", src, (node.output,), params)


def count_multiplications(node: Node) -> int:
    """Each element of the result is a sum over the dim that both operands share."""
    shape = node.operand(0).desc.static_shape
    return node.output.desc.elements * shape[0 if node.int_attr("transA", 0) else -1]


def ge_matmul(node: Node) -> str:
    """GE has a type for one product and one for many."""
    shape = node.output.desc.shape
    return "BatchMatMul" if shape is not None and len(shape) > 2 else "MatMul"


_GE_MATMUL = GeTypes(("MatMul", "BatchMatMul"), ge_matmul)
_matrix_product = partial(
    OpDef,
    engines={Engine.AICORE: supports_matmul},
    layout=layout_matmul,
    lower=lower_matmul,
    half_weights=(1,),
    fused="FusedMatMul",
)
register_operator(
    _matrix_product(
        name="MatMul",
        ge_type=_GE_MATMUL,
        infer=infer_matmul,
        evaluate=evaluate_matmul,
        traits=Trait.MATRIX_PRODUCT,
        multiplications=count_multiplications,
    )
)
register_operator(
    _matrix_product(
        name="Gemm",
        ge_type="GemmD",
        infer=infer_gemm,
        traits=Trait.MATRIX_PRODUCT,
        multiplications=count_multiplications,
    )
)
register_operator(_matrix_product(name="FusedMatMul", ge_type=_GE_MATMUL, infer=infer_matmul, inplace=(3,)))
