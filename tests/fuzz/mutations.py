"""The models of the golden files, changed at random, optimised and not: both must compute the same.

Golden models show where a pass fires and where it just does not. A change of one, such as another constant, axis,
operand or op, a further output, a node in between, a longer dim, makes the near misses that nobody wrote down.

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
# Its Equal asks for the last bit of halves, which another order of sums changes.
_LEFT_OUT = frozenset({"insert_cast"})
_KEPT = frozenset({"num_outputs"})  # onnx's shape inference aborts the process where it is too small
_ORDERED = frozenset({"Conv", "ConvTranspose"})  # it aborts at sizes below 0, too
_LONG_ROWS = 0.25  # of the models, as far as they can have them
_TRIES = 8  # to find something that can be changed
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
# Rounding of one type among many: what a result may be off, of its largest element.
_ROUNDING = {"float64": 1e-10, "float32": 2e-5, "float16": 8e-3, "bfloat16": 6e-2}


@dataclass(frozen=True, slots=True)
class _Type:
    """What a value is."""

    elem_type: int
    dims: tuple[int | str, ...] | None


class _Mutant:
    """A copy of a model, with the changes that can be made to it; each says whether it found something to change."""

    def __init__(self, source: onnx.ModelProto, chance: random.Random) -> None:
        self.model = onnx.ModelProto()
        self.model.CopyFrom(source)
        self._graph = self.model.graph
        self._chance = chance

    def change(self) -> None:
        """Makes one change."""
        for _ in range(_TRIES):
            if self._chance.choice(_CHANGES)(self):
                return

    def constant(self) -> bool:
        """Other numbers."""
        tensor = self._constant(lambda array: array.dtype.kind == "f")
        if tensor is None:
            return False
        array = numpy_helper.to_array(tensor)
        changed = self._chance.choice(_NUMBERS)(array)
        tensor.CopyFrom(numpy_helper.from_array(np.asarray(changed, array.dtype), tensor.name))
        return True

    def integer(self) -> bool:
        """One integer more or less: an axis, a size, a place."""
        tensor = self._constant(lambda array: array.dtype.kind == "i" and array.size > 0)
        if tensor is None:
            return False
        array = numpy_helper.to_array(tensor).copy()
        array.reshape(-1)[self._chance.randrange(array.size)] += self._chance.choice([1, -1, 2])
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
        return True

    def output(self) -> bool:
        """One more output of the model."""
        types = self._types()
        there = {info.name for info in self._graph.output}
        inner = [name for node in self._graph.node for name in node.output if name in types and name not in there]
        if not inner:
            return False
        name = self._chance.choice(inner)
        self._graph.output.append(helper.make_tensor_value_info(name, types[name].elem_type, types[name].dims))
        return True

    def operand(self) -> bool:
        """Another value of the same type for an operand."""
        graph, node = self._place()
        if graph is not self._graph:
            return self._inner_operand(graph, node)
        types = self._types()
        made = {name for other in list(self._graph.node)[: list(self._graph.node).index(node)] for name in other.output}
        made |= {info.name for info in self._graph.input} | {tensor.name for tensor in self._graph.initializer}
        places = [place for place, name in enumerate(node.input) if name in types]
        if not places:
            return False
        place = self._chance.choice(places)
        old = node.input[place]
        others = sorted(name for name in made if name != old and types.get(name) == types[old])
        if not others:
            return False
        node.input[place] = self._chance.choice(others)
        return True

    def _inner_operand(self, body: onnx.GraphProto, node: onnx.NodeProto) -> bool:
        """Another value of the body for an operand: nobody infers its types, so it may not fit."""
        nodes = list(body.node)
        made = [name for other in nodes[: nodes.index(node)] for name in other.output]
        made += [info.name for info in body.input]
        if not node.input or not made:
            return False
        node.input[self._chance.randrange(len(node.input))] = self._chance.choice(made)
        return True

    def order(self) -> bool:
        """The first two operands the other way round."""
        _, node = self._place()
        if len(node.input) < 2 or not all(node.input[:2]) or node.op_type in _ORDERED:
            return False
        node.input[0], node.input[1] = node.input[1], node.input[0]
        return True

    def op(self) -> bool:
        """An op that is like it."""
        _, node = self._place()
        family = next((family for family in _FAMILIES if node.op_type in family), None)
        if family is not None:
            node.op_type = self._chance.choice(family)
        return family is not None

    def attribute(self) -> bool:
        """Another number in an attribute."""
        _, node = self._place()
        attrs = [attr for attr in node.attribute if attr.type in _SET and attr.name not in _KEPT]
        if not attrs:
            return False
        attr = self._chance.choice(attrs)
        _SET[attr.type](attr, self._chance)
        return True

    def between(self) -> bool:
        """A node more before an operand."""
        types, node = self._types(), self._node()
        floats = [place for place, name in enumerate(node.input) if name in types and types[name].elem_type == 1]
        if not floats:
            return False
        place = self._chance.choice(floats)
        name = f"between{len(self._graph.node)}"
        op_type = self._chance.choice(["Identity", "Neg", "Abs", "Relu", "Sigmoid"])
        new = helper.make_node(op_type, [node.input[place]], [name])
        node.input[place] = name
        nodes = list(self._graph.node)
        nodes.insert(nodes.index(node), new)
        del self._graph.node[:]
        self._graph.node.extend(nodes)
        return True

    def fed(self) -> bool:
        """An input instead of a constant."""
        tensor = self._constant(lambda array: array.dtype.kind == "f")
        if tensor is None:
            return False
        self._graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
        rest = [other for other in self._graph.initializer if other.name != tensor.name]
        del self._graph.initializer[:]
        self._graph.initializer.extend(rest)
        return True

    def _node(self) -> onnx.NodeProto:
        return self._graph.node[self._chance.randrange(len(self._graph.node))]

    def _place(self) -> tuple[onnx.GraphProto, onnx.NodeProto]:
        """A node of the graph or of a body in it, and which of them it is in."""
        places = [(graph, node) for graph in (self._graph, *_bodies(self._graph)) for node in graph.node]
        return places[self._chance.randrange(len(places))]

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
    """The bodies of its nodes, and those in them."""
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
    _Mutant.order,
    _Mutant.op,
    _Mutant.attribute,
    _Mutant.between,
    _Mutant.fed,
)


@cache
def _sources() -> Sequence[tuple[str, onnx.ModelProto]]:
    """The models of all golden files that convert as they are."""
    files = [path for path in sorted(GOLDEN.glob("*.golden")) if path.stem not in _LEFT_OUT]
    goldens = [(path.stem, read_golden(path)) for path in files]
    return [(name, parse_text(golden.model_text)) for name, golden in goldens if "error" not in golden.expected]


def mutant(seed: int) -> tuple[str, onnx.ModelProto]:
    """The changed model of a seed, and the golden file that it comes from."""
    chance = random.Random(seed)
    name, source = chance.choice(_sources())
    longer = with_long_rows(source, chance) if chance.random() < _LONG_ROWS else None
    made = _Mutant(longer or source, chance)
    for _ in range(chance.choice([1, 1, 2, 3])):
        made.change()
    del made.model.graph.value_info[:]  # what it said of values may not hold any more
    return name, made.model


def feeds_of(model: onnx.ModelProto, seed: int) -> dict[str, Array]:
    """Random inputs; open dims are 3."""
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
    """Nothing if all ways agree, else what is wrong; None if the changed model is none."""
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
    """What is beyond rounding, by the most coarse type in the model; where that is much, float64 decides."""
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
        # What lies between two steps of a quantisation may become either.
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
    """Inputs whose floats are each the next one up or down."""
    rng = np.random.default_rng(0)
    return {
        name: np.nextafter(array, rng.choice([-np.inf, np.inf], array.shape).astype(array.dtype))
        if str(array.dtype) in ("float32", "float64")
        else array
        for name, array in feeds.items()
    }


def _is_as_accurate(ours: Array, plain: Array, exact: Array, nudged: Array, rounding: float) -> bool:
    """No further from what is exact, where that is a number, than rounding, or eight times as far as without passes
    or as the last bits of the inputs take it.
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
    """Runs many seeds; the exit code says whether all agreed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    counts, start = {"equal": 0, "wrong": 0, "no model": 0}, time.monotonic()
    for seed in range(options.seed, options.seed + options.count):
        try:
            found = check(seed)
        except Exception as error:  # noqa: BLE001  whatever it is, its model is wanted
            found = f"seed {seed}, {mutant(seed)[0]}: {type(error).__name__}: {error}"
        counts["no model" if found is None else "wrong" if found else "equal"] += 1
        if found:
            print(found, onnx.printer.to_text(mutant(seed)[1]), sep="\n", flush=True)
    print(", ".join(f"{count} {what}" for what, count in counts.items()), f"{time.monotonic() - start:.0f} s", sep=", ")
    return int(counts["wrong"] > 0)


if __name__ == "__main__":
    raise SystemExit(main())
