import gzip
import hashlib
import os
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import atcpy
from atcpy.errors import AtcError, ModelInvalid, Unsupported, UsageError
from atcpy.options import ParseOptions
from atcpy.parsers.onnx import import_onnx, read_model, wire
from tests.parsers.onnx.canonical import parsed

TEXT = '<ir_version: 8, opset_import: ["" : 17]> g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }'


def small_model() -> onnx.ModelProto:
    model = onnx.parser.parse_model(TEXT)
    model.producer_name, model.producer_version = "pytorch", "2.4"
    return model


def graphdef() -> bytes:
    """node { name: "input" op: "Placeholder" }, serialized as by TensorFlow."""
    node = b"\x0a\x05input\x12\x0bPlaceholder"
    return b"\x0a" + bytes([len(node)]) + node


FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:1234\nsize 99\n", "git-lfs pointer"),
    "page": (b"<!DOCTYPE html>\n<html><head>", "web page"),
    "package": (b"IMOD" + bytes(252), "compiled package"),
    "json": (b'{"nodes": []}', "JSON"),
    "text": (b"conv1 3 3\nconv2 3 3\n", "text"),
    "onnx_text": (TEXT.encode(), "ONNX text form"),
    "pbtxt": (b'node {\n  name: "x"\n}\n', "TensorFlow graph in text form"),
    "graphdef": (graphdef(), "TensorFlow graph (GraphDef)"),
    "saved_model": (b"\x08\x01\x12\x10\x0a\x0e\x12\x05serve\xff\xfe\xfd\xfc\xfb\xfa\xf9", "saved_model.pb"),
    "keras": (b"\x89HDF\r\n\x1a\n" + bytes(100), "HDF5"),
    "tflite": (b"\x1c\0\0\0TFL3" + bytes(100), "TensorFlow Lite"),
    "pickle": (b"\x80\x02}q\x00.", "pickle"),
    "gzip": (gzip.compress(b"abc"), "gzip"),
    "zeros": (bytes(4096), "unfinished download"),
    "safetensors": (b"\x40\0\0\0\0\0\0\0" + b'{"w":{"dtype":"F32"', "safetensors"),
    "noise": (b"\xff\xfe\x00\x01" * 100, "damaged"),
    "xml": (b"<?xml version='1.0'?><net/>", "OpenVINO"),
    "picture": (b"\x89PNG\r\n\x1a\n", "picture"),
}


@pytest.mark.parametrize("name", FILES)
def test_the_format_of_a_wrong_file_is_named(name: str, tmp_path: Path) -> None:
    content, needle = FILES[name]
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelInvalid) as raised:
        read_model(path)
    error = raised.value
    assert (error.code, error.exit_code) == ("E10041", 3)
    assert needle in error.what
    assert error.hint
    assert error.where.file == str(path)


@pytest.mark.parametrize("producer", ["CNTK", "", "pytorch" * 30])
def test_onnx_ir_version_1_is_not_taken_for_a_saved_model(producer: str, tmp_path: Path) -> None:
    """IR version 1 followed by a producer's name has the same first bytes as a SavedModel."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 1]> g (float[2] x) => (float[2] y) {y = Relu(x)}'
    )
    model.ir_version, model.producer_name = 1, producer
    del model.opset_import[:]
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    x = np.array([-1, 2], np.float32)
    atcpy.convert(path, tmp_path / "m.om")
    np.testing.assert_array_equal(atcpy.InferenceSession(tmp_path / "m.om").run(None, {"x": x})[0], [0, 2])
    atcpy.optimize(path, tmp_path / "o.onnx", verify=False)
    assert [(entry.domain, entry.version) for entry in onnx.load(tmp_path / "o.onnx").opset_import] == [("", 1)]


def test_each_wrong_file_has_its_own_message() -> None:
    assert len({needle for _, needle in FILES.values()}) == len(FILES)


def test_zip_files_and_pytorch_checkpoints_are_distinguished(tmp_path: Path) -> None:
    for name, needle in (("archive/data.pkl", "PyTorch checkpoint"), ("readme", "zip archive")):
        with zipfile.ZipFile(tmp_path / "m.onnx", "w") as archive:
            archive.writestr(name, "x")
        with pytest.raises(ModelInvalid, match=needle):
            read_model(tmp_path / "m.onnx")


def test_a_truncated_model_says_how_much_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(small_model().SerializeToString()[:-20])
    with pytest.raises(ModelInvalid, match=r"ends \d+ bytes too early"):
        read_model(path)


def test_every_truncation_is_refused_or_is_a_model(tmp_path: Path) -> None:
    path, whole = tmp_path / "m.onnx", small_model().SerializeToString()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(AtcError) as raised:
            import_onnx(path, ParseOptions())
        assert raised.value.exit_code in (3, 4)


def test_every_corrupted_byte_is_refused_or_read(tmp_path: Path) -> None:
    path, whole = tmp_path / "m.onnx", small_model().SerializeToString()
    refused = 0
    for offset in range(len(whole)):
        for value in (0, 0x7F, 0xFF, whole[offset] ^ 1):
            path.write_bytes(whole[:offset] + bytes([value]) + whole[offset + 1 :])
            try:
                import_onnx(path, ParseOptions())
            except AtcError as error:
                assert error.exit_code in (3, 4)
                refused += 1
    assert refused > len(whole)


def test_a_missing_file_suggests_a_similar_name(tmp_path: Path) -> None:
    onnx.save(small_model(), tmp_path / "resnet50.onnx")
    with pytest.raises(UsageError) as raised:
        read_model(tmp_path / "resnet5.onnx")
    assert (raised.value.code, raised.value.hint) == ("E10410", 'did you mean "resnet50.onnx"?')
    with pytest.raises(UsageError) as raised:
        read_model(tmp_path / "nowhere" / "m.onnx")
    assert "nowhere does not exist either" in raised.value.hint


def test_kinds_of_folders_are_distinguished(tmp_path: Path) -> None:
    with pytest.raises(ModelInvalid, match="it is a folder"):
        read_model(tmp_path)
    onnx.save(small_model(), tmp_path / "m.onnx")
    with pytest.raises(ModelInvalid) as raised:
        read_model(tmp_path)
    assert "m.onnx" in raised.value.hint
    (tmp_path / "saved_model.pb").write_bytes(b"x")
    with pytest.raises(ModelInvalid, match="SavedModel"):
        read_model(tmp_path)


def test_a_fifo_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m.onnx")
    with pytest.raises(ModelInvalid, match="no ordinary file"):
        read_model(tmp_path / "m.onnx")


def test_the_header_is_checked() -> None:
    model = small_model()
    model.ClearField("ir_version")
    with pytest.raises(ModelInvalid, match="no ir_version"):
        read_model(model)
    model.ir_version = 99
    with pytest.raises(Unsupported, match="IR version 99"):
        read_model(model)
    with pytest.raises(ModelInvalid, match="has no graph") as raised:
        read_model(onnx.ModelProto(ir_version=8))
    assert raised.value.code == "E16004"


def test_a_tensor_file_is_not_taken_for_a_model(tmp_path: Path) -> None:
    path = tmp_path / "input_0.pb"
    path.write_bytes(numpy_helper.from_array(np.ones((2, 3), np.float32), "x").SerializeToString())
    with pytest.raises(ModelInvalid) as raised:
        read_model(path)
    assert raised.value.code in ("E16004", "E10041")


def test_the_source_records_the_hash_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(small_model(), path)
    source = read_model(path).source
    assert source.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (source.framework, source.producer, source.opsets) == ("onnx", "pytorch 2.4", (("ai.onnx", 17),))
    assert read_model(small_model()).source.sha256 == read_model(small_model()).source.sha256


def large_model(tmp_path: Path) -> tuple[Path, onnx.ModelProto]:
    weights = [np.arange(count, dtype=np.float32).reshape(-1, 4) for count in (40_000, 8, 2_400_000)]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", f"w{i}"], [f"y{i}"]) for i in range(3)],
        "g",
        [helper.make_tensor_value_info("x", 1, None)],
        [helper.make_tensor_value_info(f"y{i}", 1, None) for i in range(3)],
        [numpy_helper.from_array(weight, f"w{i}") for i, weight in enumerate(weights)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "large.onnx")
    return tmp_path / "large.onnx", model


def test_large_weights_stay_in_the_file(tmp_path: Path) -> None:
    path, model = large_model(tmp_path)
    file = read_model(path)
    assert sorted(file.external.inline) == [0, 2]
    assert file.model.ByteSize() < 10_000
    graph = parsed(path).graph
    for node in graph.nodes:
        if node.op_type == "Const":
            tensor = model.graph.initializer[int(node.name[1:])]
            np.testing.assert_array_equal(node.output.array, numpy_helper.to_array(tensor))
            assert node.name == "w1" or not node.output.array.flags.owndata


def test_splitting_off_weights_preserves_the_other_fields(tmp_path: Path) -> None:
    path, model = large_model(tmp_path)
    split = wire.split_weights(memoryview(path.read_bytes()))
    assert split is not None
    model_without_weights, weights = onnx.ModelProto.FromString(split[0]), split[1]
    for index, raw in weights.items():
        model_without_weights.graph.initializer[index].raw_data = bytes(raw)
    assert model_without_weights == model


def test_unusual_files_are_not_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MIN_FILE", 1 << 12)  # each field is read in Python
    filler = bytes(wire.MIN_FILE)
    assert wire.split_weights(memoryview(filler)) is None
    twice = b"\x3a\x00" * (wire.MIN_FILE // 2)
    assert wire.split_weights(memoryview(twice)) is None
    too_long = b"\x3a\xff\xff\xff\xff\x0f" + filler
    assert wire.split_weights(memoryview(too_long)) is None
