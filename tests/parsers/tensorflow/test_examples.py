"""Signatures whose inputs are inside the graph, and graphs that parse tf.train.Example."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atcpy
from atcpy.errors import AtcError
from tests.parsers.tensorflow.checkpoints import signature, tensor_info, write_saved_model
from tests.parsers.tensorflow.graphs import Array, TfBuilder, Type, attr_value, shape_proto

X = np.array([[1, 2, 3], [4, 5, 6]], np.float32)


def parser(op: str, rank: int = 1) -> TfBuilder:
    """Build a graph that parses dense features "age" float32[3] and "id" int64[] and the sparse feature "words"."""
    g = TfBuilder()
    examples = g.input("examples", "string", (None,) * rank)
    names, defaults = g.strings(), [g.const(np.zeros(0, np.float32)), g.const(np.zeros(0, np.int64))]
    attrs: dict[str, Any] = {
        "sparse_types": [Type("int64")],
        "Tdense": [Type("float32"), Type("int64")],
        "dense_shapes": [shape_proto((3,)), shape_proto(())],
    }
    if op == "ParseExampleV2":
        keys = [g.strings("words"), g.strings("age", "id"), g.strings("tags")]
        attrs |= {"num_sparse": 1, "ragged_value_types": [Type("float32")], "ragged_split_types": [Type("int32")]}
    elif op == "ParseExample":
        keys = [g.strings(text, is_scalar=True) for text in ("words", "age", "id")]
        attrs |= {"Nsparse": 1, "Ndense": 2}
    else:
        names, keys = "", []
        attrs |= {"num_sparse": 1, "sparse_keys": ["words"], "dense_keys": ["age", "id"]}
    g.add(op, *filter(None, [examples, names, *keys, *defaults]), name="parsed", **attrs)
    return g


def convert(path: Path, folder: Path, **options: Any) -> tuple[list[tuple[str, str, list[Any]]], list[str], Any]:
    report = atcpy.convert(str(path), str(folder / "p.om"), **options)
    session = atcpy.InferenceSession(str(folder / "p.om"))
    inputs = [
        (item.name, item.type, [s if isinstance(s, int) else -1 for s in item.shape or ()])
        for item in session.get_inputs()
    ]
    warnings = [f"{warning.code} {warning.message}" for warning in report.warnings if warning.code == "W0010"]
    return inputs, warnings, session


@pytest.mark.parametrize("op", ["ParseExample", "ParseExampleV2"])
def test_features_become_inputs(tmp_path: Path, op: str) -> None:
    g = parser(op)
    g.add("Mul", "parsed:3", g.const(np.float32(2)), name="age")
    g.add("Add", "parsed:4", g.const(np.int64(1)), name="id")
    g.add("SparseToDense", "parsed", "parsed:2", "parsed:1", g.const(np.int64(0)), name="words")
    (tmp_path / "m.pb").write_bytes(g.graph.SerializeToString())
    inputs, warnings, session = convert(tmp_path / "m.pb", tmp_path, out_nodes="age:0;id:0;words:0")
    assert inputs == [
        ("words/indices", "tensor(int64)", [-1, 2]),
        ("words/values", "tensor(int64)", [-1]),
        ("words/shape", "tensor(int64)", [2]),
        ("age", "tensor(float)", [-1, 3]),
        ("id", "tensor(int64)", [-1]),
    ]
    assert len(warnings) == 1 and all(f'"{name}"' in warnings[0] for name, _, _ in inputs)
    feeds: dict[str, Array] = {
        "age": X,
        "id": np.array([7, 8]),
        "words/indices": np.array([[0, 1], [1, 0]]),
        "words/values": np.array([5, 6]),
        "words/shape": np.array([2, 2]),
    }
    age, ids, words = session.run(None, feeds)
    assert np.array_equal(age, 2 * X) and ids.tolist() == [8, 9] and words.tolist() == [[0, 5], [6, 0]]


def test_ragged_features_and_single_examples(tmp_path: Path) -> None:
    g = parser("ParseExampleV2", rank=0)
    for index, name in ((3, "age"), (5, "tags"), (6, "splits")):
        g.add("Identity", f"parsed:{index}", name=name)
    (tmp_path / "m.pb").write_bytes(g.graph.SerializeToString())
    inputs, _, _ = convert(tmp_path / "m.pb", tmp_path, out_nodes="age:0;tags:0;splits:0")
    expected = [("tags/values", "tensor(float)", [-1]), ("tags/row_splits", "tensor(int32)", [-1])]
    assert inputs == [("age", "tensor(float)", [3]), *expected]
    g = parser("ParseSingleExample")
    g.add("Neg", "parsed:3", name="age")
    (tmp_path / "m.pb").write_bytes(g.graph.SerializeToString())
    inputs, _, session = convert(tmp_path / "m.pb", tmp_path, out_nodes="age:0")
    assert inputs == [("age", "tensor(float)", [3])] and session.run(None, {"age": X[0]})[0].tolist() == [-1, -2, -3]


def served(folder: Path, inputs: dict[str, tuple[str, str, tuple[int | None, ...]]]) -> Path:
    """Build a graph that parses examples and splits a feature; the outputs are a sum and the second part."""
    g = parser("ParseExample")
    g.add("Split", g.const(np.int32(0)), g.add("ExpandDims", "parsed:3", g.const(np.int32(0))), num_split=1, name="one")
    g.add("Split", g.const(np.int32(1)), g.const(np.ones((2, 4), np.float32)), num_split=2, name="parts")
    g.add("AddV2", "parts:1", "parts", name="sum")
    g.add("AddV2", "parsed:3", g.const(np.float32(1)), name="more")
    infos = {key: tensor_info(*info) for key, info in inputs.items()}
    outputs = (
        {"more": "more:0"} if "parsed" in str(inputs) or "examples" in inputs else {"sum": "sum:0", "part": "parts:1"}
    )
    return write_saved_model(folder, {"serve": (g, {"serving_default": signature(infos, outputs)}, "")}, {})


def test_a_signature_may_begin_at_any_tensor(tmp_path: Path) -> None:
    path = served(tmp_path / "m", {"age": ("parsed:3", "float32", (None, 3))})
    inputs, warnings, session = convert(path, tmp_path)
    assert inputs == [("age", "tensor(float)", [-1, 3])] and not warnings  # the shape is declared by the signature
    assert np.array_equal(session.run(None, {"age": X})[0], X + 1)
    atcpy.freeze(str(path), str(tmp_path / "frozen.pb"))
    inputs, _, session = convert(tmp_path / "frozen.pb", tmp_path, out_nodes="more:0")
    assert inputs == [("age", "tensor(float)", [-1, 3])]
    assert np.array_equal(session.run(None, {"age": X})[0], X + 1)


def test_other_outputs_of_a_fed_node_are_computed(tmp_path: Path) -> None:
    path = served(tmp_path / "m", {"first": ("parts:0", "float32", (2, 2))})
    _, _, session = convert(path, tmp_path)
    part, total = session.run(["part", "sum"], {"first": X[:, :2]})
    assert np.array_equal(part, np.ones((2, 2))) and np.array_equal(total, X[:, :2] + 1)


def test_a_signature_may_return_an_input(tmp_path: Path) -> None:
    path = served(tmp_path / "m", {"second": ("parts:1", "float32", (2, 2))})
    _, _, session = convert(path, tmp_path)
    part, total = session.run(["part", "sum"], {"second": X[:, :2]})
    assert np.array_equal(part, X[:, :2]) and np.array_equal(total, X[:, :2] + 1)


def test_a_signature_of_serialized_examples(tmp_path: Path) -> None:
    path = served(tmp_path / "m", {"examples": ("examples:0", "string", (None,))})
    inputs, warnings, _ = convert(path, tmp_path)
    assert inputs == [("age", "tensor(float)", [-1, 3])] and len(warnings) == 1


@pytest.mark.parametrize("tensor", ["nothing:0", "sum:1"])
def test_a_missing_tensor_is_refused(tmp_path: Path, tensor: str) -> None:
    with pytest.raises(AtcError, match=rf'the input "x" of the signature is "{tensor}"') as caught:
        convert(served(tmp_path / "m", {"x": (tensor, "float32", (2, 2))}), tmp_path)
    assert caught.value.code == "E12009"


@pytest.mark.parametrize(("count", "message"), [(1, "1, 2, 0 keys .* but 1, 1, 0 types"), (3, "but 1, 3, 0 types")])
def test_inconsistent_keys_and_types_are_refused(tmp_path: Path, count: int, message: str) -> None:
    g = parser("ParseSingleExample")
    g.add("Neg", "parsed:3", name="age")
    (node,) = [item for item in g.graph.node if item.name == "parsed"]
    node.attr["Tdense"].CopyFrom(attr_value([Type("float32")] * count))
    (tmp_path / "m.pb").write_bytes(g.graph.SerializeToString())
    with pytest.raises(AtcError, match=message) as caught:
        convert(tmp_path / "m.pb", tmp_path, out_nodes="age:0")
    assert caught.value.code == "E12009"


def test_computed_keys_are_refused(tmp_path: Path) -> None:
    g = parser("ParseExample")
    g.add("Neg", "parsed:3", name="age")
    (node,) = [item for item in g.graph.node if item.name == "parsed"]
    node.input[3] = g.input("key", "string", ())
    (tmp_path / "m.pb").write_bytes(g.graph.SerializeToString())
    with pytest.raises(AtcError, match='the keys of features are computed by "key"'):
        convert(tmp_path / "m.pb", tmp_path, out_nodes="age:0")
