"""Single operators out of ATC's file of `--singleop`: a model of one operator for each description.

    [{"op": "Add", "input_desc": [{"format": "ND", "shape": [8, 16], "type": "int32"}, …], "output_desc": [{…}],
      "attr": [{"name": "axis", "type": "int", "value": 1}]}]

Inputs are those of the op, in order; one of the type UNDEFINED is left out, one with `const_value` is a constant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from atcpy.config_files import members_of, parse_config, read_text_file
from atcpy.errors import AtcError, UsageError, Where, did_you_mean, raise_all
from atcpy.ge.constructors import Const, Data, OperatorFactory
from atcpy.ge.graph import Graph
from atcpy.ge.model import model_of
from atcpy.ge.operator import Operator
from atcpy.ge.types import TensorDesc
from atcpy.ir.dtype import DType
from atcpy.ir.format import PLAIN_KINDS, FormatKind
from atcpy.ir.shape import Shape, format_shape
from atcpy.om.numbers import GE_DTYPE
from atcpy.ops.custom import load_custom_ops
from atcpy.options import ParseOptions
from atcpy.stages.parse import parse

_KEYS = ("op", "name", "input_desc", "output_desc", "attr", "compile_flag")
_DESC_KEYS = ("format", "shape", "type", "name", "shape_range", "is_const", "const_value")
_ATTR_KEYS = ("name", "type", "value")
_TYPES: Mapping[str, DType] = {
    "float": DType.FLOAT32,
    "float32": DType.FLOAT32,
    "float16": DType.FLOAT16,
    "half": DType.FLOAT16,
    "bfloat16": DType.BFLOAT16,
    "bf16": DType.BFLOAT16,
    "double": DType.FLOAT64,
    "float64": DType.FLOAT64,
    "bool": DType.BOOL,
    **{f"{sign}int{bits}": DType[f"{sign.upper()}INT{bits}"] for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "complex64": DType.COMPLEX64,
    "complex128": DType.COMPLEX128,
}
_ABSENT = "UNDEFINED"
# GE's op has attributes that ONNX's op of that name has not, but another op has: their names there.
_OTHER_OPS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "MatMul": ("Gemm", {"transpose_x1": "transA", "transpose_x2": "transB"}),
}
_FORMATS: Mapping[str, FormatKind] = {kind.name: kind for kind in PLAIN_KINDS}


@dataclass(frozen=True, slots=True)
class SingleOp:
    """The model of one operator, and what its package is called, without a suffix."""

    name: str
    model: onnx.ModelProto
    input_format: str | None


@dataclass(frozen=True, slots=True)
class _Desc:
    """One input or output of a description."""

    name: str
    dtype: DType
    form: FormatKind
    shape: tuple[int, ...]
    constant: Any = None

    @property
    def text(self) -> str:
        """Its part of the name of a package, by GE's numbers: type, format, dims."""
        return "_".join(map(str, (GE_DTYPE[self.dtype], self.form.value, *self.shape)))


def read_single_ops(path: Path) -> tuple[SingleOp, ...]:
    """The operators of a file, in order. Raises UsageError, or what is wrong with all of them."""
    root = parse_config(str(path), read_text_file(path)[0])
    listed = root if isinstance(root, list) else [root]
    if not listed:
        raise UsageError("E20003", f"{path}: there is no operator in it", where=Where(file=str(path)))
    found: list[SingleOp] = []
    problems: list[AtcError] = []
    for number, record in enumerate(listed):
        try:
            found.append(_Reader(str(path), number).read(record))
        except AtcError as error:
            problems += error.problems
    raise_all(problems)
    for name in {op.name for op in found if sum(other.name == op.name for other in found) > 1}:
        what = f'{path}: several operators have the name "{name}"'
        raise UsageError("E20003", what, where=Where(file=str(path)), hint="names are those of the packages")
    return tuple(found)


class _Reader:
    def __init__(self, path: str, number: int) -> None:
        self._path = path
        self._what = f"operator {number}"
        self._number = number

    def read(self, value: object) -> SingleOp:
        record = members_of(self._path, self._what, value, _KEYS)
        op_type = self._text(record, "op")
        inputs = [self._desc(item, f"x{n}") for n, item in enumerate(self._list(record, "input_desc"))]
        outputs = [self._desc(item, f"y{n}") for n, item in enumerate(self._list(record, "output_desc"))]
        operator = self._operator(op_type, self._attrs(record))
        data = list(self._connect(operator, inputs))
        declared = [desc for desc in outputs if desc is not None]
        if operator.prototype.outputs[-1].is_dynamic:
            operator.CreateDynamicOutput(operator.prototype.outputs[-1].name, len(declared))
        if not 0 < len(declared) <= operator.output_count:
            raise self._refused(f"{op_type} has {operator.output_count} outputs, not {len(declared)}")
        graph = Graph(op_type).SetInputs(data).SetOutputs([(operator, list(range(len(declared))))])
        model = model_of(graph)
        assert isinstance(model, onnx.ModelProto)
        self._check_outputs(model, declared)
        parts = [desc.text for desc in (*inputs, *declared) if desc is not None]
        name = record.get("name") or "_".join([str(self._number), op_type, *parts])
        if not isinstance(name, str) or "/" in name:
            raise self._refused(f'"name" {name!r} is no name of a file')
        return SingleOp(name, model, graph.input_format)

    def _check_outputs(self, model: onnx.ModelProto, declared: Sequence[_Desc]) -> None:
        """Raise UsageError for outputs that are declared to be what the op does not make of its inputs."""
        found = parse(model, ParseOptions(), load_custom_ops(())).graph.outputs
        for number, (value, desc) in enumerate(zip(found, declared, strict=True)):
            if value.desc.dtype is not desc.dtype or not _fits(value.desc.shape, desc.shape):
                made = f"{value.desc.dtype.long} {format_shape(value.desc.shape)}"
                what = f"output {number} is {made}, not {desc.dtype.long} {format_shape(desc.shape)}"
                raise self._refused(what)

    def _connect(self, operator: Operator, inputs: Sequence[_Desc | None]) -> Iterator[Data]:
        """Connect the inputs of an operator, and yield those that are no constants."""
        sources = [None if desc is None else self._source(desc) for desc in inputs]
        rest = iter(sources)
        parameters = operator.prototype.inputs
        for index, parameter in enumerate(parameters):
            if parameter.is_dynamic:
                own = sources[index : len(sources) - (len(parameters) - index - 1)]
                operator.CreateDynamicInput(parameter.name, len(own))
                for number, source in zip(range(len(own)), rest, strict=False):
                    if source is not None:
                        operator.SetDynamicInput(parameter.name, number, source)
            elif (source := next(rest, None)) is not None:
                operator.SetInput(parameter.name, source)
        if next(rest, operator) is not operator:
            names = ", ".join(parameter.name for parameter in parameters)
            raise self._refused(f"{operator.GetOpType()} has the inputs {names}, not {len(inputs)}")
        yield from (source for source in sources if isinstance(source, Data))

    def _source(self, desc: _Desc) -> Operator:
        if desc.constant is None:
            return Data(desc.name).update_output_desc_y(TensorDesc(desc.shape, desc.form, desc.dtype))
        try:
            array = np.array(desc.constant, desc.dtype.numpy).reshape(desc.shape)
        except (TypeError, ValueError, OverflowError) as error:
            raise self._refused(f'"const_value" of {desc.name} does not fit: {error}') from error
        return Const(desc.name).set_attr_value(array)

    def _operator(self, op_type: str, attrs: Mapping[str, Any]) -> Operator:
        other, renamed = _OTHER_OPS.get(op_type, (op_type, {}))
        if not renamed.keys() & attrs:
            other, renamed = op_type, {}
        operator = OperatorFactory.CreateOperator(op_type, other)
        for name, value in attrs.items():
            if name in renamed and not isinstance(value, bool):
                raise self._refused(f'the attribute "{name}" is not true or false')
            operator.SetAttr(renamed.get(name, name), int(value) if name in renamed else value)
        return operator

    def _attrs(self, record: Mapping[str, Any]) -> dict[str, Any]:
        attrs: dict[str, Any] = {}
        for item in self._list(record, "attr", required=False):
            attr = members_of(self._path, f"an attribute of {self._what}", item, _ATTR_KEYS)
            name = self._text(attr, "name")
            if "value" not in attr:
                raise self._refused(f'the attribute "{name}" has no "value"')
            attrs[name] = self._dtype(attr["value"]) if attr.get("type") == "data_type" else attr["value"]
        return attrs

    def _desc(self, value: object, default_name: str) -> _Desc | None:
        """An input or output; None is left out."""
        record = members_of(self._path, f"a desc of {self._what}", value, _DESC_KEYS)
        if record.get("type") == _ABSENT:
            return None
        form = record.get("format", "ND")
        if form not in _FORMATS:
            hint = did_you_mean(str(form), _FORMATS)
            raise self._refused(f"the format {form!r} is not one of {', '.join(sorted(_FORMATS))}", hint)
        shape = record.get("shape", [])
        if not isinstance(shape, list) or not all(type(dim) is int and dim >= -1 for dim in shape):
            raise self._refused(f'"shape" {shape!r} is no list of sizes')
        name = record.get("name") or default_name
        if not isinstance(name, str):
            raise self._refused(f'"name" {name!r} is no text')
        if record.get("is_const") and "const_value" not in record:
            raise self._refused(f'{name} is a constant without a "const_value"')
        dtype = self._dtype(record.get("type"))
        return _Desc(name, dtype, _FORMATS[form], tuple(shape), record.get("const_value"))

    def _dtype(self, name: object) -> DType:
        found = _TYPES.get(name) if isinstance(name, str) else None
        if found is None:
            hint = did_you_mean(str(name), _TYPES)
            raise self._refused(f'"type" {name!r} is not one of {", ".join(_TYPES)}', hint)
        return found

    def _text(self, record: Mapping[str, Any], key: str) -> str:
        value = record.get(key)
        if not isinstance(value, str) or not value:
            raise self._refused(f'"{key}" is no text')
        return value

    def _list(self, record: Mapping[str, Any], key: str, *, required: bool = True) -> list[object]:
        value = record.get(key, None if required else [])
        if not isinstance(value, list):
            raise self._refused(f'"{key}" is no list')
        return value

    def _refused(self, what: str, hint: str = "") -> UsageError:
        return UsageError("E20003", f"{self._path}: {self._what}: {what}", where=Where(file=self._path), hint=hint)


def _fits(shape: Shape | None, declared: Sequence[int]) -> bool:
    """Whether a shape that follows from the inputs may be the declared one, in which -1 is any size."""
    if shape is None:
        return True
    return len(shape) == len(declared) and all(
        own == dim or dim < 0 or not isinstance(own, int) for own, dim in zip(shape, declared, strict=True)
    )
