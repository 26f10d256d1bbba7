"""A path → the TensorFlow graph in it, what the file says of its inputs and outputs, and where its variables lie."""

from __future__ import annotations

import glob
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final, NoReturn, TypeVar

from google.protobuf import text_format
from google.protobuf.message import DecodeError, Message

from atcpy.errors import ModelInvalid, Unsupported, UsageError, Where, did_you_mean
from atcpy.ir import Source
from atcpy.options import ParseOptions
from atcpy.parsers.files import map_file, no_model
from atcpy.parsers.sniff import is_graphdef, what_file
from atcpy.parsers.tensorflow.bundle import INDEX
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import (
    CheckpointState,
    GraphDef,
    MetaGraphDef,
    SavedModel,
    SignatureDef,
    VariableDef,
)
from atcpy.parsers.tensorflow.signatures import Signature, read_signature
from atcpy.parsers.tensorflow.table import is_table

DEFAULT_TAG: Final = "serve"
DEFAULT_SIGNATURE: Final = "serving_default"
_INITIALISES: Final = "__saved_model_init_op"  # a signature that is none
_SAVED_MODEL: Final = "saved_model"
_META: Final = ".meta"
_HEAD: Final = 4096  # bytes by which a file is known
_KIND: Final = "a TensorFlow graph"
_AGAIN: Final = "copy or download it again"
_Proto = TypeVar("_Proto", bound=Message)


class Kind(Enum):
    """What a path leads to."""

    GRAPH = "frozen graph"
    SAVED_MODEL = "SavedModel"
    CHECKPOINT = "checkpoint"


@dataclass(frozen=True, slots=True)
class TfFile:
    """What a path leads to: the graph and its origin; the signature that was chosen; the signatures of the ops that
    the file describes; what says which variable is restored from where; and the prefix of the checkpoint;
    and all files that are the model.
    """

    kind: Kind
    graph: GraphDef
    source: Source
    signature: SignatureDef | None = None
    ops: Mapping[str, Signature] = field(default_factory=dict)
    restore_op: str = ""
    variables: Sequence[VariableDef] = ()
    prefix: Path | None = None
    files: Sequence[Path] = ()


@dataclass(frozen=True, slots=True)
class _Place:
    kind: Kind
    file: Path  # of the graph
    prefix: Path | None = None


def is_tensorflow(path: Path) -> bool:
    """Is this a TensorFlow graph, by what it holds?"""
    try:
        return _find(path) is not None
    except OSError:
        return False  # whose reader says why


def _find(path: Path) -> _Place | None:
    if path.is_dir():
        return _find_in_folder(path)
    name = re.sub(r"(\.index|\.meta|\.data-\d{5}-of-\d{5})$", "", path.name)
    prefix = path.with_name(name) if name else path
    if name != path.name or not path.exists():
        is_there = any(Path(f"{prefix}{end}").is_file() for end in (INDEX, _META))
        return _Place(Kind.CHECKPOINT, Path(f"{prefix}{_META}"), prefix) if is_there else None
    if path.suffix == ".pbtxt":
        return _saved_model(path) if path.stem == _SAVED_MODEL else _Place(Kind.GRAPH, path)
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if is_graphdef(head):
        return _Place(Kind.GRAPH, path)
    return _saved_model(path) if head[:3] == b"\x08\x01\x12" else None


def _find_in_folder(path: Path) -> _Place | None:
    for name in (f"{_SAVED_MODEL}.pb", f"{_SAVED_MODEL}.pbtxt"):
        if (path / name).is_file():
            return _saved_model(path / name)
    state = path / "checkpoint"
    if not state.is_file():
        return None
    proto = _parse_text(state, state.read_bytes(), CheckpointState())
    prefix = path / proto.model_checkpoint_path
    if not prefix.with_name(prefix.name + INDEX).is_file():
        prefix = path / Path(proto.model_checkpoint_path).name  # the folder was moved
    return _Place(Kind.CHECKPOINT, prefix.with_name(prefix.name + _META), prefix)


def _saved_model(file: Path) -> _Place:
    return _Place(Kind.SAVED_MODEL, file, file.parent / "variables" / "variables")


def read_file(path: Path, options: ParseOptions) -> TfFile:
    """Reads a graph, frozen or with the variables of a SavedModel or a checkpoint."""
    place = _find(path)
    if place is None:
        place = _Place(Kind.GRAPH, path)
    if place.kind is Kind.CHECKPOINT and not place.file.exists():
        what = f"{place.file.name} is missing: a checkpoint alone has no graph"
        hint = "give the SavedModel, or copy the .meta file beside the checkpoint"
        raise ModelInvalid("E13015", what, where=Where(file=str(path)), hint=hint)
    data = map_file(place.file, _KIND)
    _refuse_others(place.file, data)
    digest = hashlib.sha256(data)
    if place.kind is Kind.GRAPH:
        graph = _parse(place.file, data, GraphDef())
        _check_nodes(place.file, graph)
        return TfFile(place.kind, graph, _source(graph, digest.hexdigest(), ""), files=(place.file,))
    index = Path(f"{place.prefix}{INDEX}")
    if index.exists():
        digest.update(map_file(index, "a checkpoint"))  # which has the checksums of all elements
    if place.kind is Kind.SAVED_MODEL:
        meta = _choose_graph(place.file, _parse(place.file, data, SavedModel()), options)
    else:
        meta = _parse(place.file, data, MetaGraphDef())
    _check_nodes(place.file, meta.graph_def)
    return TfFile(
        place.kind,
        meta.graph_def,
        _source(meta.graph_def, digest.hexdigest(), meta.meta_info_def.tensorflow_version),
        _choose_signature(place.file, meta, options),
        {op.name: read_signature(op) for op in meta.meta_info_def.stripped_op_list.op},
        meta.saver_def.restore_op_name,
        list(_variables(meta)),
        place.prefix,
        [place.file, *index.parent.glob(f"{glob.escape(place.prefix.name)}.*")] if place.prefix is not None else (),
    )


def _variables(meta: MetaGraphDef) -> Iterator[VariableDef]:
    """What the collection says of variables, as far as it can be read: it is asked when nothing else is there."""
    for item in meta.collection_def["variables"].bytes_list.value:
        with suppress(DecodeError):
            yield VariableDef.FromString(item)


def _source(graph: GraphDef, sha256: str, version: str) -> Source:
    producer = f"tensorflow {version}".strip() if version else ""
    return Source(sha256, "tensorflow", (("", graph.versions.producer),), producer)


def _refuse_others(path: Path, data: memoryview) -> None:
    head = bytes(data[:_HEAD])
    if is_table(data):
        what = "the checkpoint is of version 1"
        hint = "load and save it with TensorFlow 1.x, whose tf.train.Saver writes version 2"
        raise Unsupported("E10055", what, where=Where(file=str(path)), hint=hint)
    refusal = None if path.suffix in (".pbtxt", _META) and head else what_file(head, len(data))
    if refusal is not None:
        raise no_model(path, _KIND, *refusal)
    if head[:1] == b"\x08" and len(head) > 1 and 3 <= head[1] < 0x80:  # ir_version
        raise no_model(path, _KIND, "an ONNX model", "--framework=5")


def _check_nodes(path: Path, graph: GraphDef) -> None:
    if not graph.node:
        raise ModelInvalid("E16004", f"{path.name} has no graph", where=Where(file=str(path)), hint=_AGAIN)


def _parse(path: Path, data: memoryview, proto: _Proto) -> _Proto:
    if path.suffix == ".pbtxt":
        return _parse_text(path, bytes(data), proto)
    try:
        proto.ParseFromString(data)  # type: ignore[arg-type]  # which takes every buffer
    except DecodeError as error:
        what = f"{path.name} is no TensorFlow graph, or a part of one"
        raise ModelInvalid("E10041", what, where=Where(file=str(path)), hint=_AGAIN) from error
    return proto


def _parse_text(path: Path, data: bytes, proto: _Proto) -> _Proto:
    try:
        return text_format.Parse(data.decode("utf-8"), proto, allow_unknown_field=True)
    except (text_format.ParseError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError("E13018", f"{path.name}: {error}", where=Where(file=str(path))) from error


def _choose_graph(path: Path, model: SavedModel, options: ParseOptions) -> MetaGraphDef:
    """The graph with the tags that are asked for; without any, the one to serve, or the only one."""
    asked = frozenset(options.tag_set or (DEFAULT_TAG,))
    graphs = [(frozenset(graph.meta_info_def.tags), graph) for graph in model.meta_graphs]
    for tags, graph in graphs:
        if tags == asked:
            return graph
    if not options.tag_set:
        serving = [graph for tags, graph in graphs if DEFAULT_TAG in tags]
        for few in (serving, model.meta_graphs):
            if len(few) == 1:
                return few[0]
    if not graphs:
        raise ModelInvalid("E16004", f"{path.name} has no graph", where=Where(file=str(path)), hint=_AGAIN)
    listed = " or ".join(sorted(f'"{",".join(sorted(tags))}"' for tags, _ in graphs))
    what = f'--tag_set: no graph of the SavedModel has the tags "{",".join(sorted(asked))}"'
    _refuse_choice("tag_set", what, f"it has {listed}")


def _choose_signature(path: Path, meta: MetaGraphDef, options: ParseOptions) -> SignatureDef | None:
    """The signature that is asked for; without a name the usual one, or the only one. None if there is none, or
    where --out_nodes says what is wanted.
    """
    names = sorted(name for name in meta.signature_def if name != _INITIALISES)
    listed = "it has " + ", ".join(f'"{name}"' for name in names) if names else "it has none: give --out_nodes"
    if options.signature:
        if options.signature not in names:
            what = f'--signature: {path.name} has no "{options.signature}"'
            _refuse_choice("signature", what, did_you_mean(options.signature, names) or listed)
        return meta.signature_def[options.signature]
    if DEFAULT_SIGNATURE in names or len(names) == 1:
        return meta.signature_def[DEFAULT_SIGNATURE if DEFAULT_SIGNATURE in names else names[0]]
    if names and not options.out_nodes:
        _refuse_choice("signature", f"--signature: {path.name} has several, none of them {DEFAULT_SIGNATURE}", listed)
    return None


def _refuse_choice(option: str, what: str, hint: str) -> NoReturn:
    raise UsageError("E10001", what, where=Where(option=option), hint=hint)
