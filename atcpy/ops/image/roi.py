"""RoiAlign and MaxRoiPool: regions of images, each made one size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite

from atcpy.errors import ModelInvalid, ResourceLimit, Where
from atcpy.ir import DType, Engine, Node, Reject, TensorDesc
from atcpy.ir.shape import Dim
from atcpy.ops.core.opdef import KernelCall, Known, OpDef, ParamValue, register_operator

DTYPES = frozenset({DType.FLOAT32, DType.FLOAT64})
MAX_SAMPLING = 1 << 12


def result_sides(node: Node) -> tuple[int, int]:
    """Height and width of each result."""
    if node.op_type == "MaxRoiPool":
        sides = node.ints_attr("pooled_shape")
    else:
        sides = (node.int_attr("output_height", 1), node.int_attr("output_width", 1))
    if len(sides) != 2 or min(sides) < 1:
        raise ModelInvalid("E13014", where=node, what=f"results of {list(sides)}, needs two sides above 0")
    return sides[0], sides[1]


def shapes_of_roi(node: Node) -> Mapping[int, str]:
    """Regions of four numbers and the image of each, or of five."""
    return {0: "n c h w", 1: "r 5"} if node.op_type == "MaxRoiPool" else {0: "n c h w", 1: "r 4", 2: "r"}


def infer_roi(node: Node, known: Known) -> Sequence[TensorDesc]:
    """[N, C, H, W] with R regions gives [R, C, h, w]."""
    x, rois = node.operand(0).desc, node.operand(1).desc
    if x.shape is None or rois.shape is None:
        return [TensorDesc.plain(x.dtype, None)]
    scale, sampling = node.float_attr("spatial_scale", 1.0), node.int_attr("sampling_ratio", 0)
    if not isfinite(scale) or sampling < 0:
        raise ModelInvalid("E13014", where=node, what=f"spatial_scale = {scale}, sampling_ratio = {sampling}")
    if sampling > MAX_SAMPLING:
        what = f"sampling_ratio = {sampling}, the limit is {MAX_SAMPLING}"
        raise ResourceLimit("R0001", what, where=Where(node=node.name))
    shape: tuple[Dim, ...] = (rois.shape[0], x.shape[1], *result_sides(node))
    return [TensorDesc.plain(x.dtype, shape)]


def supports_roi(node: Node) -> Iterable[Reject]:
    """Floats of known shapes."""
    x = node.operand(0).desc
    if x.dtype not in DTYPES or node.operand(1).desc.dtype is not x.dtype:
        yield Reject("dtype", node.name, x.dtype.long)
    if not all(value.desc.is_static for value in node.operands):
        yield Reject("shape-unknown", node.name)
    elif 0 in x.static_shape:
        yield Reject("empty", node.name)
    mode, sampling = node.str_attr("mode", "avg"), node.int_attr("sampling_ratio", 0)
    if mode not in {"avg", "max"} or not 0 <= sampling <= MAX_SAMPLING:
        yield Reject("mode", node.name, f"{mode}, sampling_ratio = {sampling}")


def lower_roi(node: Node) -> Iterable[KernelCall]:
    """One launch of `roi`."""
    n, c, h, w = node.operand(0).desc.static_shape
    oh, ow = result_sides(node)
    kinds = {"avg": "align", "max": "align_max"}
    pools = node.op_type == "MaxRoiPool"
    params: dict[str, ParamValue] = {
        "n": n, "c": c, "h": h, "w": w, "count": node.output.desc.static_shape[0], "oh": oh, "ow": ow,
        "sampling": node.int_attr("sampling_ratio", 0), "scale": node.float_attr("spatial_scale", 1.0),
        "half_pixel": int(node.str_attr("coordinate_transformation_mode", "half_pixel") == "half_pixel"),
        "kind": "max" if pools else kinds[node.str_attr("mode", "avg")],
    }  # fmt: skip
    yield KernelCall("roi", tuple(node.operands), (node.output,), params)


for _name in ("RoiAlign", "MaxRoiPool"):
    register_operator(
        OpDef(
            name=_name,
            operand_shapes=shapes_of_roi,
            infer=infer_roi,
            engines={Engine.AICPU: supports_roi},
            lower=lower_roi,
        )
    )
