"""A path → the TensorFlow graph in it, what the file says of its inputs and outputs, and where its variables lie."""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NoReturn

from google.protobuf.message import DecodeError

from atcpy.errors import ModelInvalid, Unsupported, UsageError, Where, did_you_mean
from atcpy.ir import Source
from atcpy.options import ParseOptions
from atcpy.parsers.files import map_file, no_model
from atcpy.parsers.sniff import TENSORFLOW_TEXT, TEXT, what_file
from atcpy.parsers.tensorflow.bundle import INDEX
from atcpy.parsers.tensorflow.graph import main_ref
from atcpy.parsers.tensorflow.locate import META, TEXT_SUFFIX, Kind, Location, find_location
from atcpy.parsers.tensorflow.messages import AGAIN, parse_message
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import (
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
_HEAD: Final = 4096  # bytes by which a file is known
_KIND: Final = "a TensorFlow graph"


@dataclass(frozen=True, slots=True)
class TfFile:
    """What a path leads to: the graph and its origin; the signature that was chosen; the signatures of the ops that
    the file describes; other names of its functions; what says which variable is restored from where; the prefix of
    the checkpoint, and the folder that all of it lies in; and all files that are the model. `assets`: the files, in the
    folder of that name, whose names constants of the graph hold. `separate`: the prefix of a checkpoint that was saved
    without the graph and has its variables, in which keys of the graph's nodes may mean others.
    """

    kind: Kind
    graph: GraphDef
    source: Source
    signature: SignatureDef | None = None
    ops: Mapping[str, Signature] = field(default_factory=dict)
    function_aliases: Mapping[str, str] = field(default_factory=dict)
    restore_op: str = ""
    variables: Sequence[VariableDef] = ()
    prefix: Path | None = None
    root: Path | None = None
    files: Sequence[Path] = ()
    allow_hardlinks: bool = False
    assets: Mapping[str, str] = field(default_factory=dict)
    separate: Path | None = None

    def with_checkpoint(self, prefix: Path) -> TfFile:
        """The same graph with the variables of another checkpoint."""
        kind = Kind.CHECKPOINT if self.kind is Kind.GRAPH else self.kind
        return replace(self, kind=kind, separate=prefix, files=[*self.files, *_files_of(prefix)])


def read_file(path: Path, options: ParseOptions) -> TfFile:
    """Reads a graph, frozen or with the variables of a SavedModel or a checkpoint."""
    location = find_location(path) or Location(Kind.GRAPH, path)
    data = _map_graph(location, path)
    _refuse_others(location.file, data)
    if location.kind is Kind.GRAPH:
        graph = parse_message(location.file, data, GraphDef())
        _check_nodes(location.file, graph)
        return TfFile(location.kind, graph, _source(graph, _digest(location, data), ""), files=(location.file,))
    if location.kind is Kind.SAVED_MODEL:
        meta = _choose_graph(location.file, parse_message(location.file, data, SavedModel()), options)
    else:
        meta = parse_message(location.file, data, MetaGraphDef())
    _check_nodes(location.file, meta.graph_def)
    return TfFile(
        location.kind,
        meta.graph_def,
        _source(meta.graph_def, _digest(location, data), meta.meta_info_def.tensorflow_version),
        _choose_signature(location.file, meta, options),
        {op.name: read_signature(op) for op in meta.meta_info_def.stripped_op_list.op},
        dict(meta.meta_info_def.function_aliases),
        meta.saver_def.restore_op_name,
        list(_variables(meta)),
        location.prefix,
        location.root,
        [location.file, *_files_of(location.prefix)] if location.prefix is not None else (),
        options.allow_hardlinks,
        {main_ref(asset.tensor_info.name).node: asset.filename for asset in meta.asset_file_def},
    )


def digest_of(path: Path) -> str:
    """The hash by which a package knows the model that it was made from."""
    location = find_location(path) or Location(Kind.GRAPH, path)
    return _digest(location, _map_graph(location, path))


def _map_graph(location: Location, path: Path) -> memoryview:
    if location.kind is Kind.CHECKPOINT and not location.file.exists():
        what = f"{location.file.name} is missing: a checkpoint alone has no graph"
        hint = "give the SavedModel, copy the .meta file beside the checkpoint, or freeze a graph with it: --checkpoint"
        raise ModelInvalid("E13015", what, where=Where(file=str(path)), hint=hint)
    return map_file(location.file, _KIND)


def _digest(location: Location, graph: memoryview) -> str:
    digest = hashlib.sha256(graph)
    index = Path(f"{location.prefix}{INDEX}")
    if location.prefix is not None and index.exists():
        digest.update(map_file(index, "a checkpoint"))  # which has the checksums of all elements
    for asset in sorted((location.root / "assets").glob("*")) if location.kind is Kind.SAVED_MODEL else ():
        if asset.is_file() and not asset.is_symlink():  # links are refused when a table is read
            digest.update(map_file(asset, "an asset"))
    return digest.hexdigest()


def _files_of(prefix: Path) -> Iterator[Path]:
    """All files of a checkpoint."""
    return prefix.parent.glob(f"{glob.escape(prefix.name)}.*")


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
    refusal = what_file(head, len(data))
    texts = (TENSORFLOW_TEXT, TEXT) if path.suffix in (TEXT_SUFFIX, META) else (TENSORFLOW_TEXT,)
    if refusal is not None and refusal[0] not in texts:
        raise no_model(path, _KIND, *refusal)
    if head[:1] == b"\x08" and len(head) > 1 and 3 <= head[1] < 0x80:  # ir_version
        raise no_model(path, _KIND, "an ONNX model", "--framework=5")


def _check_nodes(path: Path, graph: GraphDef) -> None:
    if not graph.node:
        raise ModelInvalid("E16004", f"{path.name} has no graph", where=Where(file=str(path)), hint=AGAIN)


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
        raise ModelInvalid("E16004", f"{path.name} has no graph", where=Where(file=str(path)), hint=AGAIN)
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
