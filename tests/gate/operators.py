"""One node of each op that the standard's own test cases show, made wrong in one respect after the other.

What the op's schema rules out is refused as invalid. Of other shapes and values of attributes, ONNX Runtime and the
reference implementation say whether they make sense: what neither of them runs must be refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx.defs
from onnx import AttributeProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator

from tests.conformance.cases import SLOW_MODULES, load_cases
from tests.gate.cases import INVALID, REFUSED, Case, onnx_case
from tests.gate.workers import Lost, call_each
from tests.ort import open_ort

_A = AttributeProto
NAMES = ("", "ai.onnx.ml")
# A value of another type than an attribute has.
OTHER_TYPE: dict[int, object] = {
    _A.INT: "one", _A.FLOAT: "one", _A.STRING: 1, _A.TENSOR: 1, _A.GRAPH: 1, _A.TYPE_PROTO: 1, _A.SPARSE_TENSOR: 1,
    _A.INTS: 0.5, _A.FLOATS: "one", _A.STRINGS: 1, _A.TENSORS: 1, _A.GRAPHS: 1, _A.TYPE_PROTOS: 1,
}  # fmt: skip
# Element types, those that few ops take first.
TYPES = (TensorProto.STRING, TensorProto.BOOL, TensorProto.COMPLEX64, TensorProto.UINT16, TensorProto.FLOAT)
INTS = (-1, 7, 99, 2**62, -(2**63))


@dataclass(frozen=True)
class Base:
    """A model of one node that is right, and its inputs."""

    model: onnx.ModelProto
    feeds: dict[str, np.ndarray[Any, Any]]

    @property
    def node(self) -> onnx.NodeProto:
        return self.model.graph.node[0]

    @property
    def name(self) -> str:
        return self.node.op_type

    @property
    def schema(self) -> onnx.defs.OpSchema:
        opsets = {entry.domain: entry.version for entry in self.model.opset_import}
        return onnx.defs.get_schema(self.node.op_type, opsets[self.node.domain], self.node.domain)

    def changed(self, change: Callable[[onnx.ModelProto], object]) -> onnx.ModelProto:
        """The model after a change."""
        copy = onnx.ModelProto()
        copy.CopyFrom(self.model)
        change(copy)
        return copy


@cache
def bases() -> list[Base]:
    """For each op, the smallest test case of the standard whose inputs are all arrays."""
    found: dict[tuple[str, str], tuple[int, Base]] = {}
    for case in load_cases(without=SLOW_MODULES):
        if case.kind != "node":
            continue
        model = case.model()
        node = model.graph.node[0]
        opsets = {entry.domain: entry.version for entry in model.opset_import}
        if len(model.graph.node) != 1 or node.domain not in NAMES or opsets.get("", 1) > 26:
            continue
        for inputs, _ in case.data_sets():
            if any(not isinstance(value, np.ndarray) for value in inputs):
                continue
            names = [info.name for info in model.graph.input]
            size = sum(value.nbytes for value in inputs)
            key = node.domain, node.op_type
            if key not in found or size < found[key][0]:
                found[key] = size, Base(model, dict(zip(names, inputs, strict=True)))
    return [base for _, (_, base) in sorted(found.items())]


def cases_by_schema() -> Iterator[Case]:
    """Nodes that break the schema of their op."""
    for base in bases():
        for name, model in _broken(base):
            yield onnx_case(f"{base.name}: {name}", lambda model=model: model, INVALID)  # type: ignore[misc]


def _broken(base: Base) -> Iterator[tuple[str, onnx.ModelProto]]:
    schema, node = base.schema, base.node
    present = {attr.name for attr in node.attribute}
    yield (
        "an attribute that it does not have",
        base.changed(lambda m: m.graph.node[0].attribute.append(helper.make_attribute("no_such_attribute", 1))),
    )
    for attr in schema.attributes.values():
        value = OTHER_TYPE[attr.type.value]  # type: ignore[attr-defined]
        yield f"{attr.name} of another type", base.changed(lambda m, n=attr.name, v=value: set_attribute(m, n, v))
        if attr.required and attr.name in present:
            yield f"no {attr.name}", base.changed(lambda m, n=attr.name: set_attribute(m, n, None))
    option = onnx.defs.OpSchema.FormalParameterOption
    for index, formal in enumerate(schema.inputs):
        if formal.option is option.Single and index < len(node.input):
            yield f"no input {formal.name}", base.changed(lambda m, i=index: _leave_out(m, i))
        allowed = formal.types
        other = next((kind for kind in TYPES if _type_text(kind) not in allowed), None)
        if index < len(node.input) and node.input[index] and other is not None:
            yield f"{formal.name} of another type", base.changed(lambda m, i=index, k=other: _retype(m, i, k))
    if schema.max_input < 100:
        count = schema.max_input + 1
        yield (
            "too many inputs",
            base.changed(lambda m: m.graph.node[0].input.extend([_first(m)] * (count - len(m.graph.node[0].input)))),
        )
    if schema.max_output < 100:
        more = schema.max_output + 1
        yield (
            "too many outputs",
            base.changed(
                lambda m: m.graph.node[0].output.extend(f"more{i}" for i in range(more - len(m.graph.node[0].output)))
            ),
        )


def _first(model: onnx.ModelProto) -> str:
    return next(iter(model.graph.input), onnx.ValueInfoProto(name="none")).name


def set_attribute(model: onnx.ModelProto, name: str, value: object) -> None:
    """Give the node an attribute; None removes it."""
    node = model.graph.node[0]
    kept = [attr for attr in node.attribute if attr.name != name]
    del node.attribute[:]
    node.attribute.extend(kept)
    if value is not None:
        node.attribute.append(helper.make_attribute(name, value, attr_type=_A.INTS if value == [] else None))


def _leave_out(model: onnx.ModelProto, index: int) -> None:
    model.graph.node[0].input[index] = ""


def _retype(model: onnx.ModelProto, index: int, kind: int) -> None:
    name = model.graph.node[0].input[index]
    for info in model.graph.input:
        if info.name == name:
            info.type.tensor_type.elem_type = kind


def _type_text(kind: int) -> str:
    return f"tensor({TensorProto.DataType.Name(kind).lower()})"


@dataclass(frozen=True)
class Doubtful:
    """A node of other shapes or values, which may be right."""

    name: str
    model: onnx.ModelProto
    feeds: dict[str, np.ndarray[Any, Any]]


def doubtful() -> Iterator[Doubtful]:
    """Nodes whose operands have another shape, or attributes another value."""
    for base in bases():
        for index, name in enumerate(base.node.input):
            if name:
                yield from _reshaped(base, index, name)
        for attr in base.schema.attributes.values():
            for value in _values(base, attr):
                model = base.changed(lambda m, n=attr.name, v=value: set_attribute(m, n, v))
                del model.graph.value_info[:]
                yield Doubtful(f"{base.name}: {attr.name} = {value!r}", _untyped(model), base.feeds)


def _reshaped(base: Base, index: int, name: str) -> Iterator[Doubtful]:
    array = base.feeds[name]
    shapes = {
        "one dim more": (1, *array.shape),
        "one dim less": array.shape[1:],
        "a larger first dim": (array.shape[0] + 1, *array.shape[1:]) if array.ndim else None,
        "a larger last dim": (*array.shape[:-1], array.shape[-1] + 1) if array.ndim > 1 else None,
    }
    for what, shape in shapes.items():
        if shape is None or (what == "one dim less" and not array.ndim):
            continue
        other = np.resize(array, shape) if array.size else np.zeros(shape, array.dtype)

        def change(model: onnx.ModelProto, shape: Sequence[int] = shape) -> None:
            for info in model.graph.input:
                if info.name == name:
                    kind = info.type.tensor_type.elem_type
                    info.CopyFrom(helper.make_tensor_value_info(name, kind, shape))

        model = _untyped(base.changed(change))
        yield Doubtful(f"{base.name}: input {index} of {what}", model, base.feeds | {name: other})


def _untyped(model: onnx.ModelProto) -> onnx.ModelProto:
    """Without the shapes of results, which are others now."""
    for info in model.graph.output:
        if info.type.HasField("tensor_type"):
            info.type.tensor_type.ClearField("shape")
    return model


def _values(base: Base, attr: onnx.defs.OpSchema.Attribute) -> Iterator[object]:
    present = {own.name: helper.get_attribute_value(own) for own in base.node.attribute}
    kind = attr.type.value  # type: ignore[attr-defined]
    if kind == _A.INT:
        yield from INTS
    elif kind == _A.FLOAT:
        yield from (float("nan"), -1.0)
    elif kind == _A.STRING:
        yield "nonsense"
    elif kind == _A.INTS:
        old = list(present.get(attr.name, [1, 1]))
        yield from ([*old, 1], old[1:], [-1] * len(old), [0] * len(old), [99] * len(old), [2**62] * len(old))
    elif kind == _A.FLOATS:
        old = list(present.get(attr.name, [1.0, 1.0]))
        yield from ([*old, 1.0], old[1:], [float("nan")] * len(old))
    elif kind == _A.STRINGS:
        yield ["nonsense"]


# What neither of them runs, and is right, or is ours to define.
RIGHT = frozenset(
    {
        "Bernoulli: input 0 of one dim less", "Bernoulli: seed = -1.0", "ConvTranspose: output_padding = [1]",
        "ConvTranspose: output_shape = [1, 1, 1]", "LRN: input 0 of one dim more", "LRN: input 0 of one dim less",
        "Squeeze: input 1 of one dim less",
        "TopK: input 1 of one dim less", "TreeEnsemble: input 0 of one dim less",
        "TreeEnsemble: nodes_falseleafs = [0, 0, 0]",
    }
)  # fmt: skip


def makes_sense(item: Doubtful) -> bool:
    """Does ONNX Runtime run a node, or the reference implementation?"""
    try:
        open_ort(item.model).run(None, item.feeds)
    except Exception:  # noqa: BLE001 its own kinds share no base
        pass
    else:
        return True
    try:
        with np.errstate(all="ignore"):
            ReferenceEvaluator(item.model).run(None, item.feeds)
    except Exception:  # noqa: BLE001 whatever its code runs into
        return False
    return True


def cases_without_sense(items: Sequence[Doubtful]) -> Iterator[Case]:
    """The nodes that neither runs; one that takes too long may be right. What depends on operands may be found when it
    runs.
    """
    for item, result in call_each(makes_sense, items, seconds=10):
        if result in (False, Lost.CRASH) and item.name not in RIGHT:
            yield onnx_case(item.name, lambda model=item.model: model, REFUSED, item.feeds)  # type: ignore[misc]
