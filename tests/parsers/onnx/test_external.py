"""External data: which files are read, and which paths are always refused."""

import errno
import os
import resource
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from atcpy.errors import AtcError, ModelInvalid
from atcpy.options import ParseOptions
from atcpy.parsers.onnx import import_onnx
from atcpy.parsers.onnx.external import ExternalData
from tests.parsers.onnx.canonical import parsed

VALUES = np.arange(6, dtype=np.float32)


def external_tensor(location: str, name: str = "w", **entries: object) -> onnx.TensorProto:
    tensor = onnx.TensorProto(name=name, data_type=1, dims=[6], data_location=onnx.TensorProto.EXTERNAL)
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def save(folder: Path, *tensors: onnx.TensorProto) -> Path:
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", t.name], [f"y{i}"]) for i, t in enumerate(tensors)],
        "g",
        [helper.make_tensor_value_info("x", 1, [1])],
        [helper.make_tensor_value_info(f"y{i}", 1, [6]) for i in range(len(tensors))],
        list(tensors),
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    return folder / "m.onnx"


def refusal(path: Path, **options: object) -> AtcError:
    with pytest.raises(ModelInvalid) as raised:
        import_onnx(path, ParseOptions(**options))  # type: ignore[arg-type]
    assert raised.value.code == "E13015"
    assert raised.value.exit_code == 3
    return raised.value


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder with data, and a file outside of it that must not be read."""
    inside = tmp_path / "model"
    (inside / "sub").mkdir(parents=True)
    (inside / "w.bin").write_bytes(b"\0" * 8 + VALUES.tobytes())
    (inside / "sub" / "w.bin").write_bytes(VALUES.tobytes())
    (tmp_path / "secret.bin").write_bytes(VALUES.tobytes())
    return inside


@pytest.mark.parametrize(
    "entries",
    [{"location": "w.bin", "offset": 8}, {"location": "sub/w.bin"}, {"location": "./sub/../w.bin", "offset": "08"},
     {"location": "w.bin", "offset": 8, "length": 24}, {"location": "sub//w.bin", "checksum": "00"}],
)  # fmt: skip
def test_data_inside_the_folder_is_mapped(folder: Path, entries: dict[str, object]) -> None:
    location = str(entries.pop("location"))
    graph = parsed(save(folder, external_tensor(location, **entries))).graph
    array = next(node for node in graph.nodes if node.op_type == "Const").output.array
    np.testing.assert_array_equal(array, VALUES)
    assert not array.flags.owndata


@pytest.mark.parametrize(
    ("location", "needle"),
    [
        ("", "names no file"),
        (".", "names no file"),
        ("sub/", "names no file"),
        ("../secret.bin", "leaves the model's folder"),
        ("sub/../../secret.bin", "leaves the model's folder"),
        ("/etc/passwd", "not relative"),
        ("C:w.bin", "not relative"),
        ("C:/w.bin", "not relative"),
        ("sub\\w.bin", "backslash"),
        ("..\\secret.bin", "backslash"),
        ("w.bin\0.txt", "NUL"),
        ("https://example.org/w.bin", "web address"),
        ("*/_ORT_MEM_ADDR_/*", "memory of the program"),
        ("sub", "no ordinary file"),
    ],
)
def test_forbidden_paths_are_refused(folder: Path, location: str, needle: str) -> None:
    assert needle in refusal(save(folder, external_tensor(location))).what


def test_links_are_not_followed(folder: Path) -> None:
    (folder / "link.bin").symlink_to("../secret.bin")
    (folder / "own.bin").symlink_to("w.bin")
    (folder / "up").symlink_to("..")
    for location in ("link.bin", "own.bin", "up/secret.bin"):
        assert "a link" in refusal(save(folder, external_tensor(location))).what


def test_hard_links_are_refused_unless_allowed(folder: Path) -> None:
    os.link(folder.parent / "secret.bin", folder / "hard.bin")
    path = save(folder, external_tensor("hard.bin"))
    assert "2 names" in refusal(path).what
    array = next(n for n in parsed(path, allow_hardlinks=True).graph.nodes if n.op_type == "Const").output.array
    np.testing.assert_array_equal(array, VALUES)


def test_special_files_are_refused_without_waiting(folder: Path) -> None:
    os.mkfifo(folder / "fifo.bin")
    assert "no ordinary file" in refusal(save(folder, external_tensor("fifo.bin"))).what


def test_a_model_folder_may_itself_be_a_symlink(folder: Path) -> None:
    save(folder, external_tensor("w.bin", offset=8))
    (folder.parent / "alias").symlink_to("model")
    assert len(parsed(folder.parent / "alias" / "m.onnx").graph) == 4


@pytest.mark.parametrize(
    ("entries", "needle"),
    [({"offset": "-8"}, "not a number"), ({"offset": "0x8"}, "not a number"), ({"offset": " 8"}, "not a number"),
     ({"offset": "8.0"}, "not a number"), ({"length": "abc"}, "not a number"), ({"offset": "9" * 30}, "not a number"),
     ({"offset": "٨"}, "not a number"), ({"length": 20}, "has 20 bytes"), ({"length": 28}, "has 28 bytes")],
)  # fmt: skip
def test_offsets_and_lengths_are_exact(folder: Path, entries: dict[str, object], needle: str) -> None:
    assert needle in refusal(save(folder, external_tensor("w.bin", **entries))).what


def test_a_short_or_missing_file_is_reported_once_with_sizes(folder: Path) -> None:
    tensors = [external_tensor("big.data", f"w{i}", offset=i * 4_000_000_000) for i in range(2)]
    path = save(folder, *tensors)
    assert "needs big.data (4.0 GB) beside it: it is missing" in refusal(path).what
    (folder / "big.data").write_bytes(bytes(1000))
    error = refusal(path)
    assert "found only 1000 bytes of it: the copy is incomplete" in error.what
    assert len(error.problems) == 1


def test_offsets_near_the_end_of_the_file(folder: Path) -> None:
    assert len(parsed(save(folder, external_tensor("w.bin", offset=8))).graph) == 4
    assert "incomplete" in refusal(save(folder, external_tensor("w.bin", offset=9))).what
    assert "incomplete" in refusal(save(folder, external_tensor("w.bin", offset=2**59))).what


def test_a_model_in_memory_cannot_have_external_data(folder: Path) -> None:
    model = onnx.load(save(folder, external_tensor("w.bin", offset=8)), load_external_data=False)
    with pytest.raises(ModelInvalid, match="given in memory"):
        import_onnx(model, ParseOptions())


def test_external_data_is_checked_wherever_a_tensor_may_occur(folder: Path) -> None:
    outside = external_tensor("../secret.bin")
    inner = helper.make_graph(
        [helper.make_node("Identity", ["v"], ["r"])], "b", [], [onnx.ValueInfoProto(name="r")], [outside]
    )
    inner.initializer[0].name = "v"
    sparse = onnx.SparseTensorProto(dims=[9], values=outside, indices=external_tensor("../secret.bin", "i"))
    function = helper.make_function(
        "f", "F", [], ["o"], [helper.make_node("Constant", [], ["o"], value=outside)], [helper.make_opsetid("", 17)]
    )
    flag = helper.make_tensor("flag", onnx.TensorProto.BOOL, [], [1])
    nodes = {
        "Constant": helper.make_node("Constant", [], ["y"], value=outside),
        "ConstantOfShape": helper.make_node("ConstantOfShape", ["shape"], ["y"], value=outside),
        "subgraph": helper.make_node("If", ["flag"], ["y"], then_branch=inner, else_branch=inner),
        "function": helper.make_node("F", [], ["y"], domain="f"),
        "sparse": helper.make_node("Identity", ["w"], ["y"]),
    }
    for kind, node in nodes.items():
        graph = helper.make_graph([node], "g", [], [onnx.ValueInfoProto(name="y")], [flag])
        graph.initializer.append(helper.make_tensor("shape", 7, [1], [2]))
        if kind == "sparse":
            graph.sparse_initializer.append(sparse)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("f", 1)], ir_version=8
        )
        if kind == "function":
            model.functions.append(function)
        (folder / "m.onnx").write_bytes(model.SerializeToString())
        assert "leaves the model's folder" in refusal(folder / "m.onnx").what, kind


def test_three_sparse_gigabytes_are_not_read(folder: Path) -> None:
    size = 3 << 30
    with (folder / "huge.data").open("wb") as file:
        file.truncate(size)
    tensor = external_tensor("huge.data")
    tensor.dims[:] = [size // 4]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    graph = parsed(save(folder, tensor)).graph
    assert next(node for node in graph.nodes if node.op_type == "Const").output.array.nbytes == size
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


def test_a_file_that_cannot_be_opened_is_named_with_the_reason(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(folder, external_tensor("w.bin", offset=8))
    opened = os.open

    def refuse(name: object, *args: object, **kwargs: object) -> int:
        if name == "w.bin":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return opened(name, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refuse)
    assert "needs w.bin (32 bytes) beside it: permission denied" in refusal(path).what


def test_an_empty_file_holds_a_tensor_of_no_elements(folder: Path) -> None:
    (folder / "empty.bin").touch()
    tensor = external_tensor("empty.bin")
    tensor.dims[:] = [0]
    graph = parsed(save(folder, tensor)).graph
    assert next(node for node in graph.nodes if node.op_type == "Const").output.array.shape == (0,)


def test_a_location_that_is_no_text_is_refused(folder: Path) -> None:
    path = save(folder, external_tensor("w.bin", offset=8))
    path.write_bytes(path.read_bytes().replace(b"w.bin", b"w\xff\xfein"))
    with pytest.raises(ModelInvalid):
        import_onnx(path, ParseOptions())


def test_bytes_of_a_tensor_can_be_read_again(folder: Path) -> None:
    data = ExternalData(folder)
    assert bytes(data.read(external_tensor("w.bin", offset=8))) == VALUES.tobytes()
    assert data.is_used and data.problems() == []
