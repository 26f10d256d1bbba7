"""Random mutations of the golden files' models must compute the same with and without optimization.

Golden models show where a pass applies and where it just does not. Mutations, such as another constant, axis,
operand or op, an additional output, an inserted node or a longer dim, produce near misses that nobody wrote down.

python -m tests.fuzz.mutations --count 2000 --seed 1
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import onnx
from onnx import AttributeProto, checker, helper, numpy_helper, shape_inference

import atcpy
from atcpy.errors import AtcError
from atcpy.ir.tensor import Array
from atcpy.verify.float64 import evaluate_in_float64
from tests.fuzz.rows import with_long_rows
from tests.golden.golden import parse_text, read_golden

GOLDEN = Path(__file__).parent.parent / "golden"
# Its Equal compares float16 exactly, so that another order of summation changes the result.
_LEFT_OUT = frozenset({"insert_cast"})
_UNCHANGED = frozenset({"num_outputs"})  # onnx's shape inference aborts the process where it is too small
_ORDERED = frozenset({"Conv", "ConvTranspose"})  # it aborts at sizes below 0, too
_LONG_ROWS = 0.25  # share of the models that get longer rows, where possible
_TRIES = 8  # to find an applicable mutation
_FAMILIES = (
    ("Add", "Sub", "Mul", "Div", "Max", "Min"),
    ("Relu", "Abs", "Neg", "Sigmoid", "Tanh", "Exp", "Sqrt", "Softplus", "Erf", "Reciprocal"),
    ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceSumSquare", "ReduceL2", "ReduceL1"),
    ("Softmax", "LogSoftmax"),
    ("MaxPool", "AveragePool"),
    ("Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal"),
    ("And", "Or", "Xor"),
)
_NUMBERS: tuple[Callable[[Array], Array], ...] = (
    lambda array: array * 1.001,
    lambda array: array * 2,
    lambda array: array * 1e-4,
    lambda array: array + 0.5,
    np.negative,
    np.zeros_like,
    np.ones_like,
)
# Tolerance per dtype, relative to the largest element of a result.
_ROUNDING = {"float64": 1e-10, "float32": 2e-5, "float16": 8e-3, "bfloat16": 6e-2}


@dataclass(frozen=True, slots=True)
class _Type:
    """Element type and dims of a value."""

    elem_type: int
    dims: tuple[int | str, ...] | None


class _Mutant:
    """A copy of a model and the mutations; each returns whether it was applicable."""

    def __init__(self, source: onnx.ModelProto, chance: random.Random) -> None:
        self.model = onnx.ModelProto()
        self.model.CopyFrom(source)
        self._graph = self.model.graph
        self._chance = chance

    def change(self) -> None:
        """Apply one random mutation."""
        for _ in range(_TRIES):
            if self._chance.choice(_CHANGES)(self):
                return

    def constant(self) -> bool:
        """Change the elements of a float constant."""
        tensor = self._constant(lambda array: array.dtype.kind == "f")
        if tensor is None:
            return False
        array = numpy_helper.to_array(tensor)
        changed = self._chance.choice(_NUMBERS)(array)
        tensor.CopyFrom(numpy_helper.from_array(np.asarray(changed, array.dtype), tensor.name))
        return True

    def integer(self) -> bool:
        """Change an integer constant by one: an axis, a size, an index."""
        tensor = self._constant(lambda array: array.dtype.kind == "i" and array.size > 0)
        if tensor is None:
            return False
        array = numpy_helper.to_array(tensor).copy()
        array.reshape(-1)[self._chance.randrange(array.size)] += self._chance.choice([1, -1, 2])
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
        return True

    def output(self) -> bool:
        """Make an intermediate value an output of the model."""
        types = self._types()
        there = {info.name for info in self._graph.output}
        inner = [name for node in self._graph.node for name in node.output if name in types and name not in there]
        if not inner:
            return False
        name = self._chance.choice(inner)
        self._graph.output.append(helper.make_tensor_value_info(name, types[name].elem_type, types[name].dims))
        return True

    def operand(self) -> bool:
        """Replace an operand by another value of the same type."""
        graph, node = self._any_node()
        if graph is not self._graph:
            return self._inner_operand(graph, node)
        types = self._types()
        available = {
            name for other in list(self._graph.node)[: list(self._graph.node).index(node)] for name in other.output
        }
        available |= {info.name for info in self._graph.input} | {tensor.name for tensor in self._graph.initializer}
        indices = [index for index, name in enumerate(node.input) if name in types]
        if not indices:
            return False
        index = self._chance.choice(indices)
        old = node.input[index]
        others = sorted(name for name in available if name != old and types.get(name) == types[old])
        if not others:
            return False
        node.input[index] = self._chance.choice(others)
        return True

    def _inner_operand(self, body: onnx.GraphProto, node: onnx.NodeProto) -> bool:
        """Replace an operand by another value of the body; types are not inferred there, so that it may be invalid."""
        nodes = list(body.node)
        available = [name for other in nodes[: nodes.index(node)] for name in other.output]
        available += [info.name for info in body.input]
        if not node.input or not available:
            return False
        node.input[self._chance.randrange(len(node.input))] = self._chance.choice(available)
        return True

    def swap_operands(self) -> bool:
        """Swap the first two operands."""
        _, node = self._any_node()
        if len(node.input) < 2 or not all(node.input[:2]) or node.op_type in _ORDERED:
            return False
        node.input[0], node.input[1] = node.input[1], node.input[0]
        return True

    def op(self) -> bool:
        """Replace an op by another of the same family."""
        _, node = self._any_node()
        family = next((family for family in _FAMILIES if node.op_type in family), None)
        if family is not None:
            node.op_type = self._chance.choice(family)
        return family is not None

    def attribute(self) -> bool:
        """Change a number in an attribute."""
        _, node = self._any_node()
        attrs = [attr for attr in node.attribute if attr.type in _SET and attr.name not in _UNCHANGED]
        if not attrs:
            return False
        attr = self._chance.choice(attrs)
        _SET[attr.type](attr, self._chance)
        return True

    def insert_node(self) -> bool:
        """Insert a unary node before an operand."""
        types, node = self._types(), self._node()
        floats = [index for index, name in enumerate(node.input) if name in types and types[name].elem_type == 1]
        if not floats:
            return False
        index = self._chance.choice(floats)
        name = f"between{len(self._graph.node)}"
        op_type = self._chance.choice(["Identity", "Neg", "Abs", "Relu", "Sigmoid"])
        new = helper.make_node(op_type, [node.input[index]], [name])
        node.input[index] = name
        nodes = list(self._graph.node)
        nodes.insert(nodes.index(node), new)
        del self._graph.node[:]
        self._graph.node.extend(nodes)
        return True

    def constant_to_input(self) -> bool:
        """Turn a constant into an input."""
        tensor = self._constant(lambda array: array.dtype.kind == "f")
        if tensor is None:
            return False
        self._graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
        others = [other for other in self._graph.initializer if other.name != tensor.name]
        del self._graph.initializer[:]
        self._graph.initializer.extend(others)
        return True

    def _node(self) -> onnx.NodeProto:
        return self._graph.node[self._chance.randrange(len(self._graph.node))]

    def _any_node(self) -> tuple[onnx.GraphProto, onnx.NodeProto]:
        """A random node of the graph or of a nested body, and the graph that contains it."""
        nodes = [(graph, node) for graph in (self._graph, *_bodies(self._graph)) for node in graph.node]
        return nodes[self._chance.randrange(len(nodes))]

    def _constant(self, fits: Callable[[Array], bool]) -> onnx.TensorProto | None:
        fitting = [tensor for tensor in self._graph.initializer if fits(numpy_helper.to_array(tensor))]
        return self._chance.choice(fitting) if fitting else None

    def _types(self) -> Mapping[str, _Type]:
        inferred = shape_inference.infer_shapes(self.model, data_prop=True).graph
        types = {tensor.name: _Type(tensor.data_type, tuple(tensor.dims)) for tensor in inferred.initializer}
        for info in (*inferred.input, *inferred.value_info, *inferred.output):
            tensor_type = info.type.tensor_type
            if tensor_type.HasField("shape"):
                dims = tuple(
                    dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in tensor_type.shape.dim
                )
                types[info.name] = _Type(tensor_type.elem_type, dims)
        return types


def _bodies(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """All nested bodies of a graph."""
    for node in graph.node:
        for attr in node.attribute:
            if attr.type == AttributeProto.GRAPH:
                yield attr.g
                yield from _bodies(attr.g)


def _set_int(attr: AttributeProto, chance: random.Random) -> None:
    switch = attr.name in {
        "keepdims",
        "is_causal",
        "transA",
        "transB",
        "ceil_mode",
        "count_include_pad",
        "training_mode",
    }
    attr.i = 1 - attr.i if switch else chance.choice([attr.i + 1, attr.i - 1, 0, 1, 2])


def _set_ints(attr: AttributeProto, chance: random.Random) -> None:
    numbers = list(attr.ints)
    if chance.random() < 0.5:
        chance.shuffle(numbers)
    elif numbers:
        numbers[chance.randrange(len(numbers))] += chance.choice([1, -1])
    del attr.ints[:]
    attr.ints.extend(numbers)


def _set_float(attr: AttributeProto, chance: random.Random) -> None:
    attr.f = chance.choice([attr.f * 2, attr.f + 0.1, 0.0, 1.0])


_SET: dict[int, Callable[[AttributeProto, random.Random], None]] = {
    AttributeProto.INT: _set_int,
    AttributeProto.INTS: _set_ints,
    AttributeProto.FLOAT: _set_float,
}
_CHANGES: Sequence[Callable[[_Mutant], bool]] = (
    _Mutant.constant,
    _Mutant.integer,
    _Mutant.output,
    _Mutant.operand,
    _Mutant.swap_operands,
    _Mutant.op,
    _Mutant.attribute,
    _Mutant.insert_node,
    _Mutant.constant_to_input,
)


@cache
def _sources() -> Sequence[tuple[str, onnx.ModelProto]]:
    """The models of all golden files that convert without an error."""
    files = [path for path in sorted(GOLDEN.glob("*.golden")) if path.stem not in _LEFT_OUT]
    goldens = [(path.stem, read_golden(path)) for path in files]
    return [(name, parse_text(golden.model_text)) for name, golden in goldens if "error" not in golden.expected]


def mutant(seed: int) -> tuple[str, onnx.ModelProto]:
    """The mutated model of a seed, and the name of its golden file."""
    chance = random.Random(seed)
    name, source = chance.choice(_sources())
    longer = with_long_rows(source, chance) if chance.random() < _LONG_ROWS else None
    changed = _Mutant(longer or source, chance)
    for _ in range(chance.choice([1, 1, 2, 3])):
        changed.change()
    del changed.model.graph.value_info[:]  # declared types may no longer be true
    return name, changed.model


def feeds_of(model: onnx.ModelProto, seed: int) -> dict[str, Array]:
    """Random inputs; symbolic dims are 3."""
    rng = np.random.default_rng(seed)
    defaults = {tensor.name for tensor in model.graph.initializer}
    feeds: dict[str, Array] = {}
    for info in model.graph.input:
        if info.name not in defaults:
            tensor_type = info.type.tensor_type
            shape = [dim.dim_value if dim.HasField("dim_value") else 3 for dim in tensor_type.shape.dim]
            dtype = helper.tensor_dtype_to_np_dtype(tensor_type.elem_type)
            noise = rng.standard_normal(shape) if dtype.kind not in "biu" else rng.integers(0, 3, shape)
            feeds[info.name] = np.asarray(noise).astype(dtype)
    return feeds


def check(seed: int) -> str | None:
    """Empty if all options agree, else a description of the difference; None if the mutant is not a valid model."""
    name, model = mutant(seed)
    feeds = feeds_of(model, seed)
    with tempfile.TemporaryDirectory() as folder:
        try:
            checker.check_model(model)
            shape_inference.infer_shapes(model, strict_mode=True)
            plain = _run(model, feeds, folder, "O0")
        except (AtcError, RuntimeError, ValueError, checker.ValidationError, shape_inference.InferenceError):
            return None
        rewritten = Path(folder) / "m.onnx"
        atcpy.optimize(model, rewritten, verify=False)
        ways = {"O3": _run(model, feeds, folder, "O3"), "optimize": _run(rewritten, feeds, folder, "O0")}
    names = [info.name for info in model.graph.output]
    problems = [
        f"{way}: {problem}"
        for way, results in ways.items()
        for problem in _differences(model, feeds, dict(zip(names, zip(results, plain, strict=True), strict=True)))
    ]
    return f"seed {seed}, {name}: {problems}" if problems else ""


def _run(model: Path | onnx.ModelProto, feeds: Mapping[str, Array], folder: str, level: str) -> list[Array]:
    package = Path(folder) / "m.om"
    atcpy.convert(model, package, oo_level=level)
    return [np.asarray(array) for array in atcpy.InferenceSession(package, threads=1).run(None, feeds)]


def _differences(
    model: onnx.ModelProto, feeds: Mapping[str, Array], pairs: Mapping[str, tuple[Array, Array]]
) -> list[str]:
    """Differences beyond rounding in the coarsest dtype of the model; large ones are decided by float64."""
    kinds = {str(array.dtype) for array in (*feeds.values(), *(pair[0] for pair in pairs.values()))}
    rounding = max([_ROUNDING[kind] for kind in kinds & _ROUNDING.keys()], default=0.0)
    problems = [
        (name, problem) for name, (ours, plain) in pairs.items() if (problem := _compare(ours, plain, rounding))
    ]
    exact = (evaluate_in_float64(model, feeds) or {}) if problems else {}
    nudged = (evaluate_in_float64(model, _nudged(feeds)) or {}) if problems else {}
    return [
        f"{name} {problem}"
        for name, problem in problems
        if not (name in exact and name in nudged)
        or not _is_as_accurate(*pairs[name], exact[name], nudged[name], rounding)
    ]


def _compare(ours: Array, plain: Array, rounding: float) -> str:
    if (ours.shape, ours.dtype) != (plain.shape, plain.dtype):
        return f"is {ours.dtype}{ours.shape}, not {plain.dtype}{plain.shape}"
    if str(ours.dtype) not in _ROUNDING:
        # A value between two quantization steps may round to either.
        is_byte = ours.dtype in (np.int8, np.uint8)
        wrong = np.abs(ours.astype(np.int32) - plain.astype(np.int32)) > 1 if is_byte else ours != plain
        return f"differs at {np.argwhere(wrong)[0]}" if wrong.any() else ""
    a, b = ours.astype(np.float64), plain.astype(np.float64)
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return f"is not {b[~finite][:3]}"
    error, scale = (float(np.abs(array[finite]).max(initial=0)) for array in (a - b, b))
    return "" if error <= rounding * scale else f"is off by {error:.3g} of {scale:.3g}"


def _nudged(feeds: Mapping[str, Array]) -> dict[str, Array]:
    """The feeds with each float moved by one ulp up or down."""
    rng = np.random.default_rng(0)
    return {
        name: np.nextafter(array, rng.choice([-np.inf, np.inf], array.shape).astype(array.dtype))
        if str(array.dtype) in ("float32", "float64")
        else array
        for name, array in feeds.items()
    }


def _is_as_accurate(ours: Array, plain: Array, exact: Array, nudged: Array, rounding: float) -> bool:
    """Whether the largest error is within rounding, or within eight times the error without passes or the effect of
    changing the inputs by one ulp. Elements whose exact result is not finite are ignored.
    """
    if ours.shape != exact.shape or ours.dtype != plain.dtype or str(ours.dtype) not in _ROUNDING:
        return False
    where = np.isfinite(exact) & (np.abs(exact) < 1e30)
    error, *others = (np.abs(array.astype(np.float64)[where] - exact[where]) for array in (ours, plain, nudged))
    scale = float(np.abs(exact[where]).max(initial=0))
    worst, allowed = (
        float(error.max(initial=0)),
        max(*(8 * float(other.max(initial=0)) for other in others), rounding * scale),
    )
    return worst <= allowed


def main() -> int:
    """Run many seeds; the exit code is 0 if all agree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    counts, start = {"equal": 0, "wrong": 0, "no model": 0}, time.monotonic()
    for seed in range(options.seed, options.seed + options.count):
        try:
            found = check(seed)
        except Exception as error:  # noqa: BLE001  any exception is reported with its model
            found = f"seed {seed}, {mutant(seed)[0]}: {type(error).__name__}: {error}"
        counts["no model" if found is None else "wrong" if found else "equal"] += 1
        if found:
            print(found, onnx.printer.to_text(mutant(seed)[1]), sep="\n", flush=True)
    print(", ".join(f"{count} {what}" for what, count in counts.items()), f"{time.monotonic() - start:.0f} s", sep=", ")
    return int(counts["wrong"] > 0)


if __name__ == "__main__":
    raise SystemExit(main())
