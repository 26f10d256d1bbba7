"""GridSample and AffineGrid: images sampled at the coordinates of a grid, and the grids of affine maps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Engine, Node, Reject, Rewriter, TensorDesc, Value
from atcpy.ir.tensor import Array
from atcpy.ops.core.axes import known_integers
from atcpy.ops.core.half import HALF_DTYPES
from atcpy.ops.core.opdef import KernelCall, Known, OpDef, ParamValue, register_operator
from atcpy.ops.core.spatial import leading

DTYPES = frozenset({DType.FLOAT32, DType.FLOAT64})
MODES = frozenset({"nearest", "linear", "cubic"})
PADDINGS = frozenset({"zeros", "border", "reflection"})


def infer_grid_sample(node: Node, known: Known) -> Sequence[TensorDesc]:
    """[N, C, S…] at a grid [N, P…, dims] gives [N, C, P…]."""
    x, grid = node.operand(0).desc, node.operand(1).desc
    if x.shape is None or grid.shape is None:
        return [TensorDesc.plain(x.dtype, None)]
    rank = len(x.shape)
    if rank < 3 or len(grid.shape) != rank or grid.shape[-1] not in {rank - 2} | _symbols(grid.shape[-1]):
        raise ModelInvalid("EZ8888", where=node, what=f"input of rank {rank} with a grid {list(map(str, grid.shape))}")
    return [TensorDesc.plain(x.dtype, (*x.shape[:2], *grid.shape[1:-1]))]


def _symbols(dim: object) -> set[object]:
    """A dim that only running the model tells fits any number."""
    return set() if isinstance(dim, int) else {dim}


def supports_grid_sample(node: Node) -> Iterable[Reject]:
    """Images and volumes of floats."""
    x, grid = node.operand(0).desc, node.operand(1).desc
    mode, padding = node.str_attr("mode", "linear"), node.str_attr("padding_mode", "zeros")
    if x.dtype not in DTYPES or grid.dtype is not x.dtype:
        yield Reject("dtype", node.name, x.dtype.long)
    if mode not in MODES or padding not in PADDINGS:
        yield Reject("mode", node.name, f"{mode}, {padding}")
    if not x.is_static or not grid.is_static:
        yield Reject("shape-unknown", node.name)
    elif len(x.static_shape) not in {4, 5}:
        yield Reject("rank", node.name, f"{len(x.static_shape) - 2} spatial dims")
    elif 0 in x.static_shape[2:]:
        yield Reject("empty", node.name)


def lower_grid_sample(node: Node) -> Iterable[KernelCall]:
    """One launch of `grid_sample`."""
    if 0 in node.output.desc.static_shape:
        return
    x, grid = node.operand(0), node.operand(1)
    n, c, *spatial = x.desc.static_shape
    params: dict[str, ParamValue] = {
        "n": n, "c": c, "in": leading(spatial, 1), "out": leading(grid.desc.static_shape[1:-1], 1),
        "dims": len(spatial), "mode": node.str_attr("mode", "linear"),
        "padding": node.str_attr("padding_mode", "zeros"),
        "align_corners": int(node.int_attr("align_corners", 0) != 0),
    }  # fmt: skip
    yield KernelCall("grid_sample", (x, grid), (node.output,), params)


# --- AffineGrid --------------------------------------------------------------------------------


def infer_affine_grid(node: Node, known: Known) -> Sequence[TensorDesc]:
    """theta [N, dims, dims + 1] and a size [N, C, S…] give [N, S…, dims]."""
    theta, size = node.operand(0).desc, known_integers(node, 1, known)
    if size is None:
        return [TensorDesc.plain(theta.dtype, None)]
    if len(size) not in {4, 5} or (theta.is_static and theta.static_shape != (size[0], len(size) - 2, len(size) - 1)):
        raise ModelInvalid("EZ8888", where=node, what=f"theta {theta.shape} does not fit a size of {list(size)}")
    return [TensorDesc.plain(theta.dtype, (size[0], *size[2:], len(size) - 2))]


def evaluate_affine_grid(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """By definition: ONNX's reference has no grid for sides of 1 with align_corners."""
    theta, size = arrays
    assert theta is not None and size is not None
    corners = node.int_attr("align_corners", 0) != 0
    sides = [int(side) for side in size[2:]]
    coordinates = [np.linspace(-1, 1, side) if corners else (2 * np.arange(side) + 1) / side - 1 for side in sides]
    grid = np.stack([*np.meshgrid(*coordinates, indexing="ij")[::-1], np.ones(sides)], -1)
    return [np.einsum("...k,nik->n...i", grid, theta.astype(np.float64)).astype(theta.dtype)]


def expand_affine_grid(node: Node, rw: Rewriter) -> Sequence[Value | None] | Reject | None:
    """Σ_j coordinate_j · theta[…, j] + theta[…, dims], where each coordinate runs along a dim of its own."""
    theta, size, shape = node.operand(0), node.operand(1), node.output.desc.shape
    if shape is None:
        return Reject("shape-unknown", node.name)
    dims, half = len(shape) - 2, theta.desc.dtype in HALF_DTYPES
    wide = rw.cast(theta, DType.FLOAT32) if half else theta
    columns = [
        rw.unsqueeze(rw.transpose(rw.slice(wide, j, j + 1, 2), (0, 2, 1)), *range(2, dims + 1)) for j in range(dims + 1)
    ]
    grid = columns[dims]
    for j, column in enumerate(columns[:dims]):  # the first coordinate is that of the last dim
        coordinate = _coordinates(rw, rw.slice(size, dims + 1 - j, dims + 2 - j, 0), wide, node)
        grid = rw.op("Add", grid, rw.op("Mul", rw.unsqueeze(coordinate, *range(1, j + 2)), column))
    return [rw.cast_like(grid, theta)]


def _coordinates(rw: Rewriter, size: Value, like: Value, node: Node) -> Value:
    """The coordinates of a side from -1 to 1: those of the first and last points, or of the outer edges."""
    index, count = rw.cast_like(rw.iota(size), like), rw.cast_like(size, like)
    one, two = rw.like(1.0, like), rw.like(2.0, like)
    if node.int_attr("align_corners", 0):
        steps = rw.op("Max", rw.op("Sub", count, one), one)
        return rw.op("Sub", rw.op("Div", rw.op("Mul", index, two), steps), one)
    return rw.op("Sub", rw.op("Div", rw.op("Add", rw.op("Mul", index, two), one), count), one)


register_operator(
    OpDef(
        name="GridSample",
        infer=infer_grid_sample,
        engines={Engine.AICPU: supports_grid_sample},
        lower=lower_grid_sample,
    )
)
register_operator(
    OpDef(
        name="AffineGrid",
        operand_shapes=lambda node: {0: "n dims columns", 1: "sizes"},
        infer=infer_affine_grid,
        evaluate=evaluate_affine_grid,
        expand=expand_affine_grid,
    )
)
