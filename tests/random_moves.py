"""Random models that move elements about: chains and joins of Reshape, Transpose, Slice, Concat, Cast, Pad …

`move_models()` draws graphs on whose results any two correct runtimes agree to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper

from tests.random_models import OPSET, Sketch

Shape = tuple[int, ...]
Taken = tuple[str, Shape]
MAX_ELEMENTS = 600


def _factors(draw: st.DrawFn, total: int) -> list[int]:
    """A shape of so many elements."""
    shape: list[int] = []
    while total > 1 and len(shape) < 4:
        divisor = draw(st.sampled_from([d for d in range(2, total + 1) if total % d == 0]))
        shape.append(divisor)
        total //= divisor
    shape += [total] if total > 1 else []
    for _ in range(draw(st.integers(0, 2))):
        shape.insert(draw(st.integers(0, len(shape))), 1)
    return shape or [1]


def _ints(s: Sketch, *numbers: int) -> str:
    return s.constant(np.array(numbers, np.int64))


def _reshape(s: Sketch, x: str, shape: Shape) -> Taken:
    target = _factors(s.draw, prod(shape))
    return s.add("Reshape", x, _ints(s, *target)), tuple(target)


def _unsqueeze(s: Sketch, x: str, shape: Shape) -> Taken:
    axis = s.draw(st.integers(0, len(shape)))
    return s.add("Unsqueeze", x, _ints(s, axis)), (*shape[:axis], 1, *shape[axis:])


def _squeeze(s: Sketch, x: str, shape: Shape) -> Taken:
    return s.add("Squeeze", x), tuple(size for size in shape if size != 1)


def _flatten(s: Sketch, x: str, shape: Shape) -> Taken:
    axis = s.draw(st.integers(0, len(shape)))
    return s.add("Flatten", x, axis=axis), (prod(shape[:axis]), prod(shape[axis:]))


def _transpose(s: Sketch, x: str, shape: Shape) -> Taken:
    if not shape:
        return x, shape
    perm = s.draw(st.permutations(range(len(shape))))
    return s.add("Transpose", x, perm=list(perm)), tuple(shape[axis] for axis in perm)


def _slice(s: Sketch, x: str, shape: Shape) -> Taken:
    if not shape:
        return x, shape
    axis = s.draw(st.integers(0, len(shape) - 1))
    size = shape[axis]
    step = s.draw(st.sampled_from([1, 1, 1, 2, -1, 3]))
    start, end = sorted(s.draw(st.tuples(st.integers(0, size - 1), st.integers(1, size))))
    end = max(end, start + 1)
    count = len(range(size)[start:end:step]) if step > 0 else len(range(start, end))
    bounds = (start, end) if step > 0 else (end - 1, start - size - 1)
    y = s.add("Slice", x, _ints(s, bounds[0]), _ints(s, bounds[1]), _ints(s, axis), _ints(s, step))
    return y, (*shape[:axis], count, *shape[axis + 1 :])


def _split_and_join(s: Sketch, x: str, shape: Shape) -> Taken:
    axes = [axis for axis, size in enumerate(shape) if size > 1]
    if not axes:
        return x, shape
    axis = s.draw(st.sampled_from(axes))
    cut = s.draw(st.integers(1, shape[axis] - 1))
    names = [f"part{len(s.nodes)}_{side}" for side in "ab"]
    s.nodes.append(helper.make_node("Split", [x, _ints(s, cut, shape[axis] - cut)], names, axis=axis))
    if s.draw(st.booleans()):
        names = names[::-1]
    if s.draw(st.booleans()):
        return names[0], (*shape[:axis], cut if names[0].endswith("a") else shape[axis] - cut, *shape[axis + 1 :])
    return s.add("Concat", *names, axis=axis), shape


def _concat(s: Sketch, x: str, shape: Shape) -> Taken:
    if not shape or prod(shape) > MAX_ELEMENTS // 3:
        return x, shape
    axis = s.draw(st.integers(0, len(shape) - 1))
    others = [name for name, size in s.images if size == shape] + [s.normal(*shape), x]
    parts = [x, *(s.draw(st.sampled_from(others)) for _ in range(s.draw(st.integers(0, 2))))]
    y = s.add("Concat", *parts, axis=axis - (len(shape) if s.draw(st.booleans()) else 0))
    return y, (*shape[:axis], shape[axis] * len(parts), *shape[axis + 1 :])


def _pad(s: Sketch, x: str, shape: Shape) -> Taken:
    if not shape or prod(shape) > MAX_ELEMENTS // 4:
        return x, shape
    axis = s.draw(st.integers(0, len(shape) - 1))
    front, back = s.draw(st.tuples(st.integers(0, 2), st.integers(0, 2)))
    pads = [0] * (2 * len(shape))
    pads[axis], pads[axis + len(shape)] = front, back
    fill = [s.number(0.5)] if s.draw(st.booleans()) else []
    return s.add("Pad", x, _ints(s, *pads), *fill), (*shape[:axis], shape[axis] + front + back, *shape[axis + 1 :])


def _binary(s: Sketch, x: str, shape: Shape) -> Taken:
    op = s.draw(st.sampled_from(["Add", "Mul", "Sub"]))
    others = [name for name, size in s.images if size == shape]
    sizes = tuple(s.draw(st.sampled_from([size, 1])) for size in shape)
    others += [s.normal(*sizes[s.draw(st.integers(0, len(shape))) :]), s.number(s.draw(st.sampled_from([0, 1, -0.0])))]
    operands = [x, s.draw(st.sampled_from(others))]
    return s.add(op, *(operands[::-1] if s.draw(st.booleans()) else operands)), shape


def _unary(s: Sketch, x: str, shape: Shape) -> Taken:
    return s.add(s.draw(st.sampled_from(["Relu", "Neg", "Abs", "Identity", "Floor"])), x), shape


def _cast(s: Sketch, x: str, shape: Shape) -> Taken:
    for to in s.draw(st.lists(st.sampled_from([TensorProto.DOUBLE, TensorProto.FLOAT16]), max_size=2)):
        x = s.add("Cast", x, to=to)
    return s.add("Cast", x, to=TensorProto.FLOAT), shape


def _expand(s: Sketch, x: str, shape: Shape) -> Taken:
    target = tuple(
        s.draw(st.sampled_from([1, 2, 3])) if size == 1 and prod(shape) < MAX_ELEMENTS // 27 else size for size in shape
    )
    return s.add("Expand", x, _ints(s, *target)), target


def _reduce(s: Sketch, x: str, shape: Shape) -> Taken:
    if len(shape) < 2:
        return x, shape
    axis, keep = s.draw(st.integers(0, len(shape) - 1)), s.draw(st.booleans())
    y = s.add("ReduceMax", x, _ints(s, axis), keepdims=int(keep))
    return y, (*shape[:axis], *([1] if keep else []), *shape[axis + 1 :])


STEPS: tuple[Callable[[Sketch, str, Shape], Taken], ...] = (
    _reshape, _reshape, _unsqueeze, _squeeze, _flatten, _transpose, _transpose, _transpose, _slice, _slice,
    _split_and_join, _concat, _pad, _binary, _binary, _unary, _cast, _expand, _reduce,
)  # fmt: skip


@st.composite
def move_models(draw: st.DrawFn) -> onnx.ModelProto:
    """A model of one input of two to four dims."""
    sketch = Sketch(draw, np.random.default_rng(draw(st.integers(0, 99))))
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=2, max_size=4)))
    sketch.keep("x", shape)
    for step in draw(st.lists(st.sampled_from(STEPS), min_size=2, max_size=14)):
        taken, size = sketch.image()
        value, size = step(sketch, taken, size)
        if value != taken and len(size) < 7:
            sketch.keep(value, size)
    ends = dict(sketch.images[1:][-1:] + draw(st.lists(st.sampled_from(sketch.images), max_size=2)))
    ends.pop("x", None)
    outputs = ends or {sketch.add("Identity", "x"): shape}
    graph = helper.make_graph(
        sketch.nodes,
        "moves",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name, size in outputs.items()],
        sketch.constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
