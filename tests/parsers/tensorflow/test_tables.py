"""Lookups in tables that are initialised by functions, nodes, files or checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atcpy
from atcpy.errors import AtcError
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import MetaGraphDef, NodeDef, SavedModel
from tests.parsers.tensorflow.checkpoints import Array, signature, tensor_info, write_checkpoint
from tests.parsers.tensorflow.graphs import NUMBERS, DataType, TfBuilder, Type

WORDS = np.array([["the", "cat"], ["sat", "the"]], object)
IDS = [[2, 5], [-1, 2]]  # of a table {"the": 2, "cat": 5} whose default is -1


def lookup(op: str = "HashTableV2", key: str = "string", value: str = "int64") -> TfBuilder:
    """Build a lookup of x in a table, with the result y."""
    g = TfBuilder()
    g.add(op, name="table", key_dtype=Type(key), value_dtype=Type(value))
    default = g.strings("?", is_scalar=True) if value == "string" else g.const(np.array(-1, value))
    version = "V2" if op.endswith("V2") else ""
    x = g.input("x", key, (None, None))
    g.add(f"LookupTableFind{version}", "table", x, default, name="y", Tin=Type(key), Tout=Type(value))
    return g


def save(folder: Path, g: TfBuilder, tensors: dict[str, Any] | None = None, asset: str = "") -> Path:
    """Write a SavedModel whose signature has the input x and the output y."""
    meta = MetaGraphDef(graph_def=g.graph)
    infos = {"x": tensor_info("x:0", "string", (None, None))}
    meta.signature_def["serving_default"].CopyFrom(signature(infos, {"y": "y:0"}))
    meta.meta_info_def.tags.append("serve")
    if asset:
        meta.asset_file_def.add(filename=asset).tensor_info.name = "file:0"
    folder.mkdir(parents=True, exist_ok=True)
    model = SavedModel(saved_model_schema_version=1, meta_graphs=[meta])
    (folder / "saved_model.pb").write_bytes(model.SerializeToString(deterministic=True))
    write_checkpoint(folder / "variables" / "variables", tensors or {"none": np.zeros(1, np.float32)})
    return folder


def write(folder: Path, g: TfBuilder) -> Path:
    path = folder / "m.pb"
    path.write_bytes(g.graph.SerializeToString())
    return path


def run(path: Path, folder: Path, x: Array, out_nodes: str = "") -> Array:
    atcpy.convert(str(path), str(folder / "p.om"), **({"out_nodes": out_nodes} if out_nodes else {}))
    session = atcpy.InferenceSession(str(folder / "p.om"))
    (y,) = session.run(None, {"x": x})
    return np.asarray(y)


def refused(path: Path, folder: Path) -> AtcError:
    with pytest.raises(AtcError) as caught:
        atcpy.convert(str(path), str(folder / "p.om"))
    return caught.value


def initialised_by_a_function() -> TfBuilder:
    """Build a StaticHashTable as TensorFlow 2 exports it."""
    g, body = lookup(), TfBuilder()
    keys, values = g.strings("the", "cat"), g.const(np.array([2, 5], np.int64))
    body.add("LookupTableImportV2", "handle", "keys", "values", name="import")
    body.const(np.int32(1), name="one")
    types = {"handle": "resource", "keys": "string", "values": "int64"}
    function = g.function("initializer", body, types, "one")
    g.add("StatefulPartitionedCall", "table", keys, values, name="call", f=function, Tout=[Type("int32")])
    return g


def test_a_table_initialised_by_a_function(tmp_path: Path) -> None:
    y = run(save(tmp_path / "m", initialised_by_a_function()), tmp_path, WORDS)
    assert y.dtype == np.int64 and y.tolist() == IDS


def test_a_frozen_model_initialises_its_table(tmp_path: Path) -> None:
    atcpy.freeze(str(save(tmp_path / "m", initialised_by_a_function())), str(tmp_path / "frozen.pb"))
    assert run(tmp_path / "frozen.pb", tmp_path, WORDS, "y:0").tolist() == IDS


@pytest.mark.parametrize(
    ("key", "value", "keys", "values", "x", "expected"),
    [
        ("int64", "int64", [7, 3], [2, 5], [[3, 7], [1, 3]], [[5, 2], [-1, 5]]),
        ("int64", "float32", [7, 3], [0.5, 2], [[3, 1]], [[2, -1]]),
        ("int32", "int32", [7, 3], [2, 5], [[3, 1]], [[5, -1]]),
        ("int64", "string", [7, 3], ["a", "b"], [[3, 1]], [["b", "?"]]),
        ("string", "string", ["a", "b"], ["b", "a"], [["b", "c"]], [["a", "?"]]),
        ("string", "int64", ["é", ""], [1, 2], [["", "é"]], [[2, 1]]),
    ],
)
def test_keys_and_values_of_each_type(
    tmp_path: Path, key: str, value: str, keys: list[Any], values: list[Any], x: list[Any], expected: list[Any]
) -> None:
    op = "HashTable" if key == "int32" else "HashTableV2"
    g = lookup(op, key, value)
    both = [
        g.strings(*items) if kind == "string" else g.const(np.array(items, kind))
        for kind, items in ((key, keys), (value, values))
    ]
    g.add(f"InitializeTable{op.removeprefix('HashTable')}", "table", *both, name="init")
    y = run(write(tmp_path, g), tmp_path, np.array(x, object if key == "string" else key), "y:0")
    assert y.tolist() == expected and (value == "string" or y.dtype == value)


def from_file(**attrs: Any) -> TfBuilder:
    g = lookup()
    name = g.strings("/build/machine/words.txt", name="file", is_scalar=True)
    g.add("InitializeTableFromTextFileV2", "table", name, name="init", **attrs)
    return g


@pytest.mark.parametrize(
    ("text", "attrs"),
    [
        ("a\nb\nthe\n\nc\ncat\n", {"key_index": -2, "value_index": -1}),
        ("a\r\nb\r\nthe\r\n\r\nc\r\ncat", {"key_index": -2, "value_index": -1}),
        ("head\na\nb\nthe\n\nc\ncat\nsat\n", {"key_index": -2, "value_index": -1, "offset": 1, "vocab_size": 6}),
        ("2,the\n5,cat\n", {"key_index": 1, "value_index": 0, "delimiter": ","}),
        ("the\t2\ncat\t5\n", {"key_index": 0, "value_index": 1}),
    ],
)
def test_a_table_in_a_file(tmp_path: Path, text: str, attrs: dict[str, Any]) -> None:
    path = save(tmp_path / "m", from_file(**attrs), asset="words.txt")
    (path / "assets").mkdir()
    (path / "assets" / "words.txt").write_bytes(text.encode())
    assert run(path, tmp_path, WORDS).tolist() == IDS


def test_invalid_table_files_are_refused(tmp_path: Path) -> None:
    g = from_file(key_index=0, value_index=1)
    assert "words.txt is missing" in str(refused(save(tmp_path / "m", g, asset="words.txt"), tmp_path))
    (tmp_path / "m" / "assets").mkdir()
    (tmp_path / "words.txt").write_text("the\t2\n")
    for name in ("../../words.txt", str(tmp_path / "words.txt")):
        assert refused(save(tmp_path / "m", g, asset=name), tmp_path).code == "E13015"
    (tmp_path / "m" / "assets" / "words.txt").symlink_to(tmp_path / "words.txt")
    assert "is refused" in str(refused(save(tmp_path / "m", g, asset="words.txt"), tmp_path))
    (tmp_path / "m" / "assets" / "words.txt").unlink()
    (tmp_path / "m" / "assets" / "words.txt").write_text("the\t2\ncat\n")
    assert "a line without int64 in column 1" in str(refused(save(tmp_path / "m", g, asset="words.txt"), tmp_path))
    wrong = from_file(key_index=-3, value_index=1)
    assert "the table's key_index is -3" in str(refused(save(tmp_path / "m", wrong, asset="words.txt"), tmp_path))
    (tmp_path / "m" / "assets" / "words.txt").write_text(f"the\t{2**70}\n")
    assert "a line without int64 in column 1" in str(refused(save(tmp_path / "m", g, asset="words.txt"), tmp_path))
    assert "no asset of a SavedModel" in str(refused(write(tmp_path, g), tmp_path))


def test_a_table_restored_from_a_checkpoint(tmp_path: Path) -> None:
    g = lookup("MutableHashTableV2")
    names, slices = g.strings("vocabulary-keys", "vocabulary-values"), g.strings("", "")
    g.add("RestoreV2", g.strings("model"), names, slices, name="restored")
    g.add("LookupTableImportV2", "table", "restored", "restored:1", name="import")
    tensors = {"vocabulary-keys": [b"the", b"cat"], "vocabulary-values": np.array([2, 5], np.int64)}
    assert run(save(tmp_path / "m", g, tensors), tmp_path, WORDS).tolist() == IDS


def test_a_lookup_with_a_mask_token_table_size_and_branch(tmp_path: Path) -> None:
    """A mask token, the size of the table, and a lookup in a branch."""
    g = initialised_by_a_function()
    mask = g.add("Equal", "x", g.strings("cat", is_scalar=True))
    size = g.add("LookupTableSizeV2", "table")
    then, other = TfBuilder(), TfBuilder()
    then.add("LookupTableFindV2", "t", "words", "default", name="found", Tin=Type("string"), Tout=Type("int64"))
    other.add("ZerosLike", "ids", name="found", T=Type("int64"))
    types = {"t": "resource", "words": "string", "default": "int64", "ids": "int64"}
    branches = {
        "then_branch": g.function("then", then, types, "found"),
        "else_branch": g.function("else", other, types, "found"),
    }
    many = g.add("Greater", size, g.const(np.int64(1)))
    inputs = [many, "table", "x", g.const(np.int64(9)), "y"]
    found = g.add("If", *inputs, Tin=[Type(t) for t in types.values()], Tout=[Type("int64")], **branches)
    g.add("SelectV2", mask, g.add("ZerosLike", "y"), found, name="masked")
    assert run(write(tmp_path, g), tmp_path, WORDS, "masked:0").tolist() == [[2, 0], [9, 2]]


def named(g: TfBuilder, name: str) -> NodeDef:
    (node,) = [item for item in g.graph.node if item.name == name]
    return node


def without_initialiser(g: TfBuilder) -> None:
    g.graph.node.remove(named(g, "init"))


def computed_keys(g: TfBuilder) -> None:
    keys = g.input("keys", "string", (2,))
    named(g, "init").input[1] = keys


def computed_default(g: TfBuilder) -> None:
    default = g.input("default", "int64", ())
    named(g, "y").input[2] = default


def other_keys(g: TfBuilder) -> None:
    named(g, "x").attr["dtype"].type = DataType.ValueType(NUMBERS["int64"])


def fewer_values(g: TfBuilder) -> None:
    values = g.const(np.array([1], np.int64))
    named(g, "init").input[2] = values


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without_initialiser, 'nothing in the model initialises the table "table".*the SavedModel'),
        (computed_keys, '"init" fills a table with what "keys" computes.*constant keys'),
        (computed_default, 'input 2, "default", is computed'),
        (other_keys, "a table of string looks up int64"),
        (fewer_values, r"keys \[2\] and values \[1\]"),
    ],
)
def test_unsupported_lookups_are_refused(tmp_path: Path, change: Callable[[TfBuilder], None], message: str) -> None:
    g = lookup()
    keys, values = g.strings("the", "cat"), g.const(np.array([2, 5], np.int64))
    g.add("InitializeTableV2", "table", keys, values, name="init")
    assert run(write(tmp_path, g), tmp_path, WORDS, "y:0").tolist() == IDS
    change(g)
    with pytest.raises(AtcError, match=f"(?s){message}"):
        run(write(tmp_path, g), tmp_path, WORDS, "y:0")
