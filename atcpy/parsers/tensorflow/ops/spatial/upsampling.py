"""Images enlarged by whole factors, as Keras says it: rows and then columns are repeated.

Reshape(Tile(Unsqueeze(Reshape(Tile(Unsqueeze(x, 2))), 3)))     becomes     Resize(x) {nearest}
"""

from __future__ import annotations

from atcpy.ir import DType, Value
from atcpy.parsers.tensorflow.evaluation import find_constant
from atcpy.parsers.tensorflow.op import OpBuilder

_TO_FIRST, _TO_LAST = (0, 3, 1, 2), (0, 2, 3, 1)


def enlarged(b: OpBuilder, columns: Value) -> Value | None:
    """The images, channels last, of which `columns` is the last Reshape; None if it is no such."""
    wide = _repeated(b, columns, 2)
    high = None if wide is None else _repeated(b, wide[0], 1)
    if wide is None or high is None or not columns.desc.dtype.is_float:
        return None
    scales = b.const([1, 1, high[1], wide[1]], dtype=DType.FLOAT32)
    x = b.transpose(high[0], _TO_FIRST)
    attrs = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return b.transpose(b.op("Resize", x, None, scales, **attrs), _TO_LAST)


def _repeated(b: OpBuilder, value: Value, axis: int) -> tuple[Value, int] | None:
    """What is repeated along a dim of four, and how often."""
    last = value.producer
    tile = last.operand(0).producer if last.op_type == "Reshape" else last
    unsqueeze = tile.operand(0).producer if tile.op_type == "Tile" else last
    if unsqueeze.op_type != "Unsqueeze" or unsqueeze.operand(1).tensor is None:
        return None
    x, axes = unsqueeze.operand(0), unsqueeze.operand(1).array.reshape(-1).tolist()
    before, after = x.desc.shape or (), value.desc.shape or ()
    if len(before) != 4 or len(after) != 4 or axes not in ([axis + 1], [axis - 4]):
        return None
    # With all other dims as they were, the copies can only have gone into this one.
    counts = find_constant(tile.operand(1), b.known)
    same = all(left == right for other, (left, right) in enumerate(zip(before, after, strict=True)) if other != axis)
    others = counts is not None and [count for other, count in enumerate(counts.tolist()) if other != axis + 1]
    return (x, int(counts[axis + 1])) if same and counts is not None and others == [1] * 4 else None
