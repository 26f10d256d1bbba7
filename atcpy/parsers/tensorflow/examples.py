"""Parsing of tf.train.Example, which a package does not do: the features that it gives become the model's inputs.

ParseExample(serialized, names, sparse keys…, dense keys…, defaults…)
  → indices of each sparse feature, their values, their shapes, the dense features; V2 then: values and row splits of
    each ragged feature
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from atcpy.errors import ModelInvalid, Unsupported, Where
from atcpy.parsers.tensorflow.graph import Ref, TfGraph, TfNode, constant_of, redirect
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import DataType, TensorShapeProto

_PARSERS: Final = frozenset({"ParseExample", "ParseExampleV2", "ParseSingleExample"})


@dataclass(frozen=True, slots=True)
class _Feature:
    """What a parser gives for a key: one of its outputs, with its element type and shape, −1 for unknown sizes."""

    name: str
    dtype: int
    shape: tuple[int, ...]


def feed_features(graph: TfGraph, taken: Sequence[str]) -> tuple[TfGraph, dict[str, TfNode]]:
    """Return the graph with placeholders instead of the features that it parses, and these by the names that users
    know them by: their keys. `taken` are the names of other inputs.
    """
    parsers = [node for node in graph.nodes.values() if node.op in _PARSERS]
    if not parsers:
        return graph, {}
    read = {ref for node in graph.nodes.values() for ref in node.inputs}.union(graph.outputs)
    nodes, inputs, fed = dict(graph.nodes), dict[str, TfNode](), dict[Ref, Ref]()
    for parser in parsers:
        for index, feature in enumerate(_features(parser, graph.nodes)):
            if (ref := Ref(parser.name, index)) in read:
                name = feature.name
                if name in taken or name in inputs:
                    name = f"{parser.name}/{name}"
                if name in taken or name in inputs:
                    where = Where(node=parser.name, op=parser.op)
                    raise ModelInvalid("E12009", f'two features are named "{feature.name}"', where=where)
                node = placeholder(f"{parser.name}/feature_{index}", feature.dtype, _shape(feature.shape), nodes)
                nodes[node.name] = inputs[name] = node
                fed[ref] = Ref(node.name, 0)
    texts = {name for name in graph.inputs if graph.nodes[name].attrs.get("dtype") == DataType.DT_STRING}
    # What was parsed is no input any more, unless something else reads it; `needed` keeps that.
    others = [name for name in graph.inputs if name not in texts]
    return redirect(TfGraph(nodes, others, graph.outputs), fed), inputs


def placeholder(stem: str, dtype: int, shape: TensorShapeProto, nodes: Mapping[str, TfNode]) -> TfNode:
    """Return an input whose name begins with `stem`, and that no node of the graph has."""
    name = stem
    while name in nodes:
        name += "_"
    return TfNode(name, "Placeholder", (), {"dtype": dtype, "shape": shape})


def _shape(sizes: Sequence[int]) -> TensorShapeProto:
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in sizes])


def _features(parser: TfNode, nodes: Mapping[str, TfNode]) -> Iterator[_Feature]:
    """Yield what each output of a parser is, in order."""
    sparse, dense, ragged = _keys(parser, nodes)
    batch = _batch(parser, nodes)
    rank = len(batch) + 1
    yield from (_Feature(f"{key}/indices", DataType.DT_INT64, (-1, rank)) for key in sparse)
    for key, dtype in zip(sparse, _types(parser, "sparse_types"), strict=True):
        yield _Feature(f"{key}/values", dtype, (-1,))
    yield from (_Feature(f"{key}/shape", DataType.DT_INT64, (rank,)) for key in sparse)
    shapes = _shapes(parser)
    for key, dtype, shape in zip(dense, _types(parser, "Tdense"), shapes, strict=True):
        yield _Feature(key, dtype, (*batch, *(dim.size for dim in shape.dim)))
    for key, dtype in zip(ragged, _types(parser, "ragged_value_types"), strict=True):
        yield _Feature(f"{key}/values", dtype, (-1,))
    for key, dtype in zip(ragged, _types(parser, "ragged_split_types"), strict=True):
        yield _Feature(f"{key}/row_splits", dtype, (-1,))


def _keys(parser: TfNode, nodes: Mapping[str, TfNode]) -> tuple[list[str], list[str], list[str]]:
    """The keys of the sparse, dense and ragged features: attributes or constant inputs, as the version has them."""
    counts = [len(_types(parser, name)) for name in ("sparse_types", "Tdense", "ragged_value_types")]
    if parser.op == "ParseSingleExample":
        found = [[*map(_text, _items(parser, name))] for name in ("sparse_keys", "dense_keys")] + [[]]
    elif parser.op == "ParseExampleV2":
        found = [_constants(parser, index, index + 1, nodes) for index in (2, 3, 4)]
    else:
        ends = (2, 2 + counts[0], 2 + counts[0] + counts[1])
        found = [_constants(parser, *ends[:2], nodes), _constants(parser, *ends[1:], nodes), []]
    if [*map(len, found)] != counts or len(_shapes(parser)) != counts[1]:
        what = f"it has {', '.join(str(len(keys)) for keys in found)} keys of sparse, dense and ragged features, "
        what += f"but {', '.join(map(str, counts))} types and {len(_shapes(parser))} shapes of known rank"
        raise ModelInvalid("E12009", what, where=Where(node=parser.name, op=parser.op))
    sparse, dense, ragged = found
    return sparse, dense, ragged


def _constants(parser: TfNode, start: int, end: int, nodes: Mapping[str, TfNode]) -> list[str]:
    keys: list[str] = []
    for ref in parser.inputs[start:end]:
        array = constant_of(nodes, ref)
        if array is None:
            what = f'the keys of features are computed by "{ref.node}"'
            hint = "give constant keys to tf.io.parse_example"
            raise Unsupported("E10055", what, where=Where(node=parser.name, op=parser.op), hint=hint)
        keys += map(str, array.reshape(-1))
    return keys


def _text(item: object) -> str:
    return item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item)


def _items(node: TfNode, name: str) -> tuple[object, ...]:
    items = node.attrs.get(name, ())
    return items if isinstance(items, tuple) else ()


def _shapes(node: TfNode) -> tuple[TensorShapeProto, ...]:
    shapes = _items(node, "dense_shapes")
    return tuple(shape for shape in shapes if isinstance(shape, TensorShapeProto) and not shape.unknown_rank)


def _types(node: TfNode, name: str) -> tuple[int, ...]:
    return tuple(item for item in _items(node, name) if isinstance(item, int))


def _batch(parser: TfNode, nodes: Mapping[str, TfNode]) -> tuple[int, ...]:
    """The dims in front of each feature's own: none where one example is parsed, one where a list is."""
    if parser.op == "ParseSingleExample":
        return ()
    source = nodes.get(parser.inputs[0].node) if parser.inputs else None
    shape = source.attrs.get("shape") if source is not None and source.op == "Placeholder" else None
    known = isinstance(shape, TensorShapeProto) and not shape.unknown_rank
    return () if known and isinstance(shape, TensorShapeProto) and not shape.dim else (-1,)
