"""Boxes in images: which to keep, and what they hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Graph, TensorDesc, Value
from atcpy.parsers.tensorflow.formula import Formula, counting, size
from atcpy.parsers.tensorflow.op import Op, maps

_CARRIED: Final = 2  # values that go from box to box: which are kept, and how many more may be


def _best(op: Op, iou: Value, score: Value | None) -> Value:
    """The indices of the boxes that are kept, int64."""
    boxes = op.unsqueeze(op.cast(op.input(0), DType.FLOAT32), 0)
    scores = op.unsqueeze(op.cast(op.input(1), DType.FLOAT32), 0, 1)
    limits = [None if value is None else op.cast(value, DType.FLOAT32) for value in (iou, score)]
    chosen = op.add("NonMaxSuppression", boxes, scores, op.cast(op.input(2), DType.INT64), *limits)
    return op.add("Gather", chosen, op.const(2), axis=1)


def _filled(op: Op, values: Value) -> Value:
    """The values, and zeros up to the number of input 2."""
    most = op.reshape(op.cast(op.input(2), DType.INT64), [1])
    zeros = op.cast(op.add("ConstantOfShape", most), values.desc.dtype)
    joined = op.add("Slice", op.add("Concat", values, zeros, axis=0), op.const([0]), most, op.const([0]))
    stated = op.known(op.input(2))
    return op.reshape(joined, [stated[0]]) if stated and isinstance(stated[0], int) else joined


@maps("NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3")
def suppressed(op: Op) -> Value:
    """NonMaxSuppression of one class"""
    if op.node.op == "NonMaxSuppression":
        iou = op.const(op.float_attr("iou_threshold"), DType.FLOAT32)
    else:
        iou = op.input(3)
    return op.cast(_best(op, iou, op.input(4) if op.node.op.endswith("3") else None), DType.INT32)


@maps("NonMaxSuppressionV4", "NonMaxSuppressionV5")
def suppressed_and_counted(op: Op) -> list[Value]:
    """NonMaxSuppression of one class, filled up with zeros if asked for; no scores that fall (soft_nms_sigma)"""
    if op.node.op.endswith("5") and op.array(5).any():
        raise op.refuse("soft_nms_sigma other than 0")
    chosen = _best(op, op.input(3), op.input(4))
    count = op.cast(op.squeeze(op.add("Shape", chosen), 0), DType.INT32)
    results = [op.cast(chosen, DType.INT32)]
    if op.node.op.endswith("5"):
        results.append(op.add("Gather", op.input(1), chosen))
    if op.bool_attr("pad_to_max_output_size"):
        results = [_filled(op, value) for value in results]
    return [*results, count]


@maps("NonMaxSuppressionWithOverlaps")
def suppressed_by_overlaps(op: Op) -> Value:
    """Scan over the boxes, the best first: one is kept if it overlaps none too much that is kept"""
    overlaps, scores = op.input(0), op.input(1)
    count = op.add("Shape", scores)
    ranked, order = op.add_many("TopK", scores, count, outputs=2, axis=0)
    rows = op.add("Gather", overlaps, order)
    near = op.add("Greater", rows, op.input(3))
    is_apt = op.add("Greater", ranked, op.input(4))
    most = op.cast(op.reshape(op.input(2), []), DType.INT64)
    nothing = op.add("Expand", op.const(False, DType.BOOL), count)
    body = Graph(f"{op.node.name}/body", names=op.graph.names)
    fed: list[Value] = []
    starts = {"kept": nothing, "left": most, "place": order, "near": near, "apt": is_apt}
    for index, (name, value) in enumerate(starts.items()):
        data = body.append("Data", (), {"index": index}, name=f"{op.node.name}/{name}")
        shape = op.shape_of(value)
        data.output.desc = TensorDesc.plain(value.desc.dtype, shape if index < _CARRIED else shape[1:])
        fed.append(data.output)
    inner, (kept, left, place, close, apt) = replace(op, graph=body), fed
    met = inner.add("ReduceMax", inner.cast(inner.add("And", kept, close), DType.UINT8), keepdims=0)
    is_new = inner.add("And", inner.add("Not", inner.cast(met, DType.BOOL)), apt)
    is_new = inner.add("And", is_new, inner.add("Greater", left, inner.const(0)))
    marked = inner.add("ScatterElements", kept, inner.reshape(place, [1]), inner.reshape(is_new, [1]), axis=0)
    rest = inner.add("Sub", left, inner.cast(is_new, DType.INT64))
    body.append("NetOutput", [marked, rest, inner.add("Identity", is_new)], name="NetOutput", outputs=())
    attrs = {"body": body, "num_scan_inputs": len(starts) - _CARRIED}
    node = op.graph.append("Scan", list(starts.values()), attrs, name=f"{op.node.name}/Scan", outputs=("",) * 3)
    node.sources = (op.node.name,)
    for made, desc in zip(node.outputs, (nothing.desc, most.desc, is_apt.desc), strict=True):
        made.desc = desc
    return op.cast(op.add("Compress", order, node.outputs[2], axis=0), DType.INT32)


@maps("CombinedNonMaxSuppression")
def suppressed_by_class(op: Op) -> list[Value]:
    """NonMaxSuppression of all classes, and the best of all by TopK"""
    if op.rank(0) != 4 or op.rank(1) != 3:
        raise ModelInvalid("EZ8888", f"boxes of {op.rank(0)} dims, scores of {op.rank(1)}", where=op.where)
    n, variants = op.shape(0)[1:3]
    classes = op.shape(1)[2]
    if not (isinstance(n, int) and isinstance(variants, int) and isinstance(classes, int)):
        raise op.refuse("boxes or classes of an unknown number", "give the shapes of the inputs: --input_shape")
    if variants not in {1, classes} or not n or not classes:
        raise ModelInvalid("EZ8888", f"{variants} boxes each for {classes} classes", where=op.where)
    boxes = op.transpose(op.input(0), (0, 2, 1, 3))
    scores = op.transpose(op.input(1), (0, 2, 1))
    boxes = op.reshape(boxes, (-1, n, 4))
    by_class = scores if variants == 1 else op.reshape(scores, (-1, 1, n))
    chosen = op.add("NonMaxSuppression", boxes, by_class, op.cast(op.input(2), DType.INT64), *op.inputs[4:6])
    image, group, box = (Formula(op, op.add("Gather", chosen, op.const(part), axis=1)) for part in range(3))
    place = (image * (classes if variants == 1 else 1) + group) * n + box
    flat = op.reshape(scores, [-1])
    low = float("-inf")
    nothing = op.add("Expand", op.const(low, DType.FLOAT32), op.add("Shape", flat))
    kept = op.add("ScatterND", nothing, op.unsqueeze(place.value, 1), op.add("Gather", flat, place.value))
    kept = op.reshape(kept, (-1, classes * n))
    most = op.ints(3)[0]
    if op.bool_attr("pad_per_class"):
        most = min(most, op.ints(2)[0] * classes)
    if most > classes * n:
        pads = op.const([0, 0, 0, most - classes * n])
        kept = op.add("Pad", kept, pads, op.const(low, DType.FLOAT32))
    best, found = op.add_many("TopK", kept, op.const([most]), outputs=2, axis=1)
    held = Formula(op, best) > low
    at = Formula(op, found).least(classes * n - 1)
    last = at % n if variants == 1 else at
    rows = boxes if variants == 1 else op.reshape(boxes, (-1, classes * n, 4))
    picked = Formula(op, op.add("GatherND", rows, last.unsqueeze(2).value, batch_dims=1))
    if op.bool_attr("clip_boxes"):
        picked = picked.clip(0, 1)
    of_class = (at / n).cast(DType.FLOAT32)
    numbers = [picked.where(held.unsqueeze(2), 0), Formula(op, best).where(held, 0), of_class.where(held, 0)]
    count = op.add("ReduceSum", op.cast(held.value, DType.INT32), op.const([1]), keepdims=0)
    return [*[number.value for number in numbers], count]


@maps("CropAndResize")
def crop_and_resize(op: Op) -> Value:
    """Gather of the pixels that each result lies between, and their mean by distance"""
    image, boxes = op.cast(op.input(0), DType.FLOAT32), op.cast(op.input(1), DType.FLOAT32)
    method = op.text_attr("method")
    if op.rank(0) != 4 or op.rank(1) != 2 or method not in {"bilinear", "nearest"}:
        raise ModelInvalid("E13014", f"method {method}, {op.rank(0)} and {op.rank(1)} dims", where=op.where)
    ends = [Formula(op, part) for part in op.add_many("Split", boxes, outputs=4, axis=1, num_outputs=4)]
    places = []
    for axis, result in enumerate(op.ints(3)):
        first, last = ends[axis], ends[axis + 2]
        span = size(op, image, axis + 1).cast(DType.FLOAT32) - 1
        if result > 1:
            step = (last - first) * span / float(result - 1)
            places.append(first * span + counting(op, result) * step)
        else:
            places.append((first + last) * 0.5 * span)
    spans = [size(op, image, axis).cast(DType.FLOAT32) - 1 for axis in (1, 2)]
    outside = [(at < 0) | (at > span) for at, span in zip(places, spans, strict=True)]
    y, x = (at.most(0).least(span) for at, span in zip(places, spans, strict=True))
    y, x = y.unsqueeze(2), x.unsqueeze(1)
    rows = op.add("Flatten", image, axis=3)
    first_row = Formula(op, op.unsqueeze(op.cast(op.input(2), DType.INT64), 1, 2)) * size(op, image, 1)

    def pixels(row: Formula, column: Formula) -> Formula:
        at = (first_row + row.cast(DType.INT64)) * size(op, image, 2) + column.cast(DType.INT64)
        return Formula(op, op.add("Gather", rows, at.value))

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
    filler = Formula(op, op.const(op.float_attr("extrapolation_value"), DType.FLOAT32))
    return filler.where(beyond.unsqueeze(3), found).value
