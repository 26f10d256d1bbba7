"""Values that are computed from results of 16 bits: whatever type they have, they are judged by that precision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import onnx

from atcpy.errors import AtcError
from atcpy.ir import DType, Graph, Node
from atcpy.ops.custom import CustomOps
from atcpy.options import ParseOptions
from atcpy.parsers.onnx import import_onnx
from atcpy.parsers.onnx.reader import ModelFile
from atcpy.precision_options import PrecisionMode

_HALF = (DType.FLOAT16, DType.BFLOAT16)
_HALF_MODES = {mode: dtype for mode in PrecisionMode for dtype in _HALF if mode.dtype == dtype.long}
_ONNX_HALF = frozenset(dtype.onnx for dtype in _HALF)


def half_values_of_model(file: ModelFile, custom: CustomOps) -> dict[str, DType]:
    """Those of a model, by name, each with the type of least precision. The model is imported only if it has such
    types, since they must be inferred.
    """
    if not _names_half(file.model):
        return {}
    try:
        return values_in_16_bits(import_onnx(file, ParseOptions(), custom).graph.nodes)
    except AtcError:  # a model that is not the package's, and that we do not read
        return {}


def coarsest(found: Mapping[str, DType], lowered: Mapping[str, str]) -> dict[str, DType]:
    """The types of values of a model and of its package, by name: of two the one of least precision."""
    of_package = {name: DType[dtype.upper()] for name, dtype in lowered.items()}
    both = {name: DType.BFLOAT16 for name in found if DType.BFLOAT16 in (found[name], of_package.get(name))}
    return {**found, **of_package, **both}


def values_of_package(graph: Graph) -> dict[str, DType]:
    """Those of the graph of a package. A lowered node may read and write float32 where no value between nodes is
    rounded: its constants are.
    """
    precision = graph.decisions.precision
    dtype = next((dtype for mode, dtype in _HALF_MODES.items() if mode.value == precision.mode), None)
    return values_in_16_bits(graph.nodes, {} if dtype is None else dict.fromkeys(precision.lowered, dtype))


def values_in_16_bits(nodes: Iterable[Node], lowered: Mapping[str, DType] = MappingProxyType({})) -> dict[str, DType]:
    """Those of a graph, by name, each with the type of least precision. Inputs and constants of 16 bits are exact.
    `lowered` has the types of the model's nodes that are lowered.
    """
    found: dict[str, DType] = {}
    for node in nodes:
        if node.is_source:
            continue
        behind = [found[value.name] for value in node.operands if value.name in found]
        own = [value.desc.dtype for value in node.outputs if value.desc.dtype in _HALF]
        own += [lowered[name] for name in node.sources if name in lowered]
        if node.operands and not behind and all(value.tensor is not None for value in node.operands):
            continue
        if behind or own:
            dtype = DType.BFLOAT16 if DType.BFLOAT16 in (*behind, *own) else DType.FLOAT16
            found.update((value.name, dtype) for value in node.outputs)
    return found


def _names_half(model: onnx.ModelProto) -> bool:
    """Whether a model has inputs, constants or casts of 16 bits; nodes in bodies and functions count as such."""
    graph = model.graph
    types = {tensor.data_type for tensor in graph.initializer}
    types.update(info.type.tensor_type.elem_type for info in graph.input)
    if types & _ONNX_HALF or model.functions:
        return True
    return any(
        attr.g.node or (attr.name in ("to", "dtype") and attr.i in _ONNX_HALF) or attr.t.data_type in _ONNX_HALF
        for node in graph.node
        for attr in node.attribute
    )
