"""Boxes in images: which to keep, and what they hold."""

from __future__ import annotations

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Value
from atcpy.ir.arithmetic import Expr, arange, dim
from atcpy.parsers.tensorflow.op import OpBuilder, maps


def _best(b: OpBuilder, iou: Value, score: Value | None) -> Value:
    """The indices of the boxes that are kept, int64."""
    boxes = b.unsqueeze(b.cast(b.input(0), DType.FLOAT32), 0)
    scores = b.unsqueeze(b.cast(b.input(1), DType.FLOAT32), 0, 1)
    limits = [None if value is None else b.cast(value, DType.FLOAT32) for value in (iou, score)]
    chosen = b.op("NonMaxSuppression", boxes, scores, b.int64_input(2), *limits)
    return b.op("Gather", chosen, b.const(2), axis=1)


def _filled(b: OpBuilder, values: Value) -> Value:
    """The values, and zeros up to the number of input 2."""
    count = b.size_input(2)
    zeros = b.cast(b.op("ConstantOfShape", count), values.desc.dtype)
    joined = b.op("Slice", b.op("Concat", values, zeros, axis=0), b.const([0]), count, b.const([0]))
    known = b.known(b.input(2))
    return b.reshape(joined, [known[0]]) if known and isinstance(known[0], int) else joined


@maps("NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3")
def suppressed(b: OpBuilder) -> Value:
    """NonMaxSuppression of one class"""
    if b.node.op == "NonMaxSuppression":
        iou = b.const(b.float_attr("iou_threshold"), DType.FLOAT32)
    else:
        iou = b.input(3)
    return b.cast(_best(b, iou, b.input(4) if b.node.op.endswith("3") else None), DType.INT32)


@maps("NonMaxSuppressionV4", "NonMaxSuppressionV5")
def suppressed_and_counted(b: OpBuilder) -> list[Value]:
    """NonMaxSuppression of one class, filled up with zeros if asked for; no scores that fall (soft_nms_sigma)"""
    if b.node.op.endswith("5") and b.array(5).any():
        raise b.unsupported("soft_nms_sigma other than 0")
    chosen = _best(b, b.input(3), b.input(4))
    count = b.cast(b.squeeze(b.op("Shape", chosen), 0), DType.INT32)
    results = [b.cast(chosen, DType.INT32)]
    if b.node.op.endswith("5"):
        results.append(b.op("Gather", b.input(1), chosen))
    if b.bool_attr("pad_to_max_output_size"):
        results = [_filled(b, value) for value in results]
    return [*results, count]


@maps("NonMaxSuppressionWithOverlaps")
def suppressed_by_overlaps(b: OpBuilder) -> Value:
    """Scan over the boxes, the best first: one is kept if it overlaps none too much that is kept"""
    overlaps, scores = b.input(0), b.input(1)
    count = b.op("Shape", scores)
    ranked, order = b.ops("TopK", scores, count, outputs=2, axis=0)
    near = b.op("Greater", b.op("Gather", overlaps, order), b.input(3))
    is_apt = b.op("Greater", ranked, b.input(4))
    limit = b.reshape(b.int64_input(2), [])
    none = b.op("Expand", b.const(False, DType.BOOL), count)

    def step(inner: OpBuilder, values: list[Value]) -> tuple[list[Value], list[Value]]:
        kept, left, index, close, apt = values
        overlapped = inner.op("ReduceMax", inner.cast(inner.op("And", kept, close), DType.UINT8), keepdims=0)
        is_new = inner.op("And", inner.op("Not", inner.cast(overlapped, DType.BOOL)), apt)
        is_new = inner.op("And", is_new, inner.op("Greater", left, inner.const(0)))
        marked = inner.op("ScatterElements", kept, inner.reshape(index, [1]), inner.reshape(is_new, [1]), axis=0)
        return [marked, inner.op("Sub", left, inner.cast(is_new, DType.INT64))], [is_new]

    states, items = {"kept": none, "left": limit}, {"index": order, "near": near, "apt": is_apt}
    return b.cast(b.op("Compress", order, b.scan(states, items, step)[2], axis=0), DType.INT32)


@maps("CombinedNonMaxSuppression")
def suppressed_by_class(b: OpBuilder) -> list[Value]:
    """NonMaxSuppression of all classes, and the best of all by TopK"""
    if b.rank(0) != 4 or b.rank(1) != 3:
        raise ModelInvalid("EZ8888", f"boxes of {b.rank(0)} dims, scores of {b.rank(1)}", where=b.where)
    n, variants = b.shape(0)[1:3]
    classes = b.dim_of(b.input(1), 2)
    if not (isinstance(n, int) and isinstance(variants, int) and isinstance(classes, int)):
        raise b.unsupported("boxes or classes of an unknown number", "give the shapes of the inputs: --input_shape")
    if variants not in {1, classes} or not n or not classes:
        raise ModelInvalid("EZ8888", f"{variants} boxes each for {classes} classes", where=b.where)
    boxes = b.transpose(b.input(0), (0, 2, 1, 3))
    scores = b.transpose(b.input(1), (0, 2, 1))
    boxes = b.reshape(boxes, (-1, n, 4))
    by_class = scores if variants == 1 else b.reshape(scores, (-1, 1, n))
    chosen = b.op("NonMaxSuppression", boxes, by_class, b.int64_input(2), *b.inputs[4:6])
    image, group, box = (Expr(b, b.op("Gather", chosen, b.const(part), axis=1)) for part in range(3))
    index = (image * (classes if variants == 1 else 1) + group) * n + box
    flat = b.reshape(scores, [-1])
    low = float("-inf")
    nothing = b.op("Expand", b.const(low, DType.FLOAT32), b.op("Shape", flat))
    kept = b.op("ScatterND", nothing, b.unsqueeze(index.value, 1), b.op("Gather", flat, index.value))
    kept = b.reshape(kept, (-1, classes * n))
    limit = b.ints(3)[0]
    if b.bool_attr("pad_per_class"):
        limit = min(limit, b.ints(2)[0] * classes)
    if limit > classes * n:
        pads = b.const([0, 0, 0, limit - classes * n])
        kept = b.op("Pad", kept, pads, b.const(low, DType.FLOAT32))
    best, found = b.ops("TopK", kept, b.const([limit]), outputs=2, axis=1)
    is_box = Expr(b, best) > low
    at = Expr(b, found).min(classes * n - 1)
    last = at % n if variants == 1 else at
    rows = boxes if variants == 1 else b.reshape(boxes, (-1, classes * n, 4))
    picked = Expr(b, b.op("GatherND", rows, last.unsqueeze(2).value, batch_dims=1))
    if b.bool_attr("clip_boxes"):
        picked = picked.clip(0, 1)
    of_class = (at / n).cast(DType.FLOAT32)
    numbers = [picked.where(is_box.unsqueeze(2), 0), Expr(b, best).where(is_box, 0), of_class.where(is_box, 0)]
    count = b.op("ReduceSum", b.cast(is_box.value, DType.INT32), b.const([1]), keepdims=0)
    return [*[number.value for number in numbers], count]


@maps("CropAndResize")
def crop_and_resize(b: OpBuilder) -> Value:
    """Gather of the pixels that each result lies between, and their mean by distance"""
    image, boxes = b.cast(b.input(0), DType.FLOAT32), b.cast(b.input(1), DType.FLOAT32)
    method = b.text_attr("method")
    if b.rank(0) != 4 or b.rank(1) != 2 or method not in {"bilinear", "nearest"}:
        raise b.invalid(f"method {method}, {b.rank(0)} and {b.rank(1)} dims")
    ends = [Expr(b, part) for part in b.ops("Split", boxes, outputs=4, axis=1, num_outputs=4)]
    positions = []
    for axis, result in enumerate(b.ints(3)):
        first, last = ends[axis], ends[axis + 2]
        span = dim(b, image, axis + 1).cast(DType.FLOAT32) - 1
        if result > 1:
            step = (last - first) * span / float(result - 1)
            positions.append(first * span + arange(b, result) * step)
        else:
            positions.append((first + last) * 0.5 * span)
    spans = [dim(b, image, axis).cast(DType.FLOAT32) - 1 for axis in (1, 2)]
    outside = [(at < 0) | (at > span) for at, span in zip(positions, spans, strict=True)]
    y, x = (at.max(0).min(span) for at, span in zip(positions, spans, strict=True))
    y, x = y.unsqueeze(2), x.unsqueeze(1)
    rows = b.op("Flatten", image, axis=3)
    first_row = Expr(b, b.unsqueeze(b.int64_input(2), 1, 2)) * dim(b, image, 1)

    def pixels(row: Expr, column: Expr) -> Expr:
        at = (first_row + row.cast(DType.INT64)) * dim(b, image, 2) + column.cast(DType.INT64)
        return Expr(b, b.op("Gather", rows, at.value))

    if method == "nearest":
        found = pixels((y + 0.5).floor(), (x + 0.5).floor())
    else:
        right, below = (x - x.floor()).unsqueeze(3), (y - y.floor()).unsqueeze(3)
        mixed = []
        for row in (y.floor(), y.ceil()):
            left_pixel, right_pixel = pixels(row, x.floor()), pixels(row, x.ceil())
            mixed.append(left_pixel + (right_pixel - left_pixel) * right)
        found = mixed[0] + (mixed[1] - mixed[0]) * below
    beyond = outside[0].unsqueeze(2) | outside[1].unsqueeze(1)
    filler = Expr(b, b.const(b.float_attr("extrapolation_value"), DType.FLOAT32))
    return filler.where(beyond.unsqueeze(3), found).value
