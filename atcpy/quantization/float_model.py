"""The model that is quantised: read, refused if it cannot be, and optimised.

BatchNormalization must be part of its convolution before ranges are measured, so the engine-neutral passes of
`atcpy optimize` run first. Nodes keep names of the file: a node that stands for several has the name of one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import onnx

from atcpy.errors import Unsupported, Where
from atcpy.ir import DType
from atcpy.parsers.onnx.functions import all_nodes
from atcpy.parsers.onnx.order import bodies_of
from atcpy.parsers.onnx.reader import ModelFile, read_model, standard_opset
from atcpy.report.units import size
from atcpy.rewrite.optimize import rewrite_file
from atcpy.rewrite.options import rewrite_options
from atcpy.rewrite.serialize import serialize
from atcpy.verify.inputs import Port, model_ports

_LOWEST_OPSET = 13  # from which on QuantizeLinear and DequantizeLinear have a scale each channel
_WITH_BIAS, _BIAS = frozenset({"Conv", "ConvTranspose", "Gemm"}), 2  # ops that have one, and which input it is
_QUANTIZED_WORDS = ("Quantize", "QLinear", "NBits", "QGemm", "QAttention", "QEmbed", "QMoE", "QOrdered")


@dataclass(frozen=True, slots=True)
class FloatModel:
    """A model in float32, optimised, with its weights inside and the shapes of its values. `sources` are the names that
    each node has in the file, `ops` the op of each name there, `nbytes` the size of the file and its data.
    """

    proto: onnx.ModelProto
    ports: Sequence[Port]
    sources: Mapping[str, tuple[str, ...]]
    ops: Mapping[str, str]
    nbytes: int


def read_float_model(path: Path, *, allow_hardlinks: bool = False) -> FloatModel:
    """Read a model to be quantised. Raises Unsupported for one that is quantised already, has control flow, or does not
    fit into a message of protobuf.
    """
    file = read_model(path, allow_hardlinks=allow_hardlinks)
    _refuse_quantized(file, path)
    _refuse_half(file.model, path)
    options = rewrite_options({"allow_hardlinks": allow_hardlinks})
    rewritten = rewrite_file(file, replace(options, lowest_opset=_LOWEST_OPSET))
    _refuse_old(rewritten.model, path)
    _refuse_bodies(rewritten.model, path)
    parts = serialize(rewritten, "", external=False)
    if parts.data:
        what = f"the model has {size(parts.nbytes)} of weights, and ONNX Runtime's quantizer takes at most 2 GB"
        hint = "quantise parts of it, or convert it with its own precision"
        raise Unsupported(
            "E10055", what, where=Where(file=str(path)), why="it holds the model in one message", hint=hint
        )
    proto = onnx.ModelProto.FromString(b"".join(parts.model))
    _copy_shared_biases(proto.graph)
    sources = _name_as_sources(proto, rewritten.sources, {node.name: node.op_type for node in file.model.graph.node})
    return FloatModel(
        onnx.shape_inference.infer_shapes(proto),
        model_ports(file.model),
        sources,
        {node.name: node.op_type for node in file.model.graph.node},
        parts.nbytes,
    )


def _refuse_quantized(file: ModelFile, path: Path) -> None:
    nodes = [*all_nodes(file.model.graph.node), *(node for f in file.model.functions for node in f.node)]
    for node in nodes:
        if any(word in node.op_type for word in _QUANTIZED_WORDS) or node.op_type.endswith("Integer"):
            where = Where(file=str(path), node=node.name, op=node.op_type)
            hint = "convert it as it is, or quantise the model that it was made from"
            raise Unsupported("E10055", "the model is quantised already", where=where, hint=hint)


def _refuse_half(model: onnx.ModelProto, path: Path) -> None:
    for tensor in model.graph.initializer:
        dtype = DType.from_onnx(tensor.data_type)
        if dtype in (DType.FLOAT16, DType.BFLOAT16):
            where = Where(file=str(path), value=tensor.name)
            hint = "quantise the model in float32 that it was made from"
            raise Unsupported("E10055", f"a model in {dtype.long} cannot be quantised", where=where, hint=hint)


def _refuse_old(model: onnx.ModelProto, path: Path) -> None:
    opset = standard_opset(model)
    if 0 < opset < _LOWEST_OPSET:  # 0: no op of the standard, and so none to quantise
        what = f"the model has opset {opset}, and cannot be brought to {_LOWEST_OPSET}"
        why = "QuantizeLinear has scales of channels from there on"
        raise Unsupported("E10055", what, where=Where(file=str(path)), why=why, hint="export it with a newer opset")


def _refuse_bodies(model: onnx.ModelProto, path: Path) -> None:
    for node in model.graph.node:
        if any(True for _ in bodies_of(node)):
            where = Where(file=str(path), node=node.name, op=node.op_type)
            why = "ONNX Runtime's quantizer measures no ranges in the bodies of control flow"
            hint = "export it without loops and branches, or quantise the parts without them"
            raise Unsupported(
                "E10055", f"a model with {node.op_type} cannot be quantised", where=where, why=why, hint=hint
            )


def _copy_shared_biases(graph: onnx.GraphProto) -> None:
    """Give each node a bias of its own. ONNX Runtime's quantizer does so, too, but by a name that may be taken."""
    constants = {tensor.name: tensor for tensor in graph.initializer}
    taken = {name for node in graph.node for name in (*node.input, *node.output)} | constants.keys()
    used: set[str] = set()
    for node in graph.node:
        if node.op_type not in _WITH_BIAS or len(node.input) <= _BIAS or node.input[_BIAS] not in constants:
            continue
        name = node.input[_BIAS]
        if name in used:
            copy = next(free for number in count(1) if (free := f"{name}.{number}") not in taken)
            taken.add(copy)
            graph.initializer.add().CopyFrom(constants[name])
            graph.initializer[-1].name = node.input[_BIAS] = copy
        used.add(name)


def _name_as_sources(
    proto: onnx.ModelProto, sources: Mapping[str, tuple[str, ...]], ops: Mapping[str, str]
) -> dict[str, tuple[str, ...]]:
    """Name each node as a node of the file that it stands for, one with its op if there is one."""
    result: dict[str, tuple[str, ...]] = {}
    taken = {node.name for node in proto.graph.node if node.name in ops}
    for node in proto.graph.node:
        names = sources.get(node.name) or (node.name,)
        if node.name not in ops:
            free = [name for name in names if name in ops and name not in taken]
            candidates = [*(name for name in free if ops[name] == node.op_type), *free]
            node.name = next(iter(candidates), node.name)
            taken.add(node.name)
        result[node.name] = tuple(dict.fromkeys((node.name, *names)))
    return result
