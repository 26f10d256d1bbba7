"""Random TensorFlow graphs of ten to twenty ops, with expected results.

`random_graph(seed)` generates one. Each op comes with its result computed by numpy in float64; discontinuous ops,
such as Floor or ArgMax, read only exact values, so that rounding cannot change their result. OpenVINO and TensorFlow
serve as second and third oracles (`oracles.py`):

    make fuzz-tensorflow FUZZ_TENSORFLOW=100 FUZZ_SEED=0 FUZZ_ORACLE=openvino
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from atcpy.parsers.tensorflow.op import MAPPINGS
from tests.parsers.tensorflow.graphs import Array, TfBuilder, Type

MAX_ELEMENTS = 2000
TOLERANCE = 2e-5  # relative to the largest element


class Unfit(Exception):
    """Raised by a recipe if no value of the graph suits it."""


@dataclass(frozen=True, slots=True)
class Item:
    """A value of the graph; float32 values are represented as float64 arrays."""

    name: str
    array: Array
    is_exact: bool

    @property
    def is_float(self) -> bool:
        return self.array.dtype.kind == "f"

    @property
    def type(self) -> Type:
        return Type("float32" if self.is_float else str(self.array.dtype))


@dataclass(slots=True)
class Sketch:
    """A graph under construction."""

    rng: np.random.Generator
    is_open: bool  # the inputs' first dim is undeclared, so that recipes keep it first
    builder: TfBuilder = field(default_factory=TfBuilder)
    feeds: dict[str, Array] = field(default_factory=dict)
    pool: list[Item] = field(default_factory=list)
    read: set[str] = field(default_factory=set)

    def pick(self, options: Sequence[Any]) -> Any:
        """A random option."""
        return options[int(self.rng.integers(len(options)))]

    def take(self, kind: str = "f", min_rank: int = 0, rank: int = -1, *, is_exact: bool = False) -> Item:
        """A random value of a dtype kind (f, i or b), newer ones more likely."""
        fitting = [
            item
            for item in self.pool
            if item.array.dtype.kind == kind and item.array.ndim >= min_rank and rank in (-1, item.array.ndim)
            if item.is_exact or not is_exact
        ]
        if not fitting:
            raise Unfit
        item = self.pick(fitting[-4:] if self.rng.random() < 0.7 else fitting)
        self.read.add(item.name)
        return item

    def const(self, array: Any, dtype: str = "") -> str:
        """A constant."""
        return self.builder.const(np.asarray(array), dtype)

    def weights(self, *shape: int, scale: float = 0.5) -> tuple[str, Array]:
        """Add a constant of random numbers; return its name and the numbers."""
        array = (self.rng.standard_normal(shape) * scale).astype(np.float32)
        return self.const(array), array.astype(np.float64)

    def put(self, op: str, inputs: Sequence[str], array: Any, *, is_exact: bool = False, **attrs: Any) -> Item:
        """Add a node with its result."""
        name = self.node(op, inputs, **attrs)
        return self.add_item(name, array, is_exact=is_exact)

    def node(self, op: str, inputs: Sequence[str], **attrs: Any) -> str:
        """Add a node; raise Unfit if its op is not supported."""
        if op not in MAPPINGS:
            raise Unfit
        return self.builder.add(op, *inputs, **attrs)

    def add_item(self, name: str, array: Any, *, is_exact: bool = False) -> Item:
        """Record a result; raise Unfit if it has too many elements or too large ones."""
        result = np.asarray(array)
        if result.size > MAX_ELEMENTS or (result.size and not np.all(np.abs(result.astype(np.float64)) < 1e4)):
            raise Unfit
        item = Item(name, result, is_exact)
        self.pool.append(item)
        return item


Recipe = Callable[[Sketch], object]
RECIPES: list[Recipe] = []


def recipe(function: Recipe) -> Recipe:
    """Register a function that adds ops to a graph."""
    RECIPES.append(function)
    return function


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


_SMOOTH: dict[str, Callable[[Array], Array]] = {
    "Relu": lambda x: np.maximum(x, 0), "Relu6": lambda x: np.clip(x, 0, 6), "Tanh": np.tanh, "Sigmoid": _sigmoid,
    "Abs": np.abs, "Neg": np.negative, "Square": np.square, "Softplus": lambda x: np.logaddexp(x, 0), "Sin": np.sin,
    "Elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), "Softsign": lambda x: x / (1 + np.abs(x)),
    "Cos": np.cos, "Atan": np.arctan, "Asinh": np.arcsinh, "Identity": lambda x: x, "ZerosLike": np.zeros_like,
}  # fmt: skip
_OF_BOUNDED: dict[str, Callable[[Array], Array]] = {"Exp": np.exp, "Expm1": np.expm1, "Sinh": np.sinh, "Cosh": np.cosh}
_OF_POSITIVE: dict[str, Callable[[Array], Array]] = {
    "Log": np.log, "Log1p": np.log1p, "Sqrt": np.sqrt, "Rsqrt": lambda x: x**-0.5, "Reciprocal": np.reciprocal,
}  # fmt: skip
_JUMPS: dict[str, Callable[[Array], Array]] = {"Floor": np.floor, "Ceil": np.ceil, "Round": np.rint, "Sign": np.sign}
_PAIRS: dict[str, Callable[[Array, Array], Array]] = {
    "AddV2": np.add, "Sub": np.subtract, "Mul": np.multiply, "Maximum": np.maximum, "Minimum": np.minimum,
    "SquaredDifference": lambda x, y: (x - y) ** 2,
}  # fmt: skip
_COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "Less": np.less, "LessEqual": np.less_equal, "Greater": np.greater, "GreaterEqual": np.greater_equal,
    "Equal": np.equal, "NotEqual": np.not_equal,
}  # fmt: skip
_REDUCTIONS: dict[str, Callable[..., Array]] = {"Sum": np.sum, "Mean": np.mean, "Max": np.max, "Min": np.min}


@recipe
def smooth(s: Sketch) -> None:
    x, op = s.take(), s.pick(list(_SMOOTH))
    s.put(op, [x.name], _SMOOTH[op](x.array), T=x.type)


@recipe
def of_bounded(s: Sketch) -> None:
    x, op = s.take(), s.pick(list(_OF_BOUNDED))
    inner = s.node("Tanh", [x.name], T=x.type)
    s.put(op, [inner], _OF_BOUNDED[op](np.tanh(x.array)), T=x.type)


@recipe
def of_positive(s: Sketch) -> None:
    x, op = s.take(), s.pick(list(_OF_POSITIVE))
    above = s.node("AddV2", [s.node("Abs", [x.name], T=x.type), s.const(np.float32(0.5))], T=x.type)
    s.put(op, [above], _OF_POSITIVE[op](np.abs(x.array) + 0.5), T=x.type)


@recipe
def jump(s: Sketch) -> None:
    x, op = s.take(is_exact=True), s.pick(list(_JUMPS))
    s.put(op, [x.name], _JUMPS[op](x.array), is_exact=True, T=x.type)


def _partner(s: Sketch, x: Item) -> tuple[str, Array, bool]:
    """An operand that broadcasts with x: another value or a constant."""
    for other in s.rng.permutation(np.array(s.pool, object)):
        if other.type == x.type and s.rng.random() < 0.5:
            try:
                np.broadcast_shapes(other.array.shape, x.array.shape)
            except ValueError:
                continue
            s.read.add(other.name)
            return other.name, other.array, other.is_exact
    shape = [size if s.rng.random() < 0.6 else 1 for size in x.array.shape]
    shape = shape[int(s.rng.integers(len(shape) + 1)) :]
    if x.is_float:
        return *s.weights(*shape, scale=1.0), False
    array = s.rng.integers(-9, 9, shape).astype(x.array.dtype)
    return s.const(array), array, True


@recipe
def pair(s: Sketch) -> None:
    x, op = s.take(s.pick("fffi")), s.pick(list(_PAIRS))
    name, other, is_exact = _partner(s, x)
    is_exact = is_exact and x.is_exact and not x.is_float
    s.put(op, [x.name, name], _PAIRS[op](x.array, other), is_exact=is_exact, T=x.type)


@recipe
def quotient(s: Sketch) -> None:
    x = s.take(s.pick("fi"))
    if x.is_float:
        name, divisor = s.weights(x.array.shape[-1] if x.array.ndim else 1)
        below = s.node("AddV2", [s.node("Square", [name], T=x.type), s.const(np.float32(1))], T=x.type)
        s.put("RealDiv", [x.name, below], x.array / (divisor**2 + 1), T=x.type)
        return
    op, number = s.pick(["FloorDiv", "FloorMod"]), s.pick([2, 3, -4, 7])
    array = (np.floor_divide if op == "FloorDiv" else np.mod)(x.array, number).astype(x.array.dtype)
    s.put(op, [x.name, s.const(number, str(x.array.dtype))], array, is_exact=x.is_exact, T=x.type)


@recipe
def comparison(s: Sketch) -> None:
    x, op = s.take(s.pick("fi"), is_exact=True), s.pick(list(_COMPARISONS))
    number = s.pick([0, 1, -1])
    name = s.const(number, x.type.name)
    s.put(op, [x.name, name], _COMPARISONS[op](x.array, number), is_exact=True, T=x.type)


@recipe
def logic(s: Sketch) -> None:
    x = s.take("b")
    if s.rng.random() < 0.5:
        s.put("LogicalNot", [x.name], ~x.array, is_exact=True)
        return
    op = s.pick(["LogicalAnd", "LogicalOr"])
    y = s.take("b", rank=x.array.ndim)
    if x.array.shape != y.array.shape:
        raise Unfit
    s.put(op, [x.name, y.name], x.array & y.array if op == "LogicalAnd" else x.array | y.array, is_exact=True)


@recipe
def selection(s: Sketch) -> None:
    condition = s.take("b")
    x = s.take(s.pick("fi"))
    name, other, is_exact = _partner(s, x)
    try:
        np.broadcast_shapes(condition.array.shape, x.array.shape, np.shape(other))
    except ValueError as error:
        raise Unfit from error
    array = np.where(condition.array, x.array, other)
    s.put("SelectV2", [condition.name, x.name, name], array, is_exact=is_exact and x.is_exact, T=x.type)


@recipe
def conversion(s: Sketch) -> None:
    x = s.take(s.pick("fib"), is_exact=True)
    name = s.pick(["float32", "int32", "int64"])
    array = x.array.astype(np.float64 if name == "float32" else name)
    s.put("Cast", [x.name], array, is_exact=True, SrcT=x.type, DstT=Type(name))


@recipe
def reduction(s: Sketch) -> None:
    x, op = s.take(min_rank=1), s.pick(list(_REDUCTIONS))
    rank = x.array.ndim
    axes = tuple(int(axis) for axis in s.rng.permutation(rank)[: int(s.rng.integers(1, rank + 1))])
    keepdims = bool(s.rng.random() < 0.5)
    listed_axes = [axis - rank if s.rng.random() < 0.3 else axis for axis in axes]
    array = _REDUCTIONS[op](x.array, axes, keepdims=keepdims)
    s.put(op, [x.name, s.const(listed_axes, "int32")], array, T=x.type, Tidx=Type("int32"), keep_dims=keepdims)


@recipe
def truth_reduction(s: Sketch) -> None:
    x, op = s.take("b", min_rank=1), s.pick(["All", "Any"])
    array = (np.all if op == "All" else np.any)(x.array, -1)
    s.put(op, [x.name, s.const([-1], "int32")], array, is_exact=True, Tidx=Type("int32"), keep_dims=False)


@recipe
def arg_reduction(s: Sketch) -> None:
    x, op = s.take(min_rank=1, is_exact=True), s.pick(["ArgMax", "ArgMin"])
    axis = int(s.rng.integers(x.array.ndim))
    if len(np.unique(x.array)) < x.array.size:
        raise Unfit
    array = (np.argmax if op == "ArgMax" else np.argmin)(x.array, axis)
    attrs = {"T": x.type, "Tidx": Type("int32"), "output_type": Type("int64")}
    s.put(op, [x.name, s.const(axis, "int32")], array, is_exact=True, **attrs)


@recipe
def product(s: Sketch) -> None:
    x = s.take(min_rank=2)
    wide = int(s.rng.integers(1, 7))
    if x.array.ndim == 2:
        flip = bool(s.rng.random() < 0.3)
        name, w = s.weights(*((wide, x.array.shape[1]) if flip else (x.array.shape[1], wide)))
        s.put("MatMul", [x.name, name], x.array @ (w.T if flip else w), T=x.type, transpose_a=False, transpose_b=flip)
        return
    other = s.take(rank=x.array.ndim)
    if x.array.shape[:-2] != other.array.shape[:-2] or x.array.shape[-1] != other.array.shape[-1]:
        name, w = s.weights(x.array.shape[-1], wide)
        s.put("BatchMatMulV2", [x.name, name], x.array @ w, T=x.type, adj_x=False, adj_y=False)
        return
    result = x.array @ np.swapaxes(other.array, -1, -2)
    s.put("BatchMatMulV2", [x.name, other.name], result, T=x.type, adj_x=False, adj_y=True)


@recipe
def softmax(s: Sketch) -> None:
    x = s.take(min_rank=1)
    shifted = x.array - x.array.max(-1, keepdims=True)
    array = np.exp(shifted) / np.exp(shifted).sum(-1, keepdims=True)
    s.put("Softmax", [x.name], array, T=x.type)  # not LogSoftmax, which is wrong in OpenVINO: docs/peer-bugs.md


@recipe
def running_sum(s: Sketch) -> None:
    x = s.take(min_rank=1)
    axis, reverse = int(s.rng.integers(x.array.ndim)), bool(s.rng.random() < 0.5)
    array = np.flip(np.flip(x.array, axis).cumsum(axis), axis) if reverse else x.array.cumsum(axis)
    attrs = {"T": x.type, "Tidx": Type("int32"), "exclusive": False, "reverse": reverse}
    s.put("Cumsum", [x.name, s.const(axis, "int32")], array, **attrs)


@recipe
def normalization(s: Sketch) -> None:
    x = s.take(min_rank=2)
    axes = s.const([-1], "int32")
    attrs = {"T": x.type, "Tidx": Type("int32"), "keep_dims": True}
    mean = s.node("Mean", [x.name, axes], **attrs)
    variance = s.node("Mean", [s.node("SquaredDifference", [x.name, mean], T=x.type), axes], **attrs)
    root = s.node("Rsqrt", [s.node("AddV2", [variance, s.const(np.float32(0.1))], T=x.type)], T=x.type)
    scale, gamma = s.weights(x.array.shape[-1])
    factor = s.node("Mul", [root, scale], T=x.type)
    shift = s.node("Sub", [s.const(np.float32(0.25)), s.node("Mul", [mean, factor], T=x.type)], T=x.type)
    centred = x.array - x.array.mean(-1, keepdims=True)
    array = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 0.1) * gamma + 0.25
    s.put("AddV2", [s.node("Mul", [x.name, factor], T=x.type), shift], array, T=x.type)


def draw_input(s: Sketch, index: int) -> None:
    """Add an input of random shape and kind; some leave the first size undeclared."""
    shapes = [(2, 6, 5, 3), (1, 7, 7, 4), (2, 3, 4), (3, 5), (6,), (4, 4)]
    shape = shapes[index] if index < 1 else s.pick(shapes)
    name, is_float = f"in{index}", index == 0 or bool(s.rng.random() < 0.75)
    values = s.rng.standard_normal(shape).astype(np.float32) if is_float else s.rng.integers(-9, 10, shape, np.int32)
    declared = (None, *shape[1:]) if s.is_open and s.rng.random() < 0.7 else shape
    s.builder.input(name, str(values.dtype), declared)
    s.feeds[name] = values
    s.add_item(name, values.astype(np.float64) if is_float else values, is_exact=True)


@dataclass(frozen=True, slots=True)
class RandomGraph:
    """A graph, its feeds, and the expected outputs by name."""

    seed: int
    builder: TfBuilder
    feeds: dict[str, Array]
    expected: dict[str, Array]

    def differences(self, results: Sequence[Array]) -> list[str]:
        """Describe the differences between results and the expected outputs."""
        found = []
        for (name, expected), result in zip(self.expected.items(), results, strict=True):
            dtype = "float32" if expected.dtype.kind == "f" else str(expected.dtype)
            if (str(result.dtype), result.shape) != (dtype, expected.shape):
                found.append(f"seed {self.seed}, {name}: {result.dtype} {result.shape}, not {dtype} {expected.shape}")
            elif expected.size:
                gap = np.abs(result.astype(np.float64) - expected.astype(np.float64)).max()
                bound = TOLERANCE * max(1.0, np.abs(expected).max()) if dtype == "float32" else 0
                if not gap <= bound:
                    found.append(f"seed {self.seed}, {name}: off by {gap}")
        return found


def random_graph(seed: int) -> RandomGraph:
    """Generate the graph of a seed."""
    from tests.parsers.tensorflow import random_arrays  # noqa: F401  registers its recipes

    rng = np.random.default_rng(seed)
    s = Sketch(rng, is_open=bool(rng.random() < 0.5))
    for index in range(int(s.rng.integers(2, 5))):
        draw_input(s, index)
    inputs = set(s.feeds)
    node_count = int(s.rng.integers(8, 18))
    for _ in range(20 * node_count):
        try:
            s.pick(RECIPES)(s)
        except Unfit:
            continue
        if len(s.pool) - len(inputs) >= node_count:
            break
    # OpenVINO loses the name of an output that is an input.
    sources = [item.array for item in s.pool if item.name in inputs]
    computed = [item for item in s.pool if not any(item.array is array for array in sources)]
    ends = [item for item in computed if item.name not in s.read] or computed[-1:]
    expected = {
        s.node("Identity", [item.name], T=item.type, name=f"out{at}"): item.array for at, item in enumerate(ends)
    }
    needed = _needed(s.builder, list(expected))
    return RandomGraph(seed, s.builder, {name: x for name, x in s.feeds.items() if name in needed}, expected)


def _needed(builder: TfBuilder, outputs: Sequence[str]) -> set[str]:
    """The names of the nodes that outputs depend on."""
    found = {name.split(":")[0] for name in outputs}
    for node in reversed(builder.graph.node):
        if node.name in found:
            found |= {name.split(":")[0] for name in node.input}
    return found


def run_graph(graph: RandomGraph, folder: Path) -> list[str]:
    """Convert and run the graph; describe the differences."""
    return graph.differences(graph.builder.run(folder, graph.feeds, *graph.expected))
