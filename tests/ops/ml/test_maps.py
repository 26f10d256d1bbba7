"""ZipMap and DictVectorizer: maps are dicts, as in ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import atcpy
from atcpy.errors import ModelInvalid
from tests.ops.ml.agreement import ML
from tests.ort import open_ort

X = np.array([[0.25, 0.75], [1.0, 0.0], [0.5, 0.5]], np.float32)
LABELS: dict[str, dict[str, Any]] = {
    "numbers": {"classlabels_int64s": [4, 7]},
    "texts": {"classlabels_strings": ["no", "yes"]},
}


def zipped(labels: dict[str, Any]) -> onnx.ModelProto:
    """Build a model that doubles its input and returns it as a map from labels."""
    nodes = [
        helper.make_node("Add", ["x", "x"], ["sum"]),
        helper.make_node("ZipMap", ["sum"], ["y"], domain=ML, **labels),
    ]
    key = TensorProto.INT64 if "classlabels_int64s" in labels else TensorProto.STRING
    value = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    maps = helper.make_sequence_type_proto(helper.make_map_type_proto(key, value))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])],
        [helper.make_value_info("y", maps)],
    )
    opsets = [helper.make_opsetid(ML, 3), helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


@pytest.mark.parametrize("kind", LABELS)
def test_zip_map_gives_dicts(kind: str, tmp_path: Path) -> None:
    model = zipped(LABELS[kind])
    ort = open_ort(model)
    for shape in ({}, {"input_shape": {"x": X.shape}}):
        report = atcpy.convert(model, tmp_path / "m.om", **shape)
        assert not report.host_cpu_ops
        session = atcpy.InferenceSession(tmp_path / "m.om")
        assert session.get_outputs()[0].type == ort.get_outputs()[0].type
        for x in (X,) if shape else (X, X[:1], X[:0]):
            assert session.run(None, {"x": x}) == ort.run(None, {"x": x})


def test_selected_outputs_may_be_maps(tmp_path: Path) -> None:
    atcpy.convert(zipped(LABELS["texts"]), tmp_path / "m.om", out_nodes=["y", "sum"])
    session = atcpy.InferenceSession(tmp_path / "m.om")
    maps, scores = session.run(None, {"x": X})
    np.testing.assert_array_equal(scores, 2 * X)
    assert maps == [{"no": no, "yes": yes} for no, yes in scores.tolist()]
    assert session.run(["y"], {"x": X}) == [maps]
    assert [output.type for output in session.get_outputs()] == ["seq(map(string,tensor(float)))", "tensor(float)"]


@pytest.mark.parametrize("kind", LABELS)
def test_without_zip_map_scores_are_a_tensor(kind: str, tmp_path: Path) -> None:
    report = atcpy.convert(zipped(LABELS[kind]), tmp_path / "m.om", zipmap=False)
    assert not report.host_cpu_ops
    session = atcpy.InferenceSession(tmp_path / "m.om")
    assert session.get_outputs()[0].type == "tensor(float)"
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], 2 * X)


def test_inconsistent_labels_are_refused(tmp_path: Path) -> None:
    atcpy.convert(zipped({"classlabels_int64s": [1, 2, 3]}), tmp_path / "m.om")
    with pytest.raises(ModelInvalid, match="2 scores for 3 labels"):
        atcpy.InferenceSession(tmp_path / "m.om").run(None, {"x": X})


def test_dict_vectorizer(tmp_path: Path) -> None:
    value = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    node = helper.make_node("DictVectorizer", ["x"], ["y"], domain=ML, string_vocabulary=["b", "a", "c"])
    x = helper.make_value_info("x", helper.make_map_type_proto(TensorProto.STRING, value))
    graph = helper.make_graph([node], "g", [x], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])])
    opsets = [helper.make_opsetid(ML, 3), helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    atcpy.convert(model, tmp_path / "m.om")
    feeds = {"x": {"a": 1.5, "b": -2.0, "d": 9.0}}
    (ours,) = atcpy.InferenceSession(tmp_path / "m.om").run(None, feeds)
    (theirs,) = open_ort(model).run(None, feeds)
    assert ours.dtype == theirs.dtype
    assert ours.tolist() == theirs.tolist()
