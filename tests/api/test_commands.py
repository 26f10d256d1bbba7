"""The commands as functions: the same findings as the command line, for models in any form."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest

import atcpy
from atcpy.cli.app import execute
from atcpy.errors import AtcError, ModelInvalid, UsageError
from tests.models_in_text import model
from tests.sources import REPO

MODEL = model("m (float[2,3] x, float[3] b) => (float[2,3] y) { s = Add(x, b) y = Relu(s) }")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, the current one, with m.onnx and m.om."""
    monkeypatch.chdir(tmp_path)
    onnx.save(MODEL, "m.onnx")
    assert atcpy.convert("m.onnx").output == "m.om"
    return tmp_path


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert execute([*arguments]) == 0
    return capsys.readouterr().out.rstrip("\n")


def record(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    return json.loads(printed(capsys, *arguments, "--json"))["result"]


def test_importing_the_package_loads_no_command() -> None:
    program = "import sys, atcpy; print([n for n in sys.modules if n.startswith('atcpy.')], 'typer' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=REPO, capture_output=True, text=True, check=True)
    assert done.stdout == "[] False\n"


@pytest.mark.usefixtures("files")
def test_results_are_those_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    from atcpy.report.record import to_json

    checked = atcpy.check("m.onnx")
    assert to_json(checked) == {**record(capsys, "check", "m.onnx"), "text": checked.text}
    assert str(checked) == printed(capsys, "check", "m.onnx")
    inspected = atcpy.inspect("m.om", "tasks", "io")
    assert to_json(inspected.record) == record(capsys, "inspect", "m.om", "--tasks", "--io")
    assert str(inspected) == printed(capsys, "inspect", "m.om", "--tasks", "--io")
    difference = atcpy.diff("m.onnx", "m.om", weights=True)
    assert to_json(difference) == {**record(capsys, "diff", "m.onnx", "m.om", "--weights"), "text": difference.text}
    sizes = atcpy.diff("m.om", "m.om", memory=True, options=True)
    assert to_json(sizes) == {**record(capsys, "diff", "m.om", "m.om", "--memory", "--options"), "text": sizes.text}
    page = atcpy.report("m.om", "m.html")
    assert to_json(page) == {**record(capsys, "report", "m.om", "-o", "m.html"), "text": page.text}
    explained = atcpy.explain("m.om", fusion="Add+Relu")
    assert to_json(explained.records) == record(capsys, "explain", "m.om", "--fusion", "Add+Relu")
    assert to_json(atcpy.explain("E10016").records) == [record(capsys, "explain", "E10016")]
    assert to_json(atcpy.passes()) == record(capsys, "passes", "list")["passes"]
    name = atcpy.passes()[3].name
    assert to_json(atcpy.passes(name)) == record(capsys, "passes", "show", name)
    assert to_json(atcpy.verify("m.om")) == record(capsys, "verify", "m.om")


@pytest.mark.usefixtures("files")
def test_bench_has_the_fields_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    feeds = {"x": np.ones((2, 3), np.float32), "b": np.ones(3, np.float32)}
    result = atcpy.bench("m.om", vs="m.om", min_time=0, warmup=1, layers=True, threads=1, input_data=feeds)
    expected = record(
        capsys, "bench", "m.om", "--vs", "m.om", "--min_time", "0", "--warmup", "1", "--layers", "--threads", "1"
    )
    assert {*vars(result)} == {*expected, "text"}
    assert [side.name for side in result.sides] == [side["name"] for side in expected["sides"]]
    assert [layer.kernel for layer in result.layers] == [layer["kernel"] for layer in expected["layers"]]
    assert result.ratio is not None
    assert result.ratio > 0
    assert str(result).startswith("       ")


@pytest.mark.usefixtures("files")
def test_bench_says_what_streams_save() -> None:
    result = atcpy.bench("m.om", streams=True, vs_model="m.onnx", min_time=0, warmup=1, threads=1)
    assert result.streams is not None
    assert (result.streams.sections, result.streams.streams) == (0, 1)
    assert [side.median for side in result.sides] == [result.streams.with_streams, result.streams.without_streams]
    assert result.streams.ratio == result.sides[1].ratio


@pytest.mark.slow
@pytest.mark.usefixtures("files")
def test_bench_compares_with_other_sides_and_with_before(caplog: pytest.LogCaptureFixture) -> None:
    copy = Path("copy.om")
    copy.write_bytes(Path("m.om").read_bytes())
    feeds = {"x": np.ones((2, 3), np.float32), "b": np.ones(3, np.float32)}
    options: Any = {"min_time": 0, "warmup": 1, "threads": 1, "input_data": feeds}
    first = atcpy.bench("m.om", vs=copy, save="j.json", **options)
    assert [side.name for side in first.sides] == ["atcpy", "copy.om"] and first.comparison is None
    second = atcpy.bench("m.om", vs=["m.om", copy], compare=Path("j.json"), **options)
    assert [side.name for side in second.sides] == ["atcpy", "m.om", "copy.om"]
    assert second.comparison is not None and second.comparison.same_package
    assert [side.name for side in second.comparison.sides] == ["atcpy", "copy.om"]
    assert second.samples is None  # b has no samples
    assert not caplog.records
    Path("j.json").write_text(Path("j.json").read_text().replace('"isa": "', '"isa": "not '))
    atcpy.bench("m.om", compare="j.json", **{**options, "input_data": None})
    assert "another instruction set" in caplog.text


@pytest.mark.usefixtures("files")
def test_frozen() -> None:
    with pytest.raises(AttributeError):
        atcpy.check("m.onnx").nodes = 3  # type: ignore[misc]


def library(name: str, monkeypatch: pytest.MonkeyPatch, **members: Any) -> type:
    """A class of a library that is not installed, whose functions are `members`."""
    module = ModuleType(name)
    vars(module).update(members)
    monkeypatch.setitem(sys.modules, name, module)
    return type("Model", (), {"__module__": f"{name}.inner", "to_model_proto": lambda self: MODEL})


def of_surgeon(_: pytest.MonkeyPatch) -> Any:
    surgeon = pytest.importorskip("onnx_graphsurgeon")
    return surgeon.import_onnx(MODEL)


FORMS: dict[str, Callable[[pytest.MonkeyPatch], Any]] = {
    "path": lambda _: Path("m.onnx"),
    "bytes": lambda _: MODEL.SerializeToString(),
    "ModelProto": lambda _: MODEL,
    "onnx_graphsurgeon": of_surgeon,
    "onnx_graphsurgeon, a stub": lambda patch: library("onnx_graphsurgeon", patch, export_onnx=lambda _: MODEL)(),
    "onnx_ir": lambda patch: library("onnx_ir", patch, to_proto=lambda _: MODEL)(),
    "onnxscript": lambda patch: library("onnxscript", patch)(),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.usefixtures("files")
def test_each_form_of_a_model(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = FORMS[form](monkeypatch)
    atcpy.convert(source, "other.om")
    feeds = {"x": np.float32([[1, -2, 3], [0, 1, -9]]), "b": np.float32([1, 0, -1])}
    [expected] = [np.maximum(feeds["x"] + feeds["b"], 0)]
    np.testing.assert_array_equal(atcpy.InferenceSession("other.om").run(None, feeds)[0], expected)
    assert [op.op for op in atcpy.check(source).ops] == ["Add", "Relu"]
    assert [port.name for port in atcpy.inspect(source).inputs] == ["x", "b"]
    assert atcpy.verify(Path("other.om").read_bytes(), source).passed
    assert atcpy.diff(source, "m.onnx").same


@pytest.mark.parametrize(
    ("call", "code", "what"),
    [
        (lambda: atcpy.check(MODEL, nope=1), "E10001", 'check has no option "nope"'),  # type: ignore[call-arg]
        (lambda: atcpy.freeze("m", "f.pb", soc="x"), "E10001", 'freeze has no option "soc"'),  # type: ignore[call-arg]
        (lambda: atcpy.inspect(MODEL, "task"), "E10001", 'there is no table "task"'),  # type: ignore[call-overload]
        (lambda: atcpy.check(SimpleNamespace()), "E10003", "not types.SimpleNamespace"),  # type: ignore[arg-type]
        (lambda: atcpy.convert(MODEL), "E10054", "a model in memory has no file name"),
        (lambda: atcpy.bench("m.om", warmup=0), "E10013", "warmup"),
        (lambda: atcpy.passes("Nope"), "E10016", 'no pass "Nope"'),
        (lambda: atcpy.explain("m.om"), "E10054", "what of it?"),
    ],
)
@pytest.mark.usefixtures("files")
def test_refusals(call: Callable[[], object], code: str, what: str) -> None:
    with pytest.raises(UsageError) as refused:
        call()
    assert refused.value.code == code
    assert what in refused.value.what


def test_bytes_that_are_no_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AtcError) as refused:
        atcpy.convert(b"\x00\x01 no model", tmp_path / "m.om")
    assert isinstance(refused.value, ModelInvalid | UsageError)


def test_what_cannot_convert_is_a_finding_and_no_exception() -> None:
    found = atcpy.check(model("m (float[2] x) => (float[2] y) { y = nowhere.Nothing(x) }"))
    assert not found.convertible
    assert found.problems[0].op == "nowhere::Nothing" or "Nothing" in str(found)


@pytest.mark.usefixtures("files")
def test_a_package_that_differs_is_a_finding() -> None:
    other = model("m (float[2,3] x, float[3] b) => (float[2,3] y) { s = Sub(x, b) y = Relu(s) }")
    report = atcpy.verify("m.om", other)
    assert not report.passed
    assert report.error is not None
    assert report.error.code == "V0001"


@pytest.mark.usefixtures("files")
def test_steps_and_warnings_are_logged(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    caplog.set_level(logging.INFO, "atcpy")
    other = model("m (float[2,3] x, float[3] b) => (float[2,3] y) { s = Add(b, x) y = Relu(s) }")
    atcpy.verify("m.om", other)
    messages = [(entry.levelname, entry.message) for entry in caplog.records if entry.name == "atcpy"]
    assert ("INFO", "running the package") in messages
    assert [level for level, text in messages if "is not the file that the package was made from" in text] == [
        "WARNING"
    ]
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "first",
    [
        "import atcpy.verify.compare",
        *(pytest.param(first, marks=pytest.mark.slow) for first in ("import atcpy.verify", "pass")),
    ],
)
def test_folders_with_the_name_of_a_command_are_called_as_it(first: str) -> None:
    program = f"import atcpy\n{first}\nprint(len(atcpy.passes()) > 9, callable(atcpy.verify), callable(atcpy.bench))\n"
    program += "from atcpy import verify\nfrom atcpy.verify.compare import Tolerance\nprint(verify is atcpy.verify)"
    done = subprocess.run([sys.executable, "-c", program], cwd=REPO, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"] * 4
