"""Graphs: of operators, or read from a model's file."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

import onnx

from atcpy.errors import UsageError
from atcpy.ge.constructors import Data
from atcpy.ge.operator import Operator, Output
from atcpy.ge.types import FORMAT_ND
from atcpy.parsers.onnx import read_model

# An operator with all of its outputs that may not be left out, or with some: by index, by name, or a list of these.
GraphOutput: TypeAlias = Operator | tuple[Operator, int | str | Sequence[int | str]]


class Graph:
    """A graph of operators: those from which its outputs can be reached."""

    def __init__(self, name: str = "main") -> None:
        self._name = name
        self._inputs: tuple[Data, ...] = ()
        self._outputs: tuple[Output, ...] = ()
        self._source: Path | onnx.ModelProto | None = None

    def GetName(self) -> str:
        """The name."""
        return self._name

    def SetInputs(self, inputs: Iterable[Operator]) -> Graph:
        """Set the inputs, operators of type Data."""
        listed = tuple(inputs)
        for item in listed:
            if not isinstance(item, Data):
                raise UsageError("E10017", f"SetInputs: {item!r} is not of type Data")
        self._inputs = tuple(item for item in listed if isinstance(item, Data))
        return self

    def SetOutputs(self, outputs: Iterable[GraphOutput]) -> Graph:
        """Set the outputs: `[softmax, (topk, "indices"), (split, [0, 2])]`."""
        self._outputs = tuple(output for item in outputs for output in _outputs_of(item))
        return self

    @property
    def inputs(self) -> tuple[Data, ...]:
        """The inputs as they are listed."""
        return self._inputs

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The outputs."""
        return self._outputs

    @property
    def source(self) -> Path | onnx.ModelProto | None:
        """The model from which the graph was read; None if it is of operators."""
        return self._source

    @property
    def input_format(self) -> str | None:
        """What the inputs are called in the package: the first format that is not ND; None if they do not say."""
        formats = [data.desc.format for data in self._inputs if data.desc is not None]
        named = [form for form in formats if form is not FORMAT_ND]
        return (named or formats)[0].name if formats else None


def aclgrphParseONNX(model: str | os.PathLike[str] | onnx.ModelProto) -> Graph:
    """Read a model of ONNX: a file, which is read again when the graph is compiled, or a message. Raises AtcError for
    what is none.
    """
    source = copy.deepcopy(model) if isinstance(model, onnx.ModelProto) else Path(model)
    graph = Graph(read_model(source).model.graph.name or "main")
    graph._source = source
    return graph


def _outputs_of(item: GraphOutput) -> Iterable[Output]:
    match item:
        case Operator():
            return [item.output(index) for index in range(item.required_output_count)]
        case (Operator() as source, int() | str() as output):
            return [source.output(output)]
        case (Operator() as source, [*several]):
            return [source.output(output) for output in several]
    raise UsageError("E10003", f"SetOutputs: {item!r} is no operator", hint="an operator, or (operator, output)")
