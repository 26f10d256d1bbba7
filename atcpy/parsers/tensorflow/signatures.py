"""What TensorFlow's op registry says of an op: the names of its arguments, and attributes that a file may leave out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import AttrValue, OpDef

Argument = tuple[str, str]  # its name, and the attribute that says how many there are; "" for one


@dataclass(frozen=True, slots=True)
class Signature:
    """The outputs of an op, in order, the defaults of its attributes as plain Python values, and how many inputs its
    nodes may have.
    """

    outputs: tuple[Argument, ...]
    defaults: Mapping[str, object]
    min_inputs: int = 0
    max_inputs: int | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)  # of its attributes, as `type` or `list(int)`

    @property
    def output_count(self) -> int | None:
        """How many outputs it has; None if an attribute says so."""
        return None if any(counted_by for _, counted_by in self.outputs) else len(self.outputs)


@cache
def registry() -> Mapping[str, dict[str, object]]:
    """What is known of the ops of TensorFlow, by their names."""
    text = files("atcpy.parsers.tensorflow.schema").joinpath("op_defs.json").read_text(encoding="utf-8")
    table: dict[str, dict[str, object]] = json.loads(text)
    return table


@cache
def find_signature(op: str) -> Signature | None:
    """The signature of an op of TensorFlow's own; None if the registry does not have it."""
    row = registry().get(op)
    if row is None:
        return None
    inputs, outputs, attrs = row["in"], row["out"], row["attr"]
    assert isinstance(inputs, list) and isinstance(outputs, list) and isinstance(attrs, dict)
    return Signature(
        tuple((item, "") if isinstance(item, str) else (item[0], item[1]) for item in outputs),
        {name: _plain(rule[1]) for name, rule in attrs.items() if len(rule) > 1},
        sum(isinstance(item, str) or item[1] == "N" for item in inputs),  # a list counted by its types may be empty
        len(inputs) if all(isinstance(item, str) for item in inputs) else None,
        {name: rule[0] for name, rule in attrs.items()},
    )


def read_signature(definition: OpDef) -> Signature:
    """The signature of an op that the file itself describes."""
    outputs = tuple((arg.name, arg.number_attr or arg.type_list_attr) for arg in definition.output_arg)
    return Signature(
        outputs,
        {attr.name: plain_attr(attr.default_value) for attr in definition.attr if attr.HasField("default_value")},
    )


def is_of_kind(value: AttrValue, kind: str) -> bool:
    """Whether an attribute is of a kind of the registry's ("": any). A list that is empty may be one of anything."""
    own = value.WhichOneof("value")
    if not kind:
        return True
    if own != "list":
        return own in (None, "placeholder", _FIELDS.get(kind))
    inner = _FIELDS.get(kind.removeprefix("list(").removesuffix(")"))
    return kind.startswith("list(") and all(field.name == inner for field, _ in value.list.ListFields())


_FIELDS = {
    "string": "s", "int": "i", "float": "f", "bool": "b", "type": "type", "shape": "shape", "tensor": "tensor",
    "func": "func",
}  # fmt: skip


def plain_attr(value: AttrValue) -> object:
    """The content of an attribute: a number, bytes, a list of them, or the message that holds it."""
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind != "list":
        content: object = getattr(value, kind)
        return content
    for _, items in value.list.ListFields():
        return tuple(items)
    return ()


def _plain(value: object) -> object:
    if isinstance(value, str):
        return value.encode()
    return tuple(map(_plain, value)) if isinstance(value, list) else value
