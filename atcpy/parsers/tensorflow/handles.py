"""Replace resource handles of variables by the values of the variables, in functions, too."""

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

NO_LONGER_TRUE: Final = ("_class", "_output_shapes")  # attributes about devices, and about the shapes of handles
# Ops that pass a handle on: the names of the outputs that are their first input.
_PASSES_ON: Final[Mapping[str, tuple[str, ...]]] = {
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

RefFormat = Callable[[str, str, int], str]  # node, name of the output, its index → the text of an input


def as_type(number: object) -> DataType:
    """Return an element type by its number, which is all that it is at run time."""
    return cast("DataType", number)


def main_text(node: str, _output: str, index: int) -> str:
    """Return the text of an input that is this output, in the main graph."""
    return f"{node}:{index}" if index else node


def body_text(node: str, output: str, index: int) -> str:
    """Return the text of an input that is this output, in a function."""
    return f"{node}:{output}:{index}"


def _plain(text: str) -> str:
    """An input of the main graph may say `x:0` for `x`."""
    return text.removesuffix(":0") if text.count(":") == 1 else text


def find_handles(nodes: Sequence[NodeDef], text: RefFormat, arguments: Mapping[str, int]) -> dict[str, int]:
    """Return the handles of variables in a graph by their texts as inputs, with the element types of the variables.
    `arguments` are those of the function.
    """
    handles = dict(arguments)
    readers: dict[str, list[tuple[NodeDef, int]]] = {}
    for node in nodes:
        for index, name in enumerate(node.input):
            readers.setdefault(_plain(name), []).append((node, index))
        if node.op == "VarHandleOp":
            handles[text(node.name, "resource", 0)] = node.attr["dtype"].type
    waiting = list(handles)
    while waiting:
        name = waiting.pop()
        for node, index in readers.get(name, ()):
            for output in _passed_on(node, index, text):
                if output not in handles:
                    handles[output] = handles[name]
                    waiting.append(output)
    return handles


def _passed_on(node: NodeDef, input_index: int, text: RefFormat) -> Iterator[str]:
    """The outputs that are this input of a node."""
    outputs = _PASSES_ON.get(node.op)
    if outputs is not None:
        for index, output in enumerate(outputs):
            yield text(node.name, output, index if text is main_text else 0)
    elif node.op in LOOPS or node.op == "IdentityN":
        yield text(node.name, "output", input_index)


class Rewriter:
    """Rewrites the nodes of one graph that read handles into nodes that read the values."""

    def __init__(
        self,
        nodes: Sequence[NodeDef],
        arguments: Mapping[str, int],
        text: RefFormat,
        functions: Functions,
        problems: list[AtcError],
    ) -> None:
        self.handles = find_handles(nodes, text, arguments)
        self.renamed: dict[str, str] = {}  # outputs: function bodies name them
        self._text = text
        self._functions = functions
        self._problems = problems

    def rewrite(self, node: NodeDef) -> Iterator[NodeDef]:
        """Yield the nodes that replace a node."""
        dtypes = [self.handles.get(_plain(name)) for name in node.input]
        if (run := _RUNS.get(_STATE.sub("", node.op))) is not None:
            self._run(node, *run, dtypes)
        elif node.op in self._functions:
            node.op = self._functions.with_values(node.op, [(i, t) for i, t in enumerate(dtypes) if t])
        elif node.op == "DisableCopyOnRead":
            node.op = "NoOp"
            del node.input[:]
            node.attr.clear()
        elif any(dtypes):
            yield from self._read_value(node, next(filter(None, dtypes)))
        self._functions.need(node)
        yield node

    def _run(self, node: NodeDef, types: str, first: int, names: Sequence[str], dtypes: Sequence[int | None]) -> None:
        arguments = [(index - first, number) for index, number in enumerate(dtypes) if number]
        for index, number in arguments:
            if index < len(node.attr[types].list.type):
                node.attr[types].list.type[index] = as_type(number)
        for name in names:
            attr = node.attr[name]
            for function in attr.list.func if name == "branches" else (attr.func,):
                function.name = self._functions.with_values(function.name, arguments)

    def _read_value(self, node: NodeDef, number: int) -> Iterator[NodeDef]:
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
                    if number_of_input := self.handles.get(_plain(name)):
                        attr["T"].list.type[index] = as_type(number_of_input)
            case op if op in _PASSES_ON:
                attr["T"].CopyFrom(dtype)
            case _:
                what = f'the model writes the variable "{node.input[0]}"'
                if not _WRITES.match(node.op):
                    what = f'"{node.input[0]}" is a variable here, for which a frozen graph can have no value'
                where = Where(node=node.name, op=node.op)
                self._problems.append(Unsupported("E10055", what, where=where, hint="take other outputs: --out_nodes"))

    def _axis(self, node: NodeDef) -> NodeDef:
        """Create the axis input of a GatherV2 that was a ResourceGather: the constant 0."""
        axis = NodeDef(name=f"{node.name}/axis", op="Const")
        axis.attr["dtype"].type = DataType.DT_INT32
        axis.attr["value"].tensor.CopyFrom(TensorProto(dtype=DataType.DT_INT32, int_val=[0]))
        axis.attr["value"].tensor.tensor_shape.SetInParent()
        at = next((i for i, name in enumerate(node.input) if name.startswith("^")), len(node.input))
        node.input.insert(at, self._text(axis.name, "output", 0))
        return axis


class Functions:
    """The functions that the frozen graph needs, unchanged or with values instead of handles."""

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
        """Return the library of the frozen graph. Functions are rewritten here: one may require variants of others."""
        while self._waiting:
            variant = self._waiting.pop()
            self._needed[self._names[variant]].CopyFrom(self._rewritten(variant))
        return FunctionDefLibrary(function=self._needed.values())

    def need(self, node: NodeDef) -> None:
        """Add the functions that a node names, and those that they name."""
        waiting = [*self._named(node)]
        while waiting:
            name = waiting.pop()
            if name not in self._needed:
                function = self._library.find(name, Where(node=node.name, op=node.op))
                self._needed[name] = function
                waiting.extend(inner for item in function.node_def for inner in self._named(item))

    def _named(self, node: NodeDef) -> Iterator[str]:
        names = [node.op] if node.op in self._library else []
        for value in node.attr.values():
            names += [function.name for function in (*value.list.func, value.func) if function.name]
        return (name for name in names if name not in self._needed)

    def with_values(self, name: str, arguments: Iterable[tuple[int, int]]) -> str:
        """Return the name of the variant of a function that has values of these types as arguments, not handles."""
        variant = name, tuple(arguments)
        if not variant[1]:
            return name
        if variant not in self._names:
            self._library.find(name, Where())
            self._names[variant] = fresh = self._fresh(f"{name}_frozen")
            self._needed[fresh] = FunctionDef()  # until `library` writes it
            self._waiting.append(variant)
        return self._names[variant]

    def _fresh(self, stem: str) -> str:
        while True:
            self._numbers[stem] += 1
            number = self._numbers[stem]
            name = stem if number == 1 else f"{stem}_{number}"
            if name not in self._needed and name not in self._library:
                return name

    def _rewritten(self, variant: _Variant) -> FunctionDef:
        name, arguments = variant
        function = self._library.find(name, Where())
        rewritten = FunctionDef()
        rewritten.CopyFrom(function)
        rewritten.signature.name = self._names[variant]
        del rewritten.node_def[:]
        handles: dict[str, int] = {}
        for index, number in arguments:
            if index < len(rewritten.signature.input_arg):
                argument = rewritten.signature.input_arg[index]
                argument.type = as_type(number)
                handles[argument.name] = number
        bodies = [NodeDef.FromString(node.SerializeToString()) for node in function.node_def]
        rewriter = Rewriter(bodies, handles, body_text, self, self._problems)
        for node in bodies:
            for name in NO_LONGER_TRUE:
                node.attr.pop(name, None)
            node.device = ""
            rewritten.node_def.extend(rewriter.rewrite(node))
        for node in rewritten.node_def:
            for index, text in enumerate(node.input):
                if text in rewriter.renamed:
                    node.input[index] = rewriter.renamed[text]
        for result, text in rewritten.ret.items():
            rewritten.ret[result] = rewriter.renamed.get(text, text)
        for output in rewritten.signature.output_arg:
            number = rewriter.handles.get(rewritten.ret[output.name], 0)
            if number:
                output.type = as_type(number)
        return rewritten


_Variant = tuple[str, tuple[tuple[int, int], ...]]  # a function, and the arguments that are values, with their types
