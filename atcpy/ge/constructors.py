"""The class of each op, made from its prototype when it is first asked for; and those of Data and Const."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, partialmethod
from typing import Self

from onnx import AttributeProto, helper

from atcpy.errors import Unsupported, Where, did_you_mean
from atcpy.ge.attribute import attribute_type, read_attribute
from atcpy.ge.operator import Operator
from atcpy.ge.prototype import Parameter, Prototype, operator_types, prototype_of
from atcpy.ge.types import TensorDesc


class UnknownOperator(Unsupported, AttributeError):
    """There is no op of that name; for Python's own protocols it is an AttributeError."""


_Y = (Parameter("y"),)


class Data(Operator):
    """An input of the graph. `index` is its position in the lists of inputs, that in SetInputs unless it is set."""

    prototype = Prototype(
        "Data", "", (), _Y, {"index": AttributeProto.INT}, (), {"index": helper.make_attribute("index", 0)}, {}
    )
    desc: TensorDesc | None = None

    def set_attr_index(self, index: int) -> Self:
        """Set the position."""
        return self.SetAttr("index", index)

    def update_output_desc_y(self, desc: TensorDesc) -> Self:
        """Set the type of the input."""
        if not isinstance(desc, TensorDesc):
            raise self._invalid(f"a desc is a TensorDesc, not {desc!r}")
        self.desc = desc
        return self

    update_input_desc_x = update_output_desc_y


class Const(Operator):
    """A constant."""

    prototype = Prototype("Const", "", (), _Y, {"value": AttributeProto.TENSOR}, ("value",), {}, {})

    def set_attr_value(self, value: object) -> Self:
        """Set the elements: an array, or what numpy makes one of."""
        return self.SetAttr("value", value)


_NOT_IN_ONNX: dict[str, type[Operator]] = {"Const": Const, "Data": Data}


@cache
def operator_names() -> tuple[str, ...]:
    """The names of all constructors."""
    return tuple(sorted({*operator_types(), *_NOT_IN_ONNX}))


def operator_class(name: str) -> type[Operator]:
    """The class of the op of that name. Raises UnknownOperator."""
    if name in _NOT_IN_ONNX:
        return _NOT_IN_ONNX[name]
    key = operator_types().get(name)
    if key is None:
        hint = did_you_mean(name, operator_names())
        raise UnknownOperator("E19010", f'"{name}" is not a known operator', where=Where(op=name), hint=hint)
    return _class_of(*key)


@cache
def _class_of(domain: str, op_type: str) -> type[Operator]:
    prototype = prototype_of(domain, op_type)
    members: dict[str, object] = {"prototype": prototype, "__doc__": _description(prototype), "__module__": __name__}
    methods: list[tuple[str, str, str]] = []  # prefix, the method of Operator, the name of what it is for
    for parameter in prototype.inputs:
        if parameter.is_dynamic:
            methods.append(("create_dynamic_input_", "CreateDynamicInput", parameter.name))
            methods.append(("set_dynamic_input_", "SetDynamicInput", parameter.name))
        else:
            methods.append(("set_input_", "SetInput", parameter.name))
    for parameter in prototype.outputs:
        if parameter.is_dynamic:
            methods.append(("create_dynamic_output_", "CreateDynamicOutput", parameter.name))
    for name, kind in prototype.attrs.items():
        if kind == AttributeProto.GRAPH:
            methods.append(("set_subgraph_builder_", "SetSubgraphBuilder", name))
        else:
            methods += [("set_attr_", "SetAttr", name), ("get_attr_", "GetAttr", name)]
    for prefix, method, name in methods:
        for spelling in (name, *(alias for alias, own in prototype.aliases.items() if own == name)):
            members[prefix + spelling] = partialmethod(getattr(Operator, method), name)
    return type(op_type, (Operator,), members)


def _description(prototype: Prototype) -> str:
    def listed(parameters: Iterable[Parameter]) -> str:
        return ", ".join(p.name + ("…" if p.is_dynamic else "?" if p.is_optional else "") for p in parameters)

    lines = [f"{prototype.op_type}({listed(prototype.inputs)}) → {listed(prototype.outputs)}", ""]
    for name, kind in prototype.attrs.items():
        default = prototype.defaults.get(name)
        ending = ", required" if name in prototype.required_attrs else ""
        ending = f" = {read_attribute(default)!r}" if default is not None else ending
        lines.append(f"{name}: {attribute_type(kind)}{ending}")
    return "\n".join(lines)


class OperatorFactory:
    """Operators by the name of their type."""

    @staticmethod
    def CreateOperator(name: str, op_type: str) -> Operator:
        """An operator. An op of another domain than the standard's is written `com.microsoft::Gelu`."""
        return operator_class(op_type)(name)

    @staticmethod
    def GetOpsTypeList() -> list[str]:
        """The names of all types."""
        return list(operator_names())
