"""Operators: what a graph is built of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from onnx import AttributeProto

from atcpy.errors import ModelInvalid, Where, did_you_mean
from atcpy.ge.attribute import attribute_type, read_attribute, write_attribute
from atcpy.ge.prototype import Parameter, Prototype

if TYPE_CHECKING:
    from atcpy.ge.graph import Graph

_MAX_VALUES = 1 << 16  # of one dynamic input or output
_GRAPH = AttributeProto.GRAPH


class UnknownMember(ModelInvalid, AttributeError):
    """The op has no input or attribute of that name; for Python's own protocols it is an AttributeError."""


@dataclass(frozen=True, slots=True)
class Output:
    """One output of an operator."""

    source: Operator
    index: int


class Operator:
    """A node of a graph. The class of an op has methods for each input and attribute:

        set_input_NAME      or create_dynamic_input_NAME and set_dynamic_input_NAME, for one that has several values
        set_attr_NAME       or set_subgraph_builder_NAME, for one that is a graph
        get_attr_NAME       what is set, or the default

    All but the last return the operator.

    Raises ModelInvalid (E13014) for what the op does not have, or values that do not fit.
    """

    prototype: ClassVar[Prototype]

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise ModelInvalid("E13014", "an operator needs a name", where=Where(op=self.GetOpType()))
        self._name = name
        self._inputs: dict[str, list[Output | None]] = {
            parameter.name: [] if parameter.is_dynamic else [None] for parameter in self.prototype.inputs
        }
        self._dynamic_outputs = 1
        self._attrs: dict[str, AttributeProto] = {}
        self._subgraphs: dict[str, Callable[[], Graph]] = {}

    def GetName(self) -> str:
        """The name."""
        return self._name

    @classmethod
    def GetOpType(cls) -> str:
        """The op, by ONNX's name."""
        return cls.prototype.op_type

    @property
    def where(self) -> Where:
        """What errors name."""
        return Where(node=self._name, op=self.GetOpType())

    # --- inputs and outputs -------------------------------------------------------------------

    def SetInput(self, name: str, source: Operator, output: int | str = 0) -> Self:
        """Read an output of another operator, by index or name, as the input of that name."""
        return self._connect(self._input(name, dynamic=False), 0, source, output)

    def CreateDynamicInput(self, name: str, number: int) -> Self:
        """Let an input stand for that many values."""
        parameter = self._input(name, dynamic=True)
        self._inputs[parameter.name] = [None] * self._checked_count(number)
        return self

    def SetDynamicInput(self, name: str, index: int, source: Operator, output: int | str = 0) -> Self:
        """Read an output of another operator as one of the values for which an input stands."""
        return self._connect(self._input(name, dynamic=True), index, source, output)

    def CreateDynamicOutput(self, name: str, number: int) -> Self:
        """Let an output stand for that many values."""
        if self.prototype.output_index(name) is None or not self.prototype.outputs[-1].is_dynamic:
            raise self._invalid(f'no output "{name}" stands for several values')
        self._dynamic_outputs = self._checked_count(number)
        return self

    def output(self, output: int | str = 0) -> Output:
        """One of the outputs, by index or name."""
        index = self.prototype.output_index(output) if isinstance(output, str) else output
        if index is None or not 0 <= index < self.output_count:
            names = ", ".join(parameter.name for parameter in self.prototype.outputs)
            raise self._invalid(f'there is no output "{output}"', f"it has {self.output_count}: {names}")
        return Output(self, index)

    @property
    def output_count(self) -> int:
        """How many outputs there are, with those that may be left out."""
        return sum(self._dynamic_outputs if each.is_dynamic else 1 for each in self.prototype.outputs)

    @property
    def required_output_count(self) -> int:
        """How many outputs may not be left out; they come first."""
        return self.output_count - sum(each.is_optional and not each.is_dynamic for each in self.prototype.outputs)

    def inputs(self) -> Iterator[Output | None]:
        """The inputs in the order of the op; None is not connected."""
        for parameter in self.prototype.inputs:
            yield from self._inputs[parameter.name]

    def _input(self, name: str, *, dynamic: bool) -> Parameter:
        parameter = self.prototype.find_input(name)
        if parameter is None:
            raise self._unknown("input", name, [known.name for known in self.prototype.inputs])
        if parameter.is_dynamic is not dynamic:
            hint = f"set_input_{name}" if dynamic else f"create_dynamic_input_{name} and set_dynamic_input_{name}"
            raise self._invalid(f'input "{name}" is {"one value" if dynamic else "several values"}', hint)
        return parameter

    def _connect(self, parameter: Parameter, index: int, source: Operator, output: int | str) -> Self:
        if not isinstance(source, Operator):
            raise self._invalid(f'input "{parameter.name}" is an operator, not {type(source).__name__}')
        slots = self._inputs[parameter.name]
        if not 0 <= index < len(slots):
            hint = f"create_dynamic_input_{parameter.name}({index + 1})"
            raise self._invalid(f'input "{parameter.name}" has {len(slots)} values, none of index {index}', hint)
        slots[index] = source.output(output)
        return self

    def _checked_count(self, number: int) -> int:
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= _MAX_VALUES:
            raise self._invalid(f"{number!r} is no number of values", f"0 to {_MAX_VALUES}")
        return number

    # --- attributes ---------------------------------------------------------------------------

    def SetAttr(self, name: str, value: object) -> Self:
        """Set an attribute; that of an element type may be one of the DT_ constants."""
        own = self._attr(name)
        kind = self.prototype.attrs[own]
        if kind == _GRAPH:
            raise self._invalid(f'attribute "{name}" is a graph', f"set_subgraph_builder_{name}")
        try:
            self._attrs[own] = write_attribute(own, kind, value)
        except (TypeError, ValueError, OverflowError) as error:
            raise self._invalid(f'attribute "{name}" is of type {attribute_type(kind)}, not {value!r}') from error
        return self

    def GetAttr(self, name: str) -> Any:
        """The value of an attribute, or its default; None if it has none."""
        own = self._attr(name)
        proto = self._attrs.get(own, self.prototype.defaults.get(own))
        return None if proto is None else read_attribute(proto)

    def SetSubgraphBuilder(self, name: str, builder: Callable[[], Graph]) -> Self:
        """Set the function that returns the graph of an attribute."""
        own = self._attr(name)
        if self.prototype.attrs[own] != _GRAPH or not callable(builder):
            raise self._invalid(f'attribute "{name}" is no graph, or {builder!r} no function that returns one')
        self._subgraphs[own] = builder
        return self

    @property
    def attrs(self) -> Iterable[AttributeProto]:
        """The attributes that are set, but for graphs."""
        return self._attrs.values()

    @property
    def subgraphs(self) -> Mapping[str, Callable[[], Graph]]:
        """The builders of graphs, by attribute."""
        return self._subgraphs

    def _attr(self, name: str) -> str:
        own = self.prototype.aliases.get(name, name)
        if own not in self.prototype.attrs:
            raise self._unknown("attribute", name, self.prototype.attrs)
        return own

    # --- errors -------------------------------------------------------------------------------

    def problems(self) -> Iterator[ModelInvalid]:
        """Yield an error for each input and attribute that the op requires and that is not set."""
        for parameter in self.prototype.inputs:
            links = self._inputs[parameter.name]
            if None in links and (parameter.is_dynamic or not parameter.is_optional):
                which = f"value {links.index(None)} of input" if parameter.is_dynamic else "input"
                yield self._unconnected(f'{which} "{parameter.name}" is not connected', parameter)
            elif not links and not parameter.is_optional:
                yield self._unconnected(f'input "{parameter.name}" has no values', parameter)
        for name in self.prototype.required_attrs:
            if name not in self._attrs and name not in self._subgraphs:
                yield self._invalid(f'attribute "{name}" is required', f"set_attr_{name}")

    def _unconnected(self, what: str, parameter: Parameter) -> ModelInvalid:
        verb = "create_dynamic_input" if parameter.is_dynamic else "set_input"
        return ModelInvalid("E12009", what, where=self.where, hint=f"{verb}_{parameter.name}")

    def _invalid(self, what: str, hint: str = "") -> ModelInvalid:
        return ModelInvalid("E13014", what, where=self.where, hint=hint)

    def _unknown(self, kind: str, name: str, known: Iterable[str]) -> UnknownMember:
        hint = did_you_mean(name, known) or f"it has {', '.join(known) or 'none'}"
        return UnknownMember("E13014", f'{self.GetOpType()} has no {kind} "{name}"', where=self.where, hint=hint)

    def __getattr__(self, name: str) -> Any:
        """Called for names that the class does not have."""
        methods = [known for known in dir(type(self)) if not known.startswith("_")]
        what, where = f'{self.GetOpType()} has no method "{name}"', Where(op=self.GetOpType())
        raise UnknownMember("E13014", what, where=where, hint=did_you_mean(name, methods))

    def __repr__(self) -> str:
        return f'{self.GetOpType()}("{self._name}")'
