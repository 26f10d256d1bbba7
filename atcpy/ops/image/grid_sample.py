"""GridSample and AffineGrid: images sampled at the coordinates of a grid, and the grids of affine maps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Engine, Node, Reject, TensorDesc
from atcpy.ir.tensor import Array
from atcpy.ops.core.axes import known_integers
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


register_operator(
    OpDef(
        name="GridSample",
        infer=infer_grid_sample,
        engines={Engine.AICPU: supports_grid_sample},
        lower=lower_grid_sample,
    )
)
register_operator(OpDef(name="AffineGrid", infer=infer_affine_grid, evaluate=evaluate_affine_grid))
