"""Where nodes of an op run, by element type: its record is asked, as the compiler would."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx

from atcpy.errors import AtcError
from atcpy.ir import NC1HWC0, DType, Engine, Format, Node, PassRecord, Reject
from atcpy.ir.tensor import Array
from atcpy.ops import find_opdef
from atcpy.ops.core.half import HALF_DTYPES
from atcpy.ops.core.opdef import ENGINE_COST
from atcpy.options import PrepareOptions
from atcpy.passes.prepare.fold.expand import expand
from atcpy.passes.split.assign_engines import choose_engine
from tests.harness import make_node
from tests.operators.samples import Sample

SPELLED_OUT = "spelled out"
IN_FLOAT32 = "in float32"
# What runs an element type, an engine or one of the two above, and what it costs: the lowest is reported.
_COST = {**{engine.name: cost for engine, cost in ENGINE_COST.items()}, IN_FLOAT32: 4, SPELLED_OUT: 5}
_NUMPY_REFUSES = (TypeError, ValueError, OverflowError, IndexError)


@dataclass(slots=True)
class Findings:
    """What samples of one op show: what runs each element type, kernel families, formats."""

    engines: dict[DType, str] = field(default_factory=dict)
    families: set[str] = field(default_factory=set)
    blocked: set[str] = field(default_factory=set)


def probe(samples: Sequence[Sample]) -> Findings:
    """The cheapest place of each element type over all samples, with the operands constant and not."""
    found = Findings()
    for sample in (*samples, *(replace(sample, outputs=1) for sample in samples if sample.outputs > 1)):
        for dtype in _dtypes(sample):
            arrays = _retyped(sample, dtype)
            for constants in (range(1, len(arrays)), (), range(len(arrays))) if arrays else ():
                if _is_settled(found.engines.get(dtype)):
                    break
                _ask(found, sample, dtype, arrays, constants)
    for dtype in HALF_DTYPES & found.engines.keys():
        as_float = found.engines.get(DType.FLOAT32, Engine.HOST_CPU.name)
        if found.engines[dtype] == Engine.HOST_CPU.name != as_float:
            found.engines[dtype] = as_float if as_float == SPELLED_OUT else IN_FLOAT32
    return found


def _is_settled(name: str | None) -> bool:
    return name is not None and _COST[name] <= _COST[Engine.GE_LOCAL.name] and name != SPELLED_OUT


def _ask(
    found: Findings, sample: Sample, dtype: DType, arrays: Sequence[Array | None], constants: Sequence[int]
) -> None:
    try:
        node = make_node(sample.op_type, arrays, sample.attrs, constants=list(constants),
                         outputs=sample.outputs, domain=sample.domain)  # fmt: skip
    except (AtcError, *_NUMPY_REFUSES):  # this type does not go with the sample's attributes
        return
    engine, _ = choose_engine(node)
    if engine is not Engine.HOST_CPU and not all(value.desc.is_static for value in node.outputs):
        if find_opdef(node) is None:  # placed for what its parts will be
            found.engines[dtype] = SPELLED_OUT
        return
    name = Engine.HOST_CPU.name if engine is None else engine.name
    opdef = find_opdef(node)
    if engine is Engine.HOST_CPU and _is_spelled_out(node):
        name = SPELLED_OUT
    elif engine is not Engine.HOST_CPU and opdef is not None and opdef.lower is not None:
        found.families.update(call.family for call in opdef.lower(node))
        found.blocked.update(_formats(node))
    best = min(name, found.engines.get(dtype, name), key=lambda each: _COST[each])
    found.engines[dtype] = best


def follows_in_5d(sample: Sample) -> set[str]:
    """What becomes of 5D if every input of the leading one's type is an image: for samples of other ranks."""
    leading = sample.arrays[_leading(sample)]
    assert leading is not None
    images = {dtype: np.ones((1, 3, 8, 8), dtype) for dtype in (leading.dtype, np.dtype(bool))}
    arrays = [array if array is None else images.get(array.dtype, array) for array in sample.arrays]
    constants = [
        input_index for input_index, array in enumerate(arrays) if array is not None and array.dtype not in images
    ]
    try:
        node = make_node(sample.op_type, arrays, sample.attrs, constants=constants, domain=sample.domain)
    except (AtcError, *_NUMPY_REFUSES):
        return set()
    return set(_formats(node)) if all(value.desc.is_static for value in node.outputs) else set()


def _is_spelled_out(node: Node) -> bool:
    graph = node.graph
    assert graph is not None
    record = PassRecord("ExpandPass", "prepare")
    expand(graph, record, PrepareOptions())
    return record.applied > 0


def _formats(node: Node) -> Iterator[str]:
    """What the record does with activations of four dims that are at hand in 5D."""
    opdef = find_opdef(node)
    assert opdef is not None
    if opdef.layout is None or len(node.operand(0).desc.static_shape) != 4:
        return
    at_hand = tuple(
        NC1HWC0 if v is not None and v.tensor is None and len(v.desc.static_shape) == 4
        else Format(node.operand(0).desc.format.kind) if v is None else v.desc.format
        for v in node.inputs
    )  # fmt: skip
    layout = opdef.layout(node, at_hand)
    if not isinstance(layout, Reject) and NC1HWC0 in layout.inputs:
        yield "5D → 5D" if NC1HWC0 in layout.outputs else "5D → plain"


def _variables(sample: Sample) -> list[str]:
    """The type variable of each input, or the one type that it has."""
    formal = onnx.defs.get_schema(sample.op_type, domain=sample.domain).inputs
    return [formal[min(input_index, len(formal) - 1)].type_str for input_index in range(len(sample.arrays))]


def _allowed(sample: Sample, variable: str) -> list[DType]:
    schema = onnx.defs.get_schema(sample.op_type, domain=sample.domain)
    texts = next((c.allowed_type_strs for c in schema.type_constraints if c.type_param_str == variable), [variable])
    return [_BY_TEXT[text] for text in texts if text in _BY_TEXT]


def _leading(sample: Sample) -> int:
    """The input whose type is varied: the first, or if it has but one type, the one that has most."""
    counts = [len(_allowed(sample, variable)) for variable in _variables(sample)]
    return 0 if counts[0] > 1 else counts.index(max(counts))


def _dtypes(sample: Sample) -> list[DType]:
    """What the leading input may be."""
    if not sample.arrays or sample.arrays[_leading(sample)] is None:
        return []
    return _allowed(sample, _variables(sample)[_leading(sample)])


def _retyped(sample: Sample, dtype: DType) -> list[Array | None]:
    """The inputs with the leading one's type changed to `dtype`, and that of the others that had the same and may
    have this; none if numpy cannot.
    """
    leading = sample.arrays[_leading(sample)]
    assert leading is not None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NaN becomes any integer
            return [
                array.astype(dtype.numpy)
                if array is not None and array.dtype == leading.dtype and dtype in _allowed(sample, variable)
                else array
                for array, variable in zip(sample.arrays, _variables(sample), strict=True)
            ]
    except _NUMPY_REFUSES:
        return []


def _text(dtype: DType) -> str:
    names = {DType.FLOAT32: "float", DType.FLOAT64: "double"}
    return f"tensor({names.get(dtype) or onnx.TensorProto.DataType.Name(dtype.onnx).lower()})"


_BY_TEXT = {_text(dtype): dtype for dtype in DType if dtype is not DType.UNDEFINED}
