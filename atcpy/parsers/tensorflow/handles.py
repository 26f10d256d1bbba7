"""What becomes of the handles of variables in a frozen graph: the values themselves, in functions, too."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, cast

from atcpy.errors import AtcError, Unsupported, Where
from atcpy.parsers.tensorflow.functions import Library
from atcpy.parsers.tensorflow.graph import LOOPS
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import (
    AttrValue,
    DataType,
    FunctionDef,
    FunctionDefLibrary,
    NodeDef,
    TensorProto,
)

NO_LONGER_TRUE: Final = ("_class", "_output_shapes")  # attributes that speak of devices, and of the shapes of handles
# What gives a handle on: by the op, the names of the outputs that are its first input.
_GIVES_ON: Final[Mapping[str, tuple[str, ...]]] = {
    "Identity": ("output",),
    "Switch": ("output_false", "output_true"),
    "Merge": ("output",),
    "Enter": ("output",),
    "Exit": ("output",),
    "NextIteration": ("output",),
}
# Ops that run functions, without State(less|ful) before their names: the attribute with the types of the arguments, the
# input that is the first argument, and the attributes that name the functions.
_RUNS: Final[Mapping[str, tuple[str, int, tuple[str, ...]]]] = {
    "While": ("T", 0, ("cond", "body")),
    "If": ("Tin", 1, ("then_branch", "else_branch")),
    "Case": ("Tin", 1, ("branches",)),
    "PartitionedCall": ("Tin", 0, ("f",)),
}
_STATE: Final = re.compile("^State(less|ful)")
_WRITES: Final = re.compile("Assign|Resource(Sparse)?(Apply|Scatter)|Scatter")

TextOf = Callable[[str, str, int], str]  # node, name of the output, its index → how an input says it


def as_type(number: object) -> DataType:
    """An element type by its number, which is all that it is at run time."""
    return cast("DataType", number)


def main_text(node: str, _output: str, index: int) -> str:
    """How an input in the main graph says an output."""
    return f"{node}:{index}" if index else node


def body_text(node: str, output: str, index: int) -> str:
    """How an input in a function says it."""
    return f"{node}:{output}:{index}"


def _plain(text: str) -> str:
    """An input of the main graph may say `x:0` for `x`."""
    return text.removesuffix(":0") if text.count(":") == 1 else text


def find_handles(nodes: Sequence[NodeDef], text: TextOf, given: Mapping[str, int]) -> dict[str, int]:
    """The handles of variables in a graph, by how inputs say them, with the element types; `given` are arguments."""
    handles = dict(given)
    readers: dict[str, list[tuple[NodeDef, int]]] = {}
    for node in nodes:
        for place, name in enumerate(node.input):
            readers.setdefault(_plain(name), []).append((node, place))
        if node.op == "VarHandleOp":
            handles[text(node.name, "resource", 0)] = node.attr["dtype"].type
    waiting = list(handles)
    while waiting:
        name = waiting.pop()
        for node, place in readers.get(name, ()):
            for output in _given_on(node, place, text):
                if output not in handles:
                    handles[output] = handles[name]
                    waiting.append(output)
    return handles


def _given_on(node: NodeDef, place: int, text: TextOf) -> Iterator[str]:
    """How inputs say the outputs that are what a node reads at a place."""
    outputs = _GIVES_ON.get(node.op)
    if outputs is not None:
        for index, output in enumerate(outputs):
            yield text(node.name, output, index if text is main_text else 0)
    elif node.op in LOOPS or node.op == "IdentityN":
        yield text(node.name, "output", place)


class Rewriter:
    """Changes the nodes of one graph that see handles into such that see the values."""

    def __init__(
        self,
        nodes: Sequence[NodeDef],
        given: Mapping[str, int],
        text: TextOf,
        functions: Functions,
        problems: list[AtcError],
    ) -> None:
        self.handles = find_handles(nodes, text, given)
        self.renamed: dict[str, str] = {}  # outputs, which bodies call by their names
        self._text = text
        self._functions = functions
        self._problems = problems

    def rewrite(self, node: NodeDef) -> Iterator[NodeDef]:
        """What stands in the place of a node."""
        held = [self.handles.get(_plain(name)) for name in node.input]
        if (run := _RUNS.get(_STATE.sub("", node.op))) is not None:
            self._run(node, *run, held)
        elif node.op in self._functions:
            node.op = self._functions.with_values(node.op, [(i, t) for i, t in enumerate(held) if t])
        elif node.op == "DisableCopyOnRead":
            node.op = "NoOp"
            del node.input[:]
            node.attr.clear()
        elif any(held):
            yield from self._see_value(node, next(filter(None, held)))
        self._functions.need(node)
        yield node

    def _run(self, node: NodeDef, types: str, first: int, names: Sequence[str], held: Sequence[int | None]) -> None:
        given = [(index - first, number) for index, number in enumerate(held) if number]
        for index, number in given:
            if index < len(node.attr[types].list.type):
                node.attr[types].list.type[index] = as_type(number)
        for name in names:
            attr = node.attr[name]
            for function in attr.list.func if name == "branches" else (attr.func,):
                function.name = self._functions.with_values(function.name, given)

    def _see_value(self, node: NodeDef, number: int) -> Iterator[NodeDef]:
        attr = node.attr
        dtype = AttrValue(type=as_type(number))
        match node.op:
            case "ReadVariableOp":
                node.op = "Identity"
                self.renamed[self._text(node.name, "value", 0)] = self._text(node.name, "output", 0)
                attr.pop("dtype", None)
                attr["T"].CopyFrom(dtype)
            case "ResourceGather" | "ResourceGatherNd":
                attr.pop("dtype", None)
                attr.pop("validate_indices", None)
                attr["Tparams"].CopyFrom(dtype)
                if node.op == "ResourceGatherNd":
                    node.op = "GatherNd"
                else:
                    node.op = "GatherV2"
                    attr["Taxis"].type = DataType.DT_INT32
                    yield self._axis(node)
            case "VariableShape":
                node.op = "Shape"
                attr["T"].CopyFrom(dtype)
            case "VarIsInitializedOp":
                node.op = "Const"
                self.renamed[self._text(node.name, "is_initialized", 0)] = self._text(node.name, "output", 0)
                del node.input[:]
                attr.clear()
                attr["dtype"].type = DataType.DT_BOOL
                attr["value"].tensor.CopyFrom(TensorProto(dtype=DataType.DT_BOOL, bool_val=[True]))
                attr["value"].tensor.tensor_shape.SetInParent()
            case "IdentityN":
                for index, name in enumerate(node.input):
                    if held := self.handles.get(_plain(name)):
                        attr["T"].list.type[index] = as_type(held)
            case op if op in _GIVES_ON:
                attr["T"].CopyFrom(dtype)
            case _:
                what = f'the model writes the variable "{node.input[0]}"'
                if not _WRITES.match(node.op):
                    what = f'"{node.input[0]}" is a variable here, for which a frozen graph can have no value'
                where = Where(node=node.name, op=node.op)
                self._problems.append(Unsupported("E10055", what, where=where, hint="take other outputs: --out_nodes"))

    def _axis(self, node: NodeDef) -> NodeDef:
        """The constant 0 that says where ResourceGather gathers."""
        made = NodeDef(name=f"{node.name}/axis", op="Const")
        made.attr["dtype"].type = DataType.DT_INT32
        made.attr["value"].tensor.CopyFrom(TensorProto(dtype=DataType.DT_INT32, int_val=[0]))
        made.attr["value"].tensor.tensor_shape.SetInParent()
        at = next((i for i, name in enumerate(node.input) if name.startswith("^")), len(node.input))
        node.input.insert(at, self._text(made.name, "output", 0))
        return made


class Functions:
    """The functions that the frozen graph needs, as they are or with values in the place of handles."""

    def __init__(self, library: Library, problems: list[AtcError]) -> None:
        self._library = library
        self._problems = problems
        self._names: dict[_Variant, str] = {}
        self._waiting: list[_Variant] = []
        self._needed: dict[str, FunctionDef] = {}
        self._numbers: Counter[str] = Counter()

    def __contains__(self, name: str) -> bool:
        return name in self._library

    def library(self) -> FunctionDefLibrary:
        """The library of the frozen graph. Functions are changed here: one may need others to be."""
        while self._waiting:
            variant = self._waiting.pop()
            self._needed[self._names[variant]].CopyFrom(self._rewritten(variant))
        return FunctionDefLibrary(function=self._needed.values())

    def need(self, node: NodeDef) -> None:
        """Takes the functions that a node names, and those that they name."""
        waiting = [*self._named(node)]
        while waiting:
            name = waiting.pop()
            if name not in self._needed:
                function = self._library.find(name, Where(node=node.name, op=node.op))
                self._needed[name] = function
                waiting.extend(inner for made in function.node_def for inner in self._named(made))

    def _named(self, node: NodeDef) -> Iterator[str]:
        names = [node.op] if node.op in self._library else []
        for value in node.attr.values():
            names += [function.name for function in (*value.list.func, value.func) if function.name]
        return (name for name in names if name not in self._needed)

    def with_values(self, name: str, given: Iterable[tuple[int, int]]) -> str:
        """The name of the function that takes values of these types where `name` takes handles."""
        variant = name, tuple(given)
        if not variant[1]:
            return name
        if variant not in self._names:
            self._library.find(name, Where())
            self._names[variant] = fresh = self._fresh(f"{name}_frozen")
            self._needed[fresh] = FunctionDef()  # until `library` makes it
            self._waiting.append(variant)
        return self._names[variant]

    def _fresh(self, wanted: str) -> str:
        while True:
            self._numbers[wanted] += 1
            number = self._numbers[wanted]
            name = wanted if number == 1 else f"{wanted}_{number}"
            if name not in self._needed and name not in self._library:
                return name

    def _rewritten(self, variant: _Variant) -> FunctionDef:
        name, given = variant
        function = self._library.find(name, Where())
        made = FunctionDef()
        made.CopyFrom(function)
        made.signature.name = self._names[variant]
        del made.node_def[:]
        handles: dict[str, int] = {}
        for index, number in given:
            if index < len(made.signature.input_arg):
                argument = made.signature.input_arg[index]
                argument.type = as_type(number)
                handles[argument.name] = number
        bodies = [NodeDef.FromString(node.SerializeToString()) for node in function.node_def]
        rewriter = Rewriter(bodies, handles, body_text, self, self._problems)
        for node in bodies:
            for name in NO_LONGER_TRUE:
                node.attr.pop(name, None)
            node.device = ""
            made.node_def.extend(rewriter.rewrite(node))
        for node in made.node_def:
            for index, text in enumerate(node.input):
                if text in rewriter.renamed:
                    node.input[index] = rewriter.renamed[text]
        for result, text in made.ret.items():
            made.ret[result] = rewriter.renamed.get(text, text)
        for output in made.signature.output_arg:
            number = rewriter.handles.get(made.ret[output.name], 0)
            if number:
                output.type = as_type(number)
        return made


_Variant = tuple[str, tuple[tuple[int, int], ...]]  # a function, and the arguments that are values, with their types
