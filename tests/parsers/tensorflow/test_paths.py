"""Model paths: moved folders, links, text files recognised by content, files that are too large."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format
from google.protobuf.message import Message

import atcpy
from atcpy.errors import AtcError
from atcpy.ir import Tensor
from atcpy.options import convert_options
from atcpy.parsers.tensorflow import import_tensorflow, is_tensorflow
from atcpy.parsers.tensorflow.locate import Kind, find_location
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import MetaGraphDef, SavedModel
from tests.parsers.tensorflow.checkpoints import signature, tensor_info, write_saved_model
from tests.parsers.tensorflow.graphs import TfBuilder, tensor_proto
from tests.parsers.tensorflow.test_saved import B, W, X, old_graph, refused, run, write_old

TENSORS = {"net/w": W, "net/b": B}
SIGNATURE = signature({"features": tensor_info("x:0", "float32", (None, 3))}, {"prob": "y:0"})


def saved(folder: Path) -> Path:
    graphs = {"serve": (old_graph(), {"serving_default": SIGNATURE}, "save/restore_all")}
    return write_saved_model(folder, graphs, TENSORS)


@pytest.mark.parametrize(
    "path", ["m.ckpt", "/home/me/train/m.ckpt", "C:\\\\train\\\\m.ckpt", "../m.ckpt", "sub/m.ckpt", "/m.ckpt"]
)
def test_the_checkpoint_of_a_moved_folder_is_found(tmp_path: Path, path: str) -> None:
    write_old(tmp_path / "moved", old_graph(), TENSORS)
    (tmp_path / "moved" / "checkpoint").write_text(f'model_checkpoint_path: "{path}"\n')
    (y,) = run(tmp_path / "moved", tmp_path, {"x": X}).values()
    assert np.array_equal(y, X @ W + B)


def test_checkpoints_outside_the_folder_are_not_used(tmp_path: Path) -> None:
    other = write_old(tmp_path / "other", old_graph(), TENSORS)
    folder = tmp_path / "folder"
    folder.mkdir()
    for path in (str(other), "../other/m.ckpt"):
        (folder / "checkpoint").write_text(f'model_checkpoint_path: "{path}"\n')
        error = refused(folder, tmp_path)
        assert error.code == "E13015"
        assert f'the newest checkpoint of the folder is "{path}", of which it has no file' in str(error)
    (folder / "checkpoint").write_text("model_checkpoint_path: m.ckpt\n")
    assert (refused(folder, tmp_path).code, refused(folder, tmp_path).where.line) == ("E13018", 1)


@pytest.mark.parametrize("file", ["m.ckpt.data-00000-of-00001", "m.ckpt.index"])
def test_checkpoint_files_that_are_links_or_pipes_are_refused(tmp_path: Path, file: str) -> None:
    prefix = write_old(tmp_path / "a", old_graph(), TENSORS)
    path, moved = tmp_path / "a" / file, tmp_path / file
    path.rename(moved)
    path.symlink_to(moved)
    error = refused(prefix, tmp_path)
    assert (error.code, "a link" in str(error), "cp -rL" in error.hint) == ("E13015", True, True)
    path.unlink()
    os.link(moved, path)
    error = refused(prefix, tmp_path)
    assert (error.code, "2 names" in str(error), error.hint) == ("E13015", True, "--allow-hardlinks")
    assert "y:0" in run(prefix, tmp_path, {"x": X}, allow_hardlinks=True)
    path.unlink()
    os.mkfifo(path)
    assert "no ordinary file" in str(refused(prefix, tmp_path))


def test_links_inside_a_saved_model_are_refused_but_its_folder_may_be_one(tmp_path: Path) -> None:
    folder = saved(tmp_path / "m")
    (tmp_path / "link").symlink_to(folder, target_is_directory=True)
    assert "prob" in run(tmp_path / "link", tmp_path, {"features": X})
    (folder / "variables").rename(tmp_path / "elsewhere")
    (folder / "variables").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    assert "leads through, a link" in str(refused(folder, tmp_path))


def write_text(path: Path, message: Message, head: str = "") -> Path:
    path.write_text(head + text_format.MessageToString(message))
    return path


def test_text_files_are_recognised_by_their_content(tmp_path: Path) -> None:
    g = TfBuilder()
    g.add("Relu", g.input("x", "float32", (1, 3)), name="y")
    for name, head in (("a.pb", ""), ("b", "# written by hand\n\n"), ("c.pbtxt", "\ufeff")):
        assert "y:0" in run(write_text(tmp_path / name, g.graph, head), tmp_path, {"x": X[:1]})
    folder = saved(tmp_path / "m")
    binary = folder / "saved_model.pb"
    model = SavedModel.FromString(binary.read_bytes())
    write_text(folder / "saved_model.pbtxt", model)
    binary.unlink()
    assert find_location(folder / "saved_model.pbtxt") == find_location(folder)
    assert "prob" in run(folder, tmp_path, {"features": X})
    prefix = write_old(tmp_path / "old", old_graph(), TENSORS)
    meta = tmp_path / "old" / "m.ckpt.meta"
    write_text(meta, MetaGraphDef.FromString(meta.read_bytes()))
    assert "y:0" in run(prefix, tmp_path, {"x": X})


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        (b'node {\n  name: "x"\n  opp {', 3, "Expected"),
        (b'node {\n  name: "x"\n  op: "\xff"\n}', 3, "line 3 is no UTF-8"),
        (b"node {" + b"attr { key: 'a' value { func { attr { key: 'a' value { func {" * 400, None, "nested too deep"),
    ],
)
def test_an_unreadable_text_file_is_reported_with_its_line(
    tmp_path: Path, content: bytes, line: int | None, message: str
) -> None:
    (tmp_path / "m.pbtxt").write_bytes(content)
    error = refused(tmp_path / "m.pbtxt", tmp_path)
    assert (error.code, error.where.line) == ("E13018", line)
    assert message in str(error)


def test_a_graph_of_more_than_two_gigabytes_is_refused_before_it_is_read(tmp_path: Path) -> None:
    g = TfBuilder()
    g.add("Relu", g.input("x", "float32", (1, 3)), name="y")
    path = tmp_path / "large.pb"
    path.write_bytes(g.graph.SerializeToString())
    os.truncate(path, 2**31 + 1)
    error = refused(path, tmp_path)
    assert (error.code, "a protobuf holds 2 GB at most" in str(error)) == ("E13023", True)


def test_a_graph_whose_first_node_has_a_long_name_is_recognised(tmp_path: Path) -> None:
    g = TfBuilder()
    g.add("Relu", g.input("x" * 300, "float32", (1, 3)), name="y")
    (tmp_path / "m.pb").write_bytes(g.graph.SerializeToString())
    assert find_location(tmp_path / "m.pb").kind is Kind.GRAPH  # type: ignore[union-attr]


def test_keras_files_are_recognised(tmp_path: Path) -> None:
    for name, content in (("m.keras", b"PK\x03\x04\x14\0metadata.json"), ("m.h5", b"\x89HDF\r\n\x1a\n")):
        (tmp_path / name).write_bytes(content)
        assert not is_tensorflow(tmp_path / name)
        assert "model.export" in refused(tmp_path / name, tmp_path).hint


# --- error messages -----------------------------------------------------------------------------------


def test_a_signature_that_names_missing_tensors_is_refused(tmp_path: Path) -> None:
    for proto, message in (
        (
            signature({"a": tensor_info("xx:0", "float32", (None, 3))}, {"prob": "y:0"}),
            'the input "a" of the signature',
        ),
        (signature({"a": tensor_info("x:0", "float32", (None, 3))}, {"b": "yy:0"}), 'the output "b" of the signature'),
    ):
        graphs = {"serve": (old_graph(), {"serving_default": proto}, "save/restore_all")}
        error = refused(write_saved_model(tmp_path / "m", graphs, TENSORS), tmp_path)
        assert (error.code, message in str(error), "did you mean" in error.hint) == ("E12009", True, True)


def test_defaults_of_a_signature_are_kept(tmp_path: Path) -> None:
    folder = saved(tmp_path / "m")
    model = SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    model.meta_graphs[0].signature_def["serving_default"].defaults["features"].CopyFrom(tensor_proto(X))
    (folder / "saved_model.pb").write_bytes(model.SerializeToString())
    parsed = import_tensorflow(folder, convert_options({}).parse)
    (default,) = [node.attrs["default"] for node in parsed.graph.inputs]
    assert isinstance(default, Tensor)
    np.testing.assert_array_equal(default.array, X)


def test_a_corrupted_checkpoint_is_reported_once(tmp_path: Path) -> None:
    prefix = write_old(tmp_path, old_graph(), TENSORS)
    (tmp_path / "m.ckpt.index").write_bytes(b"no table")
    assert len(refused(prefix, tmp_path).problems) == 1


def test_unknown_ops_are_reported_with_alternatives_and_hints(tmp_path: Path) -> None:
    g = TfBuilder()
    x = g.input("x", "float32", (1, 3))
    ops = [
        "Reluu",
        "QuantizeAndDequantizeV9",
        "RandomGammaX",
        "RandomNormalX",
        "StringJoin",
        "Lu",
        "RaggedX",
        "Unheard",
    ]
    for op in ops:
        g.add(op, x, name=op)
    with pytest.raises(AtcError) as caught:
        g.converted(tmp_path, *ops)
    (error,) = (problem for problem in caught.value.problems if problem.code == "E19010")
    assert 'Reluu (1, as "Reluu"; there is Relu)' in str(error)
    assert 'QuantizeAndDequantizeV9 (1, as "QuantizeAndDequantizeV9"; there is QuantizeAndDequantizeV' in str(error)
    assert 'Unheard (1, as "Unheard")' in str(error)
    assert "RandomGammaX, RandomNormalX: drawn at random" in error.hint
    assert "StringJoin: texts" in error.hint
    assert "Lu: linear algebra: decompose before the model" in error.hint
    assert "RaggedX: rows of different lengths: make them dense before" in error.hint


def test_missing_outputs_are_refused(tmp_path: Path) -> None:
    g = TfBuilder()
    y = g.add("Relu", g.input("x", "float32", (1, 3)), name="y")
    g.add("Neg", f"{y}:2", name="z")
    with pytest.raises(AtcError, match=r'it reads output 2 of "y" \(Relu\), which has 1') as caught:
        g.converted(tmp_path, "z")
    assert caught.value.code == "E12009"
    with pytest.raises(AtcError, match='no node "q" in the model') as caught:
        g.converted(tmp_path, "q")
    assert caught.value.hint == 'it ends with "z:0"'
    with pytest.raises(AtcError, match='"y:5" is no output of that node'):
        g.converted(tmp_path, "y:5")


# --- the layout of inputs ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "formats"),
    [
        ({}, ["NHWC", "ND", "ND"]),
        ({"input_format": "NHWC"}, ["NHWC", "ND", "ND"]),
        ({"input_format": "NCHW"}, ["NCHW", "ND", "ND"]),
        ({"input_format": "ND"}, ["ND", "ND", "ND"]),
        ({"input_format": "NDHWC"}, ["ND", "NDHWC", "ND"]),
        ({"input_format": "NCDHW"}, ["ND", "NCDHW", "ND"]),
    ],
)
@pytest.mark.parametrize("batch", [1, None])
def test_the_package_records_the_layout_of_its_inputs(
    tmp_path: Path, options: dict[str, str], formats: list[str], batch: int | None
) -> None:
    from atcpy.report.package import PackageView

    g = TfBuilder()
    shapes = [(batch, 4, 5, 3), (batch, 2, 4, 5, 3), (batch, 6)]
    names = [g.input(f"x{index}", "float32", shape) for index, shape in enumerate(shapes)]
    run = g.converted(tmp_path, *[g.add("Neg", name, name=f"y{name}") for name in names], options=options)
    feeds = {
        name: np.ones([size or 2 for size in shape], np.float32) for name, shape in zip(names, shapes, strict=True)
    }
    for output, fed in zip(run(feeds), feeds.values(), strict=True):
        np.testing.assert_array_equal(output, -fed)
    view = PackageView(tmp_path / "model.om")
    assert [port["format"] for port in view.summary()["inputs"]] == formats


def test_layouts_unknown_to_the_framework_are_refused(tmp_path: Path) -> None:
    import onnx

    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[1,2,3,4] x) => (float[1,2,3,4] y) { y = Relu(x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    atcpy.convert(tmp_path / "m.onnx", tmp_path / "m.om", input_format="NCHW")
    for layout in ("NHWC", "HWC"):
        with pytest.raises(AtcError, match="input_format") as caught:
            atcpy.convert(tmp_path / "m.onnx", tmp_path / "m.om", input_format=layout)
        assert caught.value.code == "E10001"
