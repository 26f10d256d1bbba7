"""A path or a ModelProto → a parsed model, its weights left in the file, and where it came from."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError, EncodeError, Message

from atcpy.errors import AtcError, ModelInvalid, ResourceLimit, Unsupported, Where
from atcpy.ir import Source
from atcpy.ops.contrib.record import DOMAIN
from atcpy.ops.custom import CustomOps
from atcpy.parsers.files import map_file, no_model
from atcpy.parsers.onnx.contrib_rules import extra_rule
from atcpy.parsers.onnx.external import ExternalData
from atcpy.parsers.onnx.text import as_text
from atcpy.parsers.onnx.wire import split_weights
from atcpy.parsers.sniff import what_file, what_protobuf

_MAX_PROTO = 2**31 - 1
_KIND = "an ONNX model"


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A parsed model. The large weights of a file are not in `model` but in `external.inline`."""

    model: onnx.ModelProto
    external: ExternalData
    source: Source
    path: Path | None = None


def read_model(model: Path | str | onnx.ModelProto, *, allow_hardlinks: bool = False) -> ModelFile:
    """Reads and recognises a model; what is no ONNX model is called by its name."""
    if isinstance(model, onnx.ModelProto):
        _check_header(model, "the model")
        external = ExternalData(None)
        return ModelFile(model, external, _source(model, _digest_of_proto(model)))
    path = Path(model)
    data = map_file(path, _KIND)
    try:
        refusal = what_file(bytes(data[:4096]), len(data))
        if refusal is not None:
            raise no_model(path, _KIND, *refusal)
        if len(data) > _MAX_PROTO and split_weights(data) is None:
            raise no_model(path, _KIND, "larger than protobuf allows (2 GB)", "save it with external data")
        rest, inline = split_weights(data) or (data, {})
        try:
            proto = onnx.ModelProto.FromString(bytes(rest))
        except DecodeError as error:
            raise no_model(path, _KIND, *what_protobuf(data)) from error
        if not proto.HasField("graph"):
            what, hint = what_protobuf(data)
            if "damaged" not in what:
                raise no_model(path, _KIND, what, hint)
            raise ModelInvalid("E16004", f"{path.name} has no graph", where=Where(file=str(path)), hint=_HINT_NO_GRAPH)
        _check_header(proto, path.name)
    except AtcError as error:
        raise error.located(file=str(path)) from error.__cause__
    external = ExternalData(path.parent, allow_hardlinks=allow_hardlinks, inline=inline)
    return ModelFile(proto, external, _source(proto, hashlib.sha256(data).hexdigest()), path)


_HINT_NO_GRAPH = "is it a tensor, as test data has them? export the model again"


def _check_header(model: onnx.ModelProto, name: str) -> None:
    if not model.HasField("graph"):
        raise ModelInvalid("E16004", f"{name} has no graph", hint=_HINT_NO_GRAPH)
    if model.ir_version < 1:
        what = f"{name} has no ir_version, which every ONNX model has"
        raise ModelInvalid("E10041", what, hint="set it: model.ir_version = 10")
    if model.ir_version > onnx.IR_VERSION:
        what = f"{name} has IR version {model.ir_version}, the newest that is known is {onnx.IR_VERSION}"
        raise Unsupported("E10055", what, hint="export the model for an older IR version, or update atcpy")


def standard_opset(model: onnx.ModelProto) -> int:
    """Return the version of the standard's ops that a model is written in, 0 if it says none. The first formats had no
    versions.
    """
    unversioned = 1 if model.ir_version < 3 and not model.opset_import else 0
    return next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), unversioned)


def _source(model: onnx.ModelProto, sha256: str) -> Source:
    opsets = sorted((as_text(entry.domain) or "ai.onnx", entry.version) for entry in model.opset_import)
    producer = " ".join(filter(None, (as_text(model.producer_name), as_text(model.producer_version))))
    return Source(sha256=sha256, framework="onnx", opsets=tuple(opsets), producer=producer)


def _digest_of_proto(model: onnx.ModelProto) -> str:
    """The hash of a model in memory, part by part where it is too large to be written as one message."""
    parts: tuple[Message, ...] = (model,)
    if model.ByteSize() > _MAX_PROTO:
        parts = (*model.graph.node, *model.graph.input, *model.graph.output, *model.graph.initializer)
    digest = hashlib.sha256()
    try:
        for part in parts:
            digest.update(part.SerializeToString(deterministic=True))
    except EncodeError as error:
        what = "the graphs of the model are nested deeper than protobuf can write (100 messages, about 32 graphs)"
        raise ResourceLimit("R0001", what) from error
    return digest.hexdigest()


def check_standard(model: onnx.ModelProto, custom: CustomOps, *, is_plain: bool) -> list[AtcError]:
    """What onnx.checker finds in a model in which we found nothing; weights are left out, for we checked them. It
    takes a model `is_plain` as that is.
    """
    try:
        slim = _without_weights(model)
        if not is_plain:
            _clean_nodes(slim, custom)
        onnx.checker.check_model(slim, full_check=False)
    except DecodeError:
        # Graphs nested deeper than protobuf copies, in a model made in memory: our own checks stand.
        return []
    except onnx.checker.ValidationError as error:
        # Deprecated ops are those that we bring to their successors.
        return [] if "is deprecated in domain_version" in str(error) else [_from_checker(str(error))]
    return []


def _without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    slim = onnx.ModelProto(ir_version=model.ir_version)
    slim.opset_import.extend(model.opset_import)
    slim.functions.extend(model.functions)
    slim.graph.name = "graph"
    slim.graph.node.extend(model.graph.node)
    slim.graph.input.extend(model.graph.input)
    slim.graph.output.extend(model.graph.output)
    for tensor in (*model.graph.initializer, *(sparse.values for sparse in model.graph.sparse_initializer)):
        slim.graph.initializer.add(name=tensor.name, data_type=tensor.data_type, dims=[0])
    for info in (*slim.graph.input, *slim.graph.output):
        # Not every writer types what a graph returns, and a rank may be unknown; we infer both.
        if info.type.WhichOneof("value") in (None, "tensor_type"):
            info.type.tensor_type.elem_type = info.type.tensor_type.elem_type or onnx.TensorProto.FLOAT
            info.type.tensor_type.shape.SetInParent()
    return slim


def _clean_nodes(model: onnx.ModelProto, custom: CustomOps) -> None:
    """The checker looks for data files beside the process; we looked beside the model. Nor does it know that
    `ai.onnx` is the domain without a name, or which ops ONNX Runtime and the user have there, or that their own
    domains need no opset.
    """
    for imports in (model.opset_import, *(function.opset_import for function in model.functions)):
        if all(entry.domain != DOMAIN for entry in imports):
            imports.add(domain=DOMAIN, version=1)
    pending = [model.graph.node, *(function.node for function in model.functions)]
    while pending:
        for node in pending.pop():
            if node.domain == "ai.onnx":
                node.domain = ""
            if extra_rule(node.op_type, node.domain) is not None or custom.find(node.domain, node.op_type) is not None:
                node.domain = DOMAIN
            for attr in node.attribute:
                if attr.type in _WITH_TENSORS:
                    graphs = (attr.g, *attr.graphs)
                    for together in _tensors_of(attr, graphs):
                        if any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in together):
                            _drop_data(together)
                    pending.extend(graph.node for graph in graphs)


_A = onnx.AttributeProto
_WITH_TENSORS = frozenset({_A.TENSOR, _A.TENSORS, _A.SPARSE_TENSOR, _A.SPARSE_TENSORS, _A.GRAPH, _A.GRAPHS})


def _tensors_of(attr: onnx.AttributeProto, graphs: Iterable[onnx.GraphProto]) -> Iterator[tuple[onnx.TensorProto, ...]]:
    """Yield the tensors of an attribute and of the graphs in it; the two of a sparse one together."""
    for tensor in (attr.t, *attr.tensors, *(tensor for graph in graphs for tensor in graph.initializer)):
        yield (tensor,)
    sparse = (each for graph in graphs for each in graph.sparse_initializer)
    for each in (attr.sparse_tensor, *attr.sparse_tensors, *sparse):
        yield (each.values, each.indices)


def _drop_data(tensors: Iterable[onnx.TensorProto]) -> None:
    for tensor in tensors:
        name, data_type = tensor.name, tensor.data_type
        tensor.Clear()
        tensor.name, tensor.data_type = name, data_type
        tensor.dims.append(0)


def _from_checker(message: str) -> AtcError:
    """The checker's first line, and the node that its context names."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    found = re.search(r"OpType: (\S+), node name: (.*?)\)", message)
    where = Where(node=found[2], op=found[1]) if found else Where()
    what = lines[0] if lines else "onnx.checker refuses the model"
    code = "E13014" if found else "E10041"
    return ModelInvalid(code, what, where=where, hint="onnx.checker says so: export the model again")
