"""Random networks of the kind that CNNs are made of, as ONNX models: what passes must not break.

`cnn_models()` draws a graph that grows one step at a time: each step takes values that are there and
adds a layer, a residual block, a concatenation … Outputs are values from anywhere in it, read by
others or not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from atcpy.ir.tensor import Array

OPSET = 21
CHANNELS = st.sampled_from([1, 3, 4, 8, 15, 16, 17, 32, 48])
SIZES = st.integers(1, 9)


@dataclass
class Sketch:
    """A model in the making. `images` are the values of four dims that later steps may take."""

    draw: st.DrawFn
    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    images: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    others: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)

    def add(self, op_type: str, *inputs: str, **attrs: Any) -> str:
        """Adds a node and returns the name of its output."""
        name = f"{op_type.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], name=f"n_{name}", **attrs))
        return name

    def constant(self, array: Array) -> str:
        """Adds a constant."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def number(self, value: float) -> str:
        """A constant of one element."""
        return self.constant(np.asarray(value, np.float32))

    def normal(self, *shape: int, scale: float = 1.0) -> str:
        """A constant of random numbers."""
        return self.constant((self.rng.standard_normal(shape) * scale).astype(np.float32))

    def positive(self, *shape: int) -> str:
        """A constant of random numbers around one."""
        return self.constant(self.rng.uniform(0.5, 1.5, shape).astype(np.float32))

    def image(self) -> tuple[str, tuple[int, ...]]:
        """One of the values that are there, the newer the likelier."""
        back = min(self.draw(st.integers(0, 3)), len(self.images) - 1)
        return self.images[len(self.images) - 1 - back]

    def keep(self, name: str, shape: Sequence[int]) -> None:
        """Makes a value of four dims known to later steps."""
        self.images.append((name, tuple(shape)))


Step = Callable[[Sketch], None]


def _conv(
    s: Sketch, x: str, shape: tuple[int, ...], m: int, group: int = 1, *, same: bool = False
) -> tuple[str, tuple[int, ...]]:
    n, c, h, w = shape
    draw = s.draw
    kernel = [draw(st.sampled_from([1, 1, 3, 2])) for _ in range(2)]
    strides, dilations, pads = [1, 1], [1, 1], [(k - 1) // 2 for k in kernel] + [k // 2 for k in kernel]
    if not same:
        strides = [draw(st.sampled_from([1, 1, 2])) for _ in range(2)]
        dilations = [draw(st.sampled_from([1, 1, 2])) for _ in range(2)]
        pads = [draw(st.integers(0, 2)) for _ in range(4)]
    out = [
        (size + pads[i] + pads[i + 2] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1
        for i, size in enumerate((h, w))
    ]
    if min(out) < 1:
        kernel, pads, strides, dilations, out = [1, 1], [0] * 4, [1, 1], [1, 1], [h, w]
    weights = s.normal(m, c // group, *kernel, scale=(c // group * kernel[0] * kernel[1]) ** -0.5)
    bias = [s.normal(m)] if draw(st.booleans()) else []
    y = s.add("Conv", x, weights, *bias, group=group, strides=strides, dilations=dilations, pads=pads)
    return y, (n, m, *out)


ACTIVATIONS = (
    "", "Relu", "Relu", "Clip", "Sigmoid", "Swish", "LeakyRelu", "HardSwish", "Tanh", "PRelu", "relu6 gate", "erf",
)  # fmt: skip


def _activate(s: Sketch, x: str, shape: tuple[int, ...]) -> str:
    match s.draw(st.sampled_from(ACTIVATIONS)):
        case "":
            return x
        case "Clip":
            return s.add("Clip", x, s.number(0), s.number(6))
        case "Swish":
            return s.add("Mul", *s.draw(st.permutations([x, s.add("Sigmoid", x)])))
        case "PRelu":
            return s.add("PRelu", x, s.positive(shape[1], 1, 1))
        case "relu6 gate":
            gate = s.add("Div", s.add("Clip", s.add("Add", x, s.number(3)), s.number(0), s.number(6)), s.number(6))
            return s.add("Mul", *s.draw(st.permutations([x, gate])))
        case "erf":
            bracket = s.add("Add", s.add("Erf", s.add("Div", x, s.number(2**0.5))), s.number(1))
            return s.add("Mul", s.add("Mul", *s.draw(st.permutations([x, bracket]))), s.number(0.5))
        case op:
            return s.add(op, x)


def _norm(s: Sketch, x: str, c: int) -> str:
    if s.draw(st.booleans()):
        return x
    return s.add("BatchNormalization", x, s.positive(c), s.normal(c), s.normal(c), s.positive(c))


def conv(s: Sketch) -> None:
    """A convolution, with what usually follows one."""
    x, shape = s.image()
    m, group = s.draw(CHANNELS), 1
    kind = s.draw(st.sampled_from(["dense", "dense", "depthwise", "grouped"]))
    if kind == "depthwise":
        m = group = shape[1]
    elif kind == "grouped":
        group = s.draw(st.sampled_from([g for g in (1, 2, 3, 4, 8) if shape[1] % g == 0]))
        m = group * s.draw(st.integers(1, 9))
    y, result_shape = _conv(s, x, shape, m, group)
    y = _norm(s, y, m)
    if s.draw(st.booleans()):
        y = s.add("Add", *s.draw(st.permutations([y, s.normal(m, 1, 1)])))
    s.keep(_activate(s, y, result_shape), result_shape)


def residual(s: Sketch) -> None:
    """A residual block; what is added may be read elsewhere too."""
    x, shape = s.image()
    y, result_shape = _conv(s, x, shape, shape[1], same=True)
    y = _norm(s, y, result_shape[1])
    if s.draw(st.booleans()):
        s.keep(y, result_shape)
    y = s.add("Add", *s.draw(st.permutations([y, x])))
    s.keep(_activate(s, y, result_shape), result_shape)


def pool(s: Sketch) -> None:
    """A pooling window, or the whole picture."""
    x, shape = s.image()
    kind = s.draw(st.sampled_from(["MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "ReduceMean"]))
    if kind == "ReduceMean":
        s.keep(s.add(kind, x, s.constant(np.array([2, 3])), keepdims=1), (*shape[:2], 1, 1))
        return
    if kind.startswith("Global"):
        s.keep(s.add(kind, x), (*shape[:2], 1, 1))
        return
    kernel = [s.draw(st.integers(1, min(3, size))) for size in shape[2:]]
    strides = [s.draw(st.integers(1, 2)) for _ in kernel]
    pads = [s.draw(st.integers(0, (k - 1) // 2)) for k in kernel * 2]
    attrs: dict[str, object] = {"kernel_shape": kernel, "strides": strides, "pads": pads}
    if kind == "AveragePool":
        attrs["count_include_pad"] = s.draw(st.integers(0, 1))
    sizes = list(zip(shape[2:], pads[:2], pads[2:], kernel, strides, strict=True))
    out = [(size + p - k + q) // step + 1 for size, p, q, k, step in sizes]
    up = [-((k - size - p - q) // step) + 1 for size, p, q, k, step in sizes]
    # Where a window would begin in the padding behind, ONNX's shape functions and the runtimes differ.
    begins_inside = all((n - 1) * step < size + p for n, (size, p, _, _, step) in zip(up, sizes, strict=True))
    if begins_inside and s.draw(st.booleans()):
        attrs["ceil_mode"], out = 1, up
    s.keep(s.add(kind, x, **attrs), (*shape[:2], *out))


def concat(s: Sketch) -> None:
    """Concatenation of channels, in whole blocks or not."""
    x, shape = s.image()
    beside = [image for image in s.images if image[1][:1] + image[1][2:] == shape[:1] + shape[2:]]
    parts = [(x, shape), *(s.draw(st.sampled_from(beside)) for _ in range(s.draw(st.integers(0, 2))))]
    if sum(part[1][1] for part in parts) <= 128:
        y = s.add("Concat", *(name for name, _ in parts), axis=1)
        s.keep(y, (shape[0], sum(part[1][1] for part in parts), *shape[2:]))


def split(s: Sketch) -> None:
    """Channels in two, or a run of them."""
    x, shape = s.image()
    if shape[1] < 2:
        return
    at = s.draw(st.sampled_from(sorted({1, shape[1] // 2, max(shape[1] // 16 * 16, 1)} - {shape[1]})))
    if s.draw(st.booleans()):
        ends = [s.constant(np.array([v])) for v in (at, 2**31, 1)]
        s.keep(s.add("Slice", x, *ends), (shape[0], shape[1] - at, *shape[2:]))
        return
    name = f"split{len(s.nodes)}"
    sizes = (at, shape[1] - at)
    results = [f"{name}_{i}" for i in range(2)]
    s.nodes.append(helper.make_node("Split", [x, s.constant(np.array(sizes))], results, name=name, axis=1))
    for result, size in zip(results, sizes, strict=True):
        s.keep(result, (shape[0], size, *shape[2:]))


def resize(s: Sketch) -> None:
    """Twice as large, by the nearest pixel or linearly."""
    x, shape = s.image()
    if max(shape[2:]) > 12:
        return
    mode = s.draw(st.sampled_from(["nearest", "linear"]))
    scales = s.constant(np.array([1, 1, 2, 2], np.float32))
    attrs = {"mode": mode, "coordinate_transformation_mode": "asymmetric" if mode == "nearest" else "half_pixel"}
    if mode == "nearest":
        attrs["nearest_mode"] = "floor"
    s.keep(s.add("Resize", x, "", scales, **attrs), (*shape[:2], shape[2] * 2, shape[3] * 2))


def elementwise(s: Sketch) -> None:
    """Two values of one shape, or a value and something that is broadcast to it."""
    x, shape = s.image()
    n, c, h, w = shape
    op = s.draw(st.sampled_from(["Add", "Mul", "Sub", "Max"]))
    alike = [name for name, other in s.images if other == shape]
    others = [st.sampled_from(alike), st.just("gate")]
    broadcast = [(c, 1, 1), (1, c, 1, 1), (1,), (), (h, w), (1, 1, h, w), (n, c, h, w), (w,), (c, h, w)]
    kind = s.draw(st.one_of(*others, st.sampled_from(broadcast)))
    if kind == "gate":  # squeeze and excitation
        gate, _ = _conv(s, s.add("GlobalAveragePool", x), (n, c, 1, 1), c, same=True)
        other = s.add("Sigmoid", gate)
    else:
        other = kind if isinstance(kind, str) else s.normal(*kind)
    s.keep(_activate(s, s.add(op, *s.draw(st.permutations([x, other]))), shape), shape)


def same(s: Sketch) -> None:
    """What changes nothing, and twice the same."""
    x, shape = s.image()
    match s.draw(st.sampled_from(["Identity", "Dropout", "Cast", "Reshape", "twins", "Transposes", "Pad"])):
        case "Cast":
            y = s.add("Cast", x, to=TensorProto.FLOAT)
        case "Reshape":
            y = s.add("Reshape", x, s.add("Shape", x))
        case "twins":
            y = s.add("Add", s.add("Relu", x), s.add("Relu", x))
        case "Transposes":
            y = s.add("Transpose", s.add("Transpose", x, perm=[0, 2, 3, 1]), perm=[0, 3, 1, 2])
        case "Pad":
            y = s.add("Pad", x, s.constant(np.zeros(8, np.int64)))
        case op:
            y = s.add(op, x)
    s.keep(y, shape)


def pad(s: Sketch) -> None:
    """Zeros around the picture, or behind the channels."""
    x, (n, c, h, w) = s.image()
    more = s.draw(st.sampled_from([0, 0, 1]))
    s.keep(s.add("Pad", x, s.constant(np.array([0, 0, 1, 0, 0, more, 0, 2]))), (n, c + more, h + 1, w + 2))


def shuffle(s: Sketch) -> None:
    """Channels dealt out anew by way of five dims, the batch kept by shape arithmetic."""
    x, shape = s.image()
    _, c, h, w = shape
    group = s.draw(st.sampled_from([g for g in (1, 2, 4) if c % g == 0]))
    batch = s.add("Gather", s.add("Shape", x), s.constant(np.array(0)), axis=0)
    batch = s.add("Unsqueeze", batch, s.constant(np.array([0])))
    target = s.add("Concat", batch, s.constant(np.array([group, c // group, h, w])), axis=0)
    y = s.add("Transpose", s.add("Reshape", x, target), perm=[0, 2, 1, 3, 4])
    s.keep(s.add("Reshape", y, s.constant(np.array([0, c, h, -1]))), shape)


def rearrange(s: Sketch) -> None:
    """Pixels moved, cut out or repeated; channels compared with each other."""
    x, (n, c, h, w) = s.image()
    match s.draw(st.sampled_from(["blocks", "slice", "tile", "stack", "softmax", "norm", "lrn", "up", "sum"])):
        case "blocks" if h % 2 == 0 and w % 2 == 0:
            s.keep(s.add("SpaceToDepth", x, blocksize=2), (n, c * 4, h // 2, w // 2))
        case "blocks" if c % 4 == 0:
            mode = s.draw(st.sampled_from(["DCR", "CRD"]))
            s.keep(s.add("DepthToSpace", x, blocksize=2, mode=mode), (n, c // 4, h * 2, w * 2))
        case "slice" if h > 1:
            starts, ends, axes = (s.constant(np.array([v])) for v in (1, 2**31, 2))
            s.keep(s.add("Slice", x, starts, ends, axes), (n, c, h - 1, w))
        case "tile" if c <= 48:
            s.keep(s.add("Tile", x, s.constant(np.array([1, 2, 1, 1]))), (n, c * 2, h, w))
        case "stack" if h <= 12:
            s.keep(s.add("Concat", x, x, axis=2), (n, c, h * 2, w))
        case "softmax":
            s.keep(s.add("Softmax", x, axis=s.draw(st.sampled_from([1, 3]))), (n, c, h, w))
        case "norm" if h * w > 3:
            s.keep(s.add("InstanceNormalization", x, s.positive(c), s.normal(c)), (n, c, h, w))
        case "lrn":
            s.keep(s.add("LRN", x, size=3, alpha=0.5), (n, c, h, w))
        case "up" if max(h, w) <= 12:
            m = s.draw(CHANNELS)
            weights = s.normal(c, m, 2, 2, scale=c**-0.5)
            s.keep(_activate(s, s.add("ConvTranspose", x, weights, strides=[2, 2]), (n, m)), (n, m, h * 2, w * 2))
        case "sum":
            axis = s.draw(st.integers(1, 3))
            shape = [1 if i == axis else size for i, size in enumerate((n, c, h, w))]
            s.keep(s.add("ReduceSum", x, s.constant(np.array([axis])), keepdims=1), shape)


def tail(s: Sketch) -> None:
    """The end of a network: scores, boxes, pixels last."""
    x, shape = s.image()
    n, c, h, w = shape
    k = c * h * w
    match s.draw(st.sampled_from(["gemm", "boxes", "nhwc", "squeeze", "best"])):
        case "gemm":
            turned = s.draw(st.integers(0, 1))
            weights = s.normal(*((5, k) if turned else (k, 5)), scale=k**-0.5)
            y = s.add("Gemm", s.add("Flatten", x), weights, s.normal(5), transB=turned)
            s.others.append((s.add("Softmax", y, axis=1), (n, 5)))
        case "boxes":
            y = s.add("Reshape", s.add("Transpose", x, perm=[0, 2, 3, 1]), s.constant(np.array([n, -1, c])))
            s.others.append((s.add("MatMul", y, s.normal(c, 6, scale=c**-0.5)), (n, h * w, 6)))
        case "nhwc":
            s.others.append((s.add("Transpose", x, perm=[0, 2, 3, 1]), (n, h, w, c)))
        case "squeeze":
            pooled = s.add("GlobalAveragePool", x)
            s.others.append((s.add("Squeeze", pooled, s.constant(np.array([2, 3]))), (n, c)))
        case "best":
            s.others.append((s.add("ReduceMax", x, s.constant(np.array([1])), keepdims=0), (n, h, w)))


STEPS: tuple[Step, ...] = (
    conv, conv, conv, residual, pool, concat, split, resize, elementwise, elementwise, same, pad, shuffle,
    rearrange, rearrange, tail,
)  # fmt: skip


@st.composite
def cnn_models(draw: st.DrawFn, max_steps: int = 12) -> onnx.ModelProto:
    """A model of up to `max_steps` steps with one or two inputs and one to four outputs."""
    s = Sketch(draw, np.random.default_rng(draw(st.integers(0, 99))))
    inputs = []
    for name in ("x", "z")[: draw(st.integers(1, 2))]:
        shape = (draw(st.integers(1, 2)), draw(CHANNELS), draw(SIZES), draw(SIZES))
        s.keep(name, shape)
        inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
    for step in draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=max_steps)):
        step(s)
    values = [*s.images, *s.others]
    last = (s.others or s.images)[-1]
    outputs = dict([last, *draw(st.lists(st.sampled_from(values), max_size=3))])
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()]
    graph = helper.make_graph(s.nodes, "random", inputs, infos, s.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    onnx.checker.check_model(model)
    return model
