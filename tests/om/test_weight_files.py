"""Weights in files beside the package: what is written, what is read, and that no other file is taken for one."""

from __future__ import annotations

import errno
import json
import mmap
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import atcpy
from atcpy import InferenceSession
from atcpy.cli.app import execute
from atcpy.errors import AtcError, InternalError, PackageCorrupt, Unsupported, UsageError
from atcpy.ir import DType, Region, Slot, TensorDesc
from atcpy.ir.symbolic import Tracer
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels
from atcpy.om import weight_files, weight_placement, writer
from atcpy.om.container import Partition, Verify, parse, reseal
from atcpy.om.package import read_package
from atcpy.om.reader import read_model
from atcpy.om.schema.ge_ir_pb2 import ModelDef, TensorDescriptor
from atcpy.om.schema.task_pb2 import ModelTaskDef
from atcpy.options import ExternalWeight, convert_options
from atcpy.report.package import PackageView
from atcpy.stages.pipeline import compile_model
from tests.models_in_text import model
from tests.om import sample
from tests.om.signing_keys import write_keys

TEXT = """wide (float[4,60] x) => (float[4,70] y, float[4,60] z)
    <float[60,70] w, float[70] b, float[60,60] v, float[60] small> {
    h = MatMul(x, w)  y = Add(h, b)  m = MatMul(x, v)  z = Mul(m, small) }"""
FEEDS = {"x": np.random.default_rng(0).standard_normal((4, 60)).astype(np.float32)}
HOW = ["1", "2"]


def other_model() -> onnx.ModelProto:
    """The same model with other weights."""
    changed = model(TEXT)
    for tensor in changed.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) + 1, tensor.name))
    return changed


def results(path: Path, **options: object) -> list[Array]:
    found: list[Array] = InferenceSession(path, threads=1, **options).run(None, FEEDS)  # type: ignore[arg-type]
    return found


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The model with its weights inside, in files, and in one file."""
    paths = {how: tmp_path_factory.mktemp(f"how{how}") / "wide.om" for how in ("0", *HOW)}
    for how, path in paths.items():
        atcpy.convert(model(TEXT), path, external_weight=how)
    return paths


@pytest.fixture(params=HOW)
def path(request: pytest.FixtureRequest, converted: dict[str, Path], tmp_path: Path) -> Path:
    """A copy of a package with files, for a test to change."""
    shutil.copytree(converted[request.param].parent, tmp_path / "copy")
    return tmp_path / "copy" / "wide.om"


def weight_file(path: Path) -> Path:
    """The largest file beside a package."""
    return max((path.parent / "weight").iterdir(), key=lambda file: file.stat().st_size)


# ---- what is written


def test_large_weights_are_in_files_that_are_named_by_what_is_in_them(converted: dict[str, Path]) -> None:
    names = sorted(file.name for file in (converted["1"].parent / "weight").iterdir())
    assert len(names) == 2 and all(len(name) == len("weight_") + 64 for name in names)
    assert [file.name for file in (converted["2"].parent / "weight").iterdir()] == ["wide_weight_combined"]
    assert all(
        file.stat().st_size > weight_placement.MIN_BYTES for file in (converted["1"].parent / "weight").iterdir()
    )


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("options", [{}, {"mmap": False}, {"verify": "header"}], ids=str)
def test_results_are_those_of_weights_in_the_package(
    how: str, options: dict[str, object], converted: dict[str, Path]
) -> None:
    for ours, expected in zip(results(converted[how], **options), results(converted["0"]), strict=True):
        np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("how", HOW)
def test_the_graph_has_its_constants(how: str, converted: dict[str, Path]) -> None:
    found, expected = (
        {node.name: node.output.array for node in read_model(read_package(path)).graph.nodes if node.op_type == "Const"}
        for path in (converted[how], converted["0"])
    )
    assert found.keys() == expected.keys() and len(found) == 3
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


def test_constants_in_files_are_file_constants_of_ge(converted: dict[str, Path]) -> None:
    opened = read_package(converted["1"])
    definition = ModelDef.FromString(bytes(opened.container.partition(Partition.MODEL_DEF)))
    constants = [op for op in definition.graph[0].op if op.type == "FileConstant"]
    assert len(constants) == 2
    for op in constants:
        file = converted["1"].parent / op.attr["location"].s.decode()
        assert file.stat().st_size == op.attr["length"].i and op.attr["offset"].i == 0
        assert "value" not in op.attr


def test_the_same_model_makes_the_same_files(tmp_path: Path) -> None:
    for how in HOW:
        for folder in ("a", "b"):
            (tmp_path / folder).mkdir(exist_ok=True)
            atcpy.convert(model(TEXT), tmp_path / folder / f"m{how}.om", external_weight=int(how))
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")


def same_numbers_of_two_shapes() -> onnx.ModelProto:
    """Two constants of equal bytes, one of which is used twice."""
    numbers = np.arange(4096, dtype=np.float32)
    constants = [
        numpy_helper.from_array(numbers.reshape(shape), name) for name, shape in (("a", (64, 64)), ("b", (4096,)))
    ]
    nodes = [
        helper.make_node("Mul", ["x", "a"], ["m"]),
        helper.make_node("Sub", ["m", "a"], ["y"]),
        helper.make_node("Mul", ["v", "b"], ["z"]),
    ]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in
             (("x", [64, 64]), ("v", [4096]), ("y", [64, 64]), ("z", [4096]))]  # fmt: skip
    graph = helper.make_graph(nodes, "twins", ports[:2], ports[2:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_equal_constants_share_a_file_also_those_of_two_packages(tmp_path: Path) -> None:
    for name in ("a", "b"):
        report = atcpy.convert(same_numbers_of_two_shapes(), tmp_path / f"{name}.om", external_weight=1)
        assert (report.weight_files.count, report.weight_files.bytes) == (1, 16384)
    assert len(list((tmp_path / "weight").iterdir())) == 1
    x, v = np.ones((64, 64), np.float32), np.ones(4096, np.float32)
    y, z = InferenceSession(tmp_path / "a.om").run(None, {"x": x, "v": v})
    np.testing.assert_array_equal(y, np.zeros((64, 64)))
    np.testing.assert_array_equal(z, np.arange(4096))


def test_no_more_than_so_many_files_are_written(
    converted: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weight_placement, "MAX_FILES", 1)
    report = atcpy.convert(model(TEXT), tmp_path / "m.om", external_weight=1)
    (file,) = (tmp_path / "weight").iterdir()
    assert (report.weight_files.count, report.weight_files.bytes) == (1, file.stat().st_size)
    assert file.stat().st_size >= 60 * 70 * 4  # the largest
    np.testing.assert_array_equal(results(tmp_path / "m.om")[0], results(converted["0"])[0])


def test_a_model_without_large_weights_has_no_files(tmp_path: Path) -> None:
    small = model("small (float[4] x) => (float[4] y) <float[4] w> { y = Mul(x, w) }")
    for how in HOW:
        report = atcpy.convert(small, tmp_path / "m.om", external_weight=how)
        assert report.weight_files.count == 0
    assert os.listdir(tmp_path) == ["m.om"]


def test_open_dims_and_gears_find_their_weights_in_files(tmp_path: Path) -> None:
    text = "open (float[b,60] x) => (float[b,70] y) <float[60,70] w> { m = MatMul(x, w)  y = Softmax(m) }"
    expected: Array | None = None
    for options in ({}, {"input_shape": "x:-1,60", "dynamic_dims": "4;8"}):
        for how in ("0", *HOW):
            target = tmp_path / f"m{how}{len(options)}.om"
            atcpy.convert(model(text), target, external_weight=how, **options)
            (y,) = InferenceSession(target).run(None, FEEDS)
            expected = y if expected is None else expected
            np.testing.assert_allclose(y, expected, rtol=1e-5)


def test_a_combined_file_and_a_verdict_exclude_each_other(tmp_path: Path) -> None:
    onnx.save(model(TEXT), tmp_path / "m.onnx")
    arguments = ["convert", "--model", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m"), "--verify", "--quiet"]
    assert execute([*arguments, "--external_weight=2"]) == 2
    assert execute([*arguments, "--external_weight=1"]) == 0
    assert sorted(os.listdir(tmp_path)) == ["m.om", "m.onnx", "weight"]


def test_atc_takes_the_option_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where it writes fusion_result.json
    onnx.save(model(TEXT), tmp_path / "m.onnx")
    arguments = ["atc", f"--model={tmp_path / 'm.onnx'}", "--framework=5", f"--output={tmp_path / 'm'}"]
    arguments.append("--soc_version=Ascend910")
    assert execute([*arguments, "--external_weight=2"]) == 0
    assert os.listdir(tmp_path / "weight") == ["m_weight_combined"]
    assert execute([*arguments, "--external_weight=3"]) == 2


# ---- all or nothing


def test_what_fails_before_the_package_is_renamed_leaves_all_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files_of(path.parent)
    other = compile_model(other_model(), convert_options({}))[0]

    def refuse() -> None:
        raise UsageError("E13003", "the model was changed")

    for how in (ExternalWeight.FILES, ExternalWeight.COMBINED):
        with pytest.raises(UsageError):
            writer.write(path, other, external=how, check=refuse)
        assert files_of(path.parent) == before
    rename = os.rename

    def fail_last(source: str, target: str, **folders: int) -> None:
        if target == "wide.om":
            raise OSError(5, "disk")
        rename(source, target, **folders)

    monkeypatch.setattr(os, "rename", fail_last)
    with pytest.raises(AtcError):
        writer.write(path, other, external=ExternalWeight.FILES)
    assert files_of(path.parent) == before


def test_a_folder_that_was_made_for_nothing_is_removed(tmp_path: Path) -> None:
    compiled = compile_model(model(TEXT), convert_options({}))[0]

    def refuse() -> None:
        raise UsageError("E13003", "the model was changed")

    with pytest.raises(UsageError):
        writer.write(tmp_path / "m.om", compiled, external=ExternalWeight.FILES, check=refuse)
    assert os.listdir(tmp_path) == []


def test_a_link_in_the_place_of_the_folder_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "weight").symlink_to("elsewhere")
    with pytest.raises(UsageError, match="E13004"):
        atcpy.convert(model(TEXT), tmp_path / "m.om", external_weight=1)
    assert os.listdir(tmp_path / "elsewhere") == []


def test_a_package_that_is_a_link_has_its_files_where_it_really_is(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link.om").symlink_to(path)
    np.testing.assert_array_equal(results(tmp_path / "link.om")[0], results(path)[0])
    before = files_of(path.parent)
    atcpy.convert(model(TEXT), tmp_path / "link.om", external_weight="2" if len(before) == 2 else "1")
    assert files_of(path.parent) == before and not (tmp_path / "weight").exists()


# ---- files that are not those


def remove(file: Path) -> None:
    file.unlink()


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 1)


def lengthen(file: Path) -> None:
    with file.open("ab") as stream:
        stream.write(b"\0")


def change(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[1000] ^= 1
    file.write_bytes(content)


def link(file: Path) -> None:
    moved = file.rename(file.parent.parent / "moved")
    file.symlink_to(moved)


def link_folder(file: Path) -> None:
    folder = file.parent.rename(file.parent.parent / "moved")
    file.parent.symlink_to(folder)


def fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def remove_folder(file: Path) -> None:
    shutil.rmtree(file.parent)


CHANGES: list[tuple[Callable[[Path], None], str]] = [
    (remove, "P0004"), (remove_folder, "P0004"), (cut, "P0004"), (lengthen, "P0005"), (change, "P0003"),
    (link, "P0005"), (link_folder, "P0005"), (fifo, "P0005"), (folder, "P0005"),
]  # fmt: skip


@pytest.mark.parametrize(("break_it", "code"), CHANGES, ids=lambda value: getattr(value, "__name__", value))
@pytest.mark.parametrize("mmap", [True, False])
def test_another_file_is_refused(break_it: Callable[[Path], None], code: str, mmap: bool, path: Path) -> None:
    break_it(weight_file(path))
    for verify in Verify:
        if break_it is change and verify is Verify.HEADER:
            continue  # as for weights in the package: nobody reads them
        with pytest.raises(PackageCorrupt) as caught:
            InferenceSession(path, mmap=mmap, verify=verify)
        assert (caught.value.code, caught.value.exit_code) == (code, 7)
        assert "weight" in str(caught.value) and caught.value.hint


def test_the_combined_file_of_another_conversion_is_noticed_without_reading_it(
    converted: dict[str, Path], tmp_path: Path
) -> None:
    """Its name does not say what is in it, unlike those of files for one constant each."""
    path = Path(shutil.copytree(converted["2"].parent, tmp_path / "copy")) / "wide.om"
    old, size = path.read_bytes(), weight_file(path).stat().st_size
    results(path, verify="header")
    atcpy.convert(other_model(), path, external_weight=2)
    assert weight_file(path).stat().st_size == size
    path.write_bytes(old)
    with pytest.raises(PackageCorrupt, match="P0003"):
        InferenceSession(path, verify="header")


def test_bytes_in_memory_have_no_files_beside_them(path: Path) -> None:
    with pytest.raises(PackageCorrupt) as caught:
        InferenceSession(path.read_bytes())
    assert caught.value.code == "P0004" and "path" in caught.value.hint


@pytest.mark.parametrize("break_it", [cut, lengthen, change], ids=lambda value: value.__name__)
def test_a_session_refuses_to_go_on_when_a_file_was_changed(break_it: Callable[[Path], None], path: Path) -> None:
    session = InferenceSession(path, threads=1)
    session.run(None, FEEDS)
    break_it(weight_file(path))
    for _ in range(2):
        with pytest.raises(PackageCorrupt) as caught:
            session.run(None, FEEDS)
        assert caught.value.code == "P0009" and "weight" in caught.value.what


def test_what_is_read_into_memory_or_removed_stays(path: Path) -> None:
    expected = results(path)
    sessions = [InferenceSession(path, threads=1), InferenceSession(path, threads=1, mmap=False)]
    shutil.rmtree(path.parent / "weight")
    for session in sessions:
        np.testing.assert_array_equal(session.run(None, FEEDS)[0], expected[0])


def test_lost_pages_read_as_zeros_until_they_are_refused(path: Path) -> None:
    opened = read_package(path)
    (file, *_), at = opened.weight_files, max(opened.weight_files.values())
    os.truncate(path.parent / "weight" / list(opened.weight_files)[-1].name, 0)
    assert not any(opened.weights[at : at + file.nbytes])
    with pytest.raises(PackageCorrupt, match="P0009"):
        opened.container.check_unchanged()


# ---- what a signature covers


def test_a_signature_covers_the_files(tmp_path: Path) -> None:
    private, public = write_keys(tmp_path)
    for how in HOW:
        path = tmp_path / f"how{how}" / "wide.om"
        path.parent.mkdir()
        atcpy.convert(model(TEXT), path, external_weight=how, sign=str(private))
        np.testing.assert_array_equal(results(path, require_signature=public)[0], results(path)[0])
        change(weight_file(path))
        for verify in Verify:  # weights that nobody checked are not signed
            with pytest.raises(PackageCorrupt, match="P0003"):
                InferenceSession(path, require_signature=public, verify=verify)


def test_inspect_compares_the_sha256_of_files(path: Path) -> None:
    """Behind a right XXH3-128, which whoever changes the package makes."""
    assert PackageView(path).summary()["weight_files"]["count"] == len(list((path.parent / "weight").iterdir()))

    def other_sha256(files: list[list[object]]) -> None:
        files[0][3] = "0" * 64

    path.write_bytes(with_files(path, other_sha256))
    with pytest.raises(PackageCorrupt, match="P0003"):
        PackageView(path)


# ---- hostile lists


def with_files(path: Path, edit: Callable[[list[list[object]]], object]) -> bytes:
    """The package with another list of files, or text in its place, and checksums that fit."""
    opened = read_package(path, verify=Verify.HEADER)
    info = ModelTaskDef.FromString(bytes(opened.container.partition(Partition.TASK_INFO)))
    files = json.loads(info.attr["atcpy_weight_files"])
    text = edit(files)
    info.attr["atcpy_weight_files"] = text if isinstance(text, str) else json.dumps(files)
    return with_partition(path.read_bytes(), info.SerializeToString())


def with_partition(package: bytes, payload: bytes) -> bytes:
    """The package with another TASK_INFO, its last partition."""
    at = parse(package).extent(Partition.TASK_INFO)
    changed = bytearray(package[: at.offset] + payload)
    changed[184:192] = (len(changed) - 256).to_bytes(8, "little")
    entry = 264 + 24 * 3
    changed[entry + 16 : entry + 24] = len(payload).to_bytes(8, "little")
    return reseal(bytes(changed))


def named(name: str) -> Callable[[list[list[object]]], None]:
    def edit(files: list[list[object]]) -> None:
        files[0][0] = name

    return edit


def sized(size: object) -> Callable[[list[list[object]]], None]:
    def edit(files: list[list[object]]) -> None:
        files[0][1] = size

    return edit


HOSTILE: dict[str, tuple[Callable[[list[list[object]]], object], str]] = {
    "no JSON": (lambda files: "{", "P0005"),
    "no list": (lambda files: "5", "P0005"),
    "nested": (lambda files: "[" * 100000, "P0005"),
    "no files": (lambda files: files.clear(), "P0005"),
    "too many": (
        lambda files: files.extend([[f"f{n}", *files[0][1:]] for n in range(weight_files.MAX_FILES)]),
        "P0005",
    ),
    "twice": (lambda files: files.append(files[0]), "P0005"),
    "no entry": (lambda files: files.append([]), "P0005"),
    "name is no text": (lambda files: files[0].__setitem__(0, 5), "P0005"),
    "path out": (named("../wide.om"), "P0005"),
    "path down": (named("a/b"), "P0005"),
    "parent": (named(".."), "P0005"),
    "folder": (named("."), "P0005"),
    "empty": (named(""), "P0005"),
    "zero": (named("a\0b"), "P0005"),
    "long": (named("n" * 256), "P0005"),
    "half a character": (named("\ud800"), "P0005"),
    "absolute": (named("/etc/passwd"), "P0005"),
    "another": (named("other"), "P0004"),
    "size is no number": (sized("5"), "P0005"),
    "size is true": (sized(True), "P0005"),
    "size of nothing": (sized(0), "P0005"),
    "negative size": (sized(-1), "P0005"),
    "larger size": (sized(1 << 40), "P0004"),
    "huge size": (sized(1 << 70), "P0005"),
    "smaller size": (sized(600), "P0005"),
    "short digest": (lambda files: files[0].__setitem__(2, "00"), "P0005"),
    "digest is no text": (lambda files: files[0].__setitem__(3, 5), "P0005"),
    "digest is no number": (lambda files: files[0].__setitem__(3, "x" * 64), "P0005"),
    "other digest": (lambda files: files[0].__setitem__(2, "0" * 32), "P0003"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_lists_of_files_are_refused(case: str, path: Path) -> None:
    edit, code = HOSTILE[case]
    path.write_bytes(with_files(path, edit))
    for is_mapped in (True, False):
        with pytest.raises(PackageCorrupt) as caught:
            InferenceSession(path, mmap=is_mapped)
        assert (caught.value.code, caught.value.exit_code) == (code, 7)


def test_a_constant_lies_within_the_files(path: Path) -> None:
    """What MODEL_DEF says of them is checked when somebody looks."""
    package = path.read_bytes()
    at = parse(package).extent(Partition.MODEL_DEF)

    def changed(name: str, value: object) -> bytes:
        definition = ModelDef.FromString(package[at.offset : at.offset + at.size])
        constant = next(op for op in definition.graph[0].op if op.type == "FileConstant")
        if name == "type":
            constant.attr["_atcpy_op_type"].s = bytes(str(value), "utf-8")
        elif name in ("location", "_atcpy_value_desc"):
            constant.attr[name].s = bytes(str(value), "utf-8")
        else:
            constant.attr[name].i = int(str(value))
        definition.attr["_atcpy_pad"].s = b""
        payload = definition.SerializeToString(deterministic=True)
        definition.attr["_atcpy_pad"].s = b" " * (at.size - len(payload) - 6)
        while len(payload := definition.SerializeToString(deterministic=True)) != at.size:
            definition.attr["_atcpy_pad"].s = definition.attr["_atcpy_pad"].s[: at.size - len(payload)]
        return reseal(package[: at.offset] + payload + package[at.offset + at.size :])

    file = next(iter(read_package(path).weight_files))
    path.write_bytes(changed("location", file.location))  # as it was
    read_model(read_package(path))
    for name, value in (
        ("location", "weight/other"), ("offset", -64), ("offset", 1 << 60), ("length", 5), ("length", -4),
        ("_atcpy_value_desc", "ff"), ("_atcpy_value_desc", "x"), ("_atcpy_value_desc", ""), ("type", "Relu"),
    ):  # fmt: skip
        path.write_bytes(changed(name, value))
        with pytest.raises(PackageCorrupt, match="P0005"):
            read_model(read_package(path))


def test_weights_that_cannot_be_mapped_in_a_row_are_refused(path: Path) -> None:
    """WEIGHTS_DATA begins at a multiple of the largest page, but in a package that somebody else wrote."""
    opened = read_package(path)
    files = list(opened.weight_files)
    moved = writer.to_bytes(sample.small())
    (path.parent / "other.om").write_bytes(moved)
    container = read_package(path.parent / "other.om").container
    assert container.extent(Partition.WEIGHTS_DATA).offset % weight_files.SPACE_ALIGN
    with pytest.raises(PackageCorrupt, match="P0005"):
        weight_files.open_weights(container, files, verify=Verify.HEADER, is_signed=False)


# ---- the space


def test_a_space_refuses_parts_that_are_not_in_it_or_in_the_file(tmp_path: Path) -> None:
    file, page = tmp_path / "file", mmap.PAGESIZE
    file.write_bytes(b"x" * (page + 100))
    with file.open("rb") as opened:
        descriptor = opened.fileno()
        space = _kernels.MappedSpace(3 * page)
        for offset, size, at in (
            (1, 10, 0), (0, 10, 1), (0, 0, 0), (0, 10, 3 * page), (0, page + 1, 2 * page), (0, 10, 1 << 62),
            (0, page + 101, 0), (page, 101, 0), (2 * page, 1, 0), (0, 1 << 62, 0),
        ):  # fmt: skip
            with pytest.raises(OSError, match="Invalid argument"):
                space.map(descriptor, offset, size, at)
        for numbers in ((-page, 10, 0), (0, -1, 0), (0, 10, -page)):
            with pytest.raises(ValueError, match="negative"):
                space.map(descriptor, *numbers)
        with pytest.raises(OSError, match="Bad file descriptor"):
            space.map(-1, 0, 10, 0)
        space = _kernels.MappedSpace(3 * page)
        space.map(descriptor, page, 100, 2 * page)
        space.map(descriptor, 0, page, 0)
    assert bytes(memoryview(space)) == b"x" * page + bytes(page) + b"x" * 100 + bytes(page - 100)
    assert memoryview(space).readonly and space.changed_file() is None
    os.utime(file, (1, 1))
    assert space.changed_file() == 0


def test_a_space_is_reserved_once_and_not_without_a_byte() -> None:
    for size in (0, -1):
        with pytest.raises(ValueError, match="without a byte"):
            _kernels.MappedSpace(size)
    with pytest.raises(MemoryError):
        _kernels.MappedSpace((1 << 63) - 1)
    space = _kernels.MappedSpace(1)
    with pytest.raises(ValueError, match="once"):
        space.__init__(1)  # type: ignore[misc]
    for use in (lambda empty: empty.map(0, 0, 1, 0), lambda empty: empty.changed_file(), memoryview):
        with pytest.raises(ValueError, match="no space"):
            use(_kernels.MappedSpace.__new__(_kernels.MappedSpace))


def test_a_file_that_is_lost_leaves_its_neighbours_in_the_space(tmp_path: Path) -> None:
    page = mmap.PAGESIZE
    space = _kernels.MappedSpace(4 * page)
    for number in range(4):
        path = tmp_path / str(number)
        path.write_bytes(b"x" * 100)
        with path.open("rb") as opened:
            space.map(opened.fileno(), 0, 100, number * page)
    view = memoryview(space)
    os.truncate(tmp_path / "2", 0)
    assert view[3 * page - 1] == 0  # on the lost page, behind the end that the file had
    assert bytes(view) == (b"x" * 100 + bytes(page - 100)) * 2 + bytes(page) + b"x" * 100 + bytes(page - 100)
    assert space.changed_file() == 2


# ---- what seldom happens


@pytest.mark.parametrize(("error", "code"), [(MemoryError(), "R0001"), (OSError(errno.EPERM, "no"), "E13001")])
def test_a_space_that_cannot_be_mapped_is_an_error(
    error: BaseException, code: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(weight_files, "_WeightSpace", fail)
    with pytest.raises(AtcError) as caught:
        read_package(path)
    assert caught.value.code == code


def test_a_file_that_may_not_be_opened_is_an_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, system_open = weight_file(path).name, os.open

    def refuse(file: object, *arguments: object, **options: object) -> int:
        if os.path.basename(str(file)) == name:
            raise PermissionError(errno.EACCES, "no")
        return system_open(file, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(UsageError) as caught:
        read_package(path)
    assert caught.value.code == "E13001"


def test_a_package_without_files_has_one_digest(tmp_path: Path) -> None:
    atcpy.convert(model(TEXT), tmp_path / "m.om")
    read_package(tmp_path / "m.om").check_sha256()


def test_a_part_of_a_constant_that_open_dims_choose_is_refused() -> None:
    tracer = Tracer()
    slot = Slot(Region.WEIGHTS, tracer.symbol("n", 1, 8, 3), 4, TensorDesc.plain(DType.FLOAT32, (1,)))
    task = SimpleNamespace(src=(None, slot), node="slice", op_type="Slice")
    with pytest.raises(Unsupported) as caught:
        weight_placement._check_slots(SimpleNamespace(tasks=(task,), clusters=()))  # type: ignore[arg-type]
    assert (caught.value.code, caught.value.where.node) == ("E10055", "slice")


def test_a_graph_is_described_without_the_data_of_constants() -> None:
    compiled, _ = compile_model(model(TEXT), convert_options())
    described = writer.describe(compiled.graph)
    constants = [op.attr["value"].t for op in described.graph[0].op if op.type == "Const"]
    assert constants
    assert not any(constant.data for constant in constants)


def test_operands_that_are_left_out_and_values_that_come_later_are_described() -> None:
    compiled, _ = compile_model(model(TEXT), convert_options())
    graph_writer = writer._GraphWriter(compiled.graph)
    assert graph_writer._offset_of(None) == 0
    value = compiled.graph.inputs[0].output
    assert TensorDescriptor.FromString(graph_writer._desc_of(value)).name == value.name


def test_padding_that_cannot_be_is_a_bug_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unpadded:
        def __init__(self) -> None:
            self.attr = {"_atcpy_pad": SimpleNamespace()}

        def SerializeToString(self) -> bytes:
            return b"x"

    monkeypatch.setattr(writer, "ModelDef", Unpadded)
    with pytest.raises(InternalError, match="no padding of 5 bytes"):
        writer._padding(5)
