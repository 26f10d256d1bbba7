"""NonMaxSuppression: one launch of `nms`; how many boxes are chosen, the data say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Engine, Node, Reject, TensorDesc, Value
from atcpy.ir.shape import StaticShape
from atcpy.ops.core.axes import unnamed_dim
from atcpy.ops.core.opdef import Bound, KernelCall, Known, OpDef, ParamValue, register_operator
from atcpy.ops.core.reference import known_constant
from atcpy.ops.core.shape_values import integers
from atcpy.ops.core.strided import rejects_value

BOXES, SCORES, MAX_OUTPUT = 0, 1, 2


def infer_nms(node: Node, known: Known) -> Sequence[TensorDesc]:
    """Batch, class and box of each that is chosen."""
    return [TensorDesc.plain(DType.INT64, (unnamed_dim(node, 0), 3))]


def supports_nms(node: Node) -> Iterable[Reject]:
    """Boxes and scores of known shapes."""
    for value in node.operands:
        yield from rejects_value(node, value.desc)
    boxes, scores = node.operand(BOXES).desc, node.operand(SCORES).desc
    if not boxes.is_static or not scores.is_static:
        return
    of_boxes, of_scores = boxes.static_shape, scores.static_shape
    fit = len(of_boxes) == len(of_scores) == 3 and of_boxes[2] == 4
    if not fit or (of_boxes[0], of_boxes[1]) != (of_scores[0], of_scores[2]):
        raise ModelInvalid("EZ8888", where=node, what=f"boxes {boxes} and scores {scores} do not fit")


def _room(node: Node) -> int:
    """The maximum number of boxes selected per class."""
    boxes, max_output = node.operand(SCORES).desc.static_shape[2], node.input(MAX_OUTPUT)
    if max_output is None:
        return 0
    stated = integers(known_constant(max_output))
    return boxes if stated is None else min(boxes, max(0, *stated))


def bound_nms(node: Node) -> Sequence[StaticShape]:
    """As many of each class as are asked for, if that is constant; else all."""
    batches, classes, _ = node.operand(SCORES).desc.static_shape
    return [(batches * classes * _room(node), 3)]


def lower_nms(node: Node, count: Value) -> Iterable[KernelCall]:
    """One launch."""
    batches, classes, boxes = node.operand(SCORES).desc.static_shape
    params: dict[str, ParamValue] = {
        "batches": batches, "classes": classes, "n": boxes, "room": _room(node),
        "centred": int(node.int_attr("center_point_box", 0) != 0),
    }  # fmt: skip
    yield KernelCall("nms", node.inputs, (node.output, count), params)


register_operator(
    OpDef(
        name="NonMaxSuppression",
        ge_type="NonMaxSuppressionV6",
        infer=infer_nms,
        engines={Engine.AICPU: supports_nms},
        bound=Bound(bound_nms, lower_nms),
    )
)
