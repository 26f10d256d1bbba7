"""Which custom operators a conversion and a session load, and which modules they refuse."""

from __future__ import annotations

import importlib
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import atcpy
from atcpy.errors import AtcError
from atcpy.ops.custom import forget_all
from tests.ops.custom.models import DOUBLE, HEAD, ONE_NODE, double, model, module

pytestmark = pytest.mark.usefixtures("no_custom_ops")
X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def error_of(folder: Path, custom_ops: object, text: str = ONE_NODE) -> AtcError:
    with pytest.raises(AtcError) as caught:
        atcpy.convert(model(text), folder / "m.om", custom_ops=custom_ops)
    return caught.value


@pytest.mark.parametrize("form", ["path", "text", "list"])
def test_a_module_is_named_at_conversion_and_at_run(tmp_path: Path, form: str) -> None:
    path = module(tmp_path)
    named = {"path": path, "text": str(path), "list": [path, path]}[form]
    report = atcpy.convert(model(ONE_NODE), tmp_path / "m.om", custom_ops=named)
    assert [(count.op, count.count) for count in report.host_cpu_ops] == [("Double", 1)]
    assert [warning.code for warning in report.warnings] == ["W0020"]
    session = atcpy.InferenceSession(tmp_path / "m.om", custom_ops=named)
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], -2 * np.abs(X))


def test_a_package_needs_its_operators(tmp_path: Path) -> None:
    atcpy.convert(model(ONE_NODE), tmp_path / "m.om", custom_ops=module(tmp_path))
    forget_all()
    with pytest.raises(AtcError) as caught:
        atcpy.InferenceSession(tmp_path / "m.om")
    assert (caught.value.code, caught.value.exit_code) == ("C0003", 4)
    assert "custom::Double" in caught.value.what
    assert "--custom-ops" in caught.value.hint


def test_operators_of_a_file_apply_only_to_conversions_that_name_it(tmp_path: Path) -> None:
    atcpy.convert(model(ONE_NODE), tmp_path / "m.om", custom_ops=module(tmp_path))
    error = error_of(tmp_path, ())
    assert error.code == "E19010"
    assert "--custom-ops" in error.hint


QUICK_GELU = ONE_NODE.replace("my.dom.Double", "com.microsoft.QuickGelu")
OPSETS = '"": 21, "com.microsoft": 1'


def quick_gelu(folder: Path, name: str, custom_ops: object = ()) -> np.ndarray:
    """The output for `X` of a package of a model with a QuickGelu."""
    atcpy.convert(model(QUICK_GELU, OPSETS), folder / name, custom_ops=custom_ops)
    return atcpy.InferenceSession(folder / name, threads=1, custom_ops=custom_ops).run(None, {"x": X})[0]


@pytest.mark.parametrize("domain", ["", ', domain="com.microsoft"'])
def test_a_file_overrides_an_onnx_runtime_op_only_in_conversions_that_name_it(tmp_path: Path, domain: str) -> None:
    path = module(tmp_path, DOUBLE.replace('"Double"', f'"QuickGelu"{domain}'))
    built_in = quick_gelu(tmp_path, "before.om")
    for number in range(2):
        np.testing.assert_array_equal(quick_gelu(tmp_path, f"named{number}.om", path), -2 * np.abs(X))
        np.testing.assert_array_equal(quick_gelu(tmp_path, f"unnamed{number}.om"), built_in)
    assert (tmp_path / "unnamed1.om").read_bytes() == (tmp_path / "before.om").read_bytes()
    assert atcpy.convert(model(QUICK_GELU, OPSETS), tmp_path / "m.om", custom_ops=path).custom_ops != ()
    assert atcpy.convert(model(QUICK_GELU, OPSETS), tmp_path / "m.om").custom_ops == ()


def test_concurrent_conversions_each_use_their_own_record(tmp_path: Path) -> None:
    path = module(tmp_path, DOUBLE.replace('"Double"', '"QuickGelu", domain="com.microsoft"'))
    expected = {None: quick_gelu(tmp_path, "m.om"), path: -2 * np.abs(X)}
    files = [None, path] * 4
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda i: quick_gelu(tmp_path, f"{i}.om", files[i] or ()), range(len(files))))
    for file, result in zip(files, results, strict=True):
        np.testing.assert_array_equal(result, expected[file])


def test_a_modified_file_is_reloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for factor in (2, 3):
        path = module(tmp_path, double(forward=f"return x * x.dtype.type({factor})"))
        os.utime(path, (1_700_000_000, 1_700_000_000))  # modified within one second, with the same size
        atcpy.convert(model(ONE_NODE), tmp_path / "m.om", custom_ops=path)
        session = atcpy.InferenceSession(tmp_path / "m.om", custom_ops=path)
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], -factor * np.abs(X))


def test_the_package_records_the_digest_and_is_deterministic(tmp_path: Path) -> None:
    import hashlib

    path = module(tmp_path)
    packages = []
    for name in ("a.om", "b.om"):
        atcpy.convert(model(ONE_NODE), tmp_path / name, custom_ops=[path])
        packages.append((tmp_path / name).read_bytes())
    assert packages[0] == packages[1]
    session = atcpy.InferenceSession(packages[0], custom_ops=path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert session.model.cmdline == f"atcpy convert --custom_ops=sha256:{digest}"
    assert str(tmp_path).encode() not in packages[0]


def test_modules_and_classes_are_accepted_as_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    module(tmp_path, name="ops_by_import.py")
    imported = importlib.import_module("ops_by_import")
    for named in (imported, imported.Double, [imported]):
        atcpy.convert(model(ONE_NODE), tmp_path / "m.om", custom_ops=named)
        atcpy.InferenceSession(tmp_path / "m.om", custom_ops=named)
    assert error_of(tmp_path, int).code == "E13030"
    assert error_of(tmp_path, 3).code == "E10003"


def test_an_operator_registered_in_the_process_needs_no_option(tmp_path: Path) -> None:
    @atcpy.register_operator("Double", domain="my.dom")
    class Double:
        def infer(self, ctx, x):  # type: ignore[no-untyped-def]
            return x

        def forward(self, ctx, x):  # type: ignore[no-untyped-def]
            return x + x

    atcpy.convert(model(ONE_NODE), tmp_path / "m.om")
    np.testing.assert_array_equal(atcpy.InferenceSession(tmp_path / "m.om").run(None, {"x": X})[0], -2 * np.abs(X))


REFUSED = {
    "syntax": ("def (", "E13029", 4),
    "raises": ("x = 1\nraise OSError('no')", "E13029", 5),
    "exits": ("import sys\nsys.exit(3)", "E13029", 5),
    "empty": ("x = 1", "E13029", None),
    "twice": (DOUBLE + DOUBLE, "E13030", None),
    "standard": (DOUBLE.replace('"Double"', '"Relu"'), "E13030", None),
    "standard's domain": (DOUBLE.replace('"Double"', '"Scaler", domain="ai.onnx.ml"'), "E13030", None),
    "no name": (DOUBLE.replace('"Double"', '"a b"'), "E13030", None),
    "no domain": (DOUBLE.replace('"Double"', '"Double", domain="a,b"'), "E13030", None),
    "outputs": (DOUBLE.replace('"Double"', '"Double", outputs=0'), "E13030", None),
    "inplace": (DOUBLE.replace('"Double"', '"Double", inplace=(1,)'), "E13030", None),
    "no forward": (DOUBLE.replace("def forward", "def forwardd"), "E13030", None),
    "no infer for a kernel": (DOUBLE.replace("def infer", "def inferr") + "    kernel = 'a.so:f'\n", "E13030", None),
    "no forward of an Operator": (
        "@atcpy.register_operator('F')\nclass F(atcpy.custom_op.Operator):\n    def infer(self, x): return x",
        "E13030",
        None,
    ),
    "a weight named as an input": (
        "@atcpy.register_operator('F')\nclass F(atcpy.custom_op.Operator):\n"
        "    def __init__(self, x): pass\n    def forward(self, x): return x",
        "E13030",
        None,
    ),
    "optimizer is a function": ("@atcpy.register_fusion_optimizer\ndef f(graph): pass", "E13030", None),
    "optimizer without its method": ("@atcpy.register_fusion_optimizer\nclass F: pass", "E13030", None),
    "no object of an optimizer": (
        "@atcpy.register_fusion_optimizer\nclass F:\n    def __init__(self, n): pass\n"
        "    def optimize_fusion(self, graph): pass",
        "E13030",
        None,
    ),
    "no function": (DOUBLE + "    decompose = 3\n", "E13030", None),
    "no object": (
        DOUBLE + "    def __init__(self, n):\n        pass\n    def backward(self, ctx): pass\n",
        "E13030",
        None,
    ),
    "other inputs": (DOUBLE.replace("def infer(ctx, x)", "def infer(ctx, x, y)"), "E13030", None),
    "function": ("@atcpy.register_operator('F')\ndef f(): pass", "E13030", None),
    "pattern": (DOUBLE + "    pattern = 'Add'\n", "E13030", None),
    "pattern's names": (DOUBLE + "    pattern = op('Relu', var('z'))\n", "E13030", None),
    "kernel": (DOUBLE + "    kernel = 'nothing.so:f'\n", "E13029", None),
    "kernel's form": (DOUBLE + "    kernel = 'nothing'\n", "E13029", None),
    "kernel is no library": (DOUBLE + "    kernel = 'my_ops.py:f'\n", "E13029", None),
}


@pytest.mark.parametrize("case", REFUSED)
def test_the_error_locates_the_fault_in_an_unusable_module(tmp_path: Path, case: str) -> None:
    text, code, line = REFUSED[case]
    path = module(tmp_path, text)
    error = error_of(tmp_path, path)
    assert (error.code, error.exit_code) == (code, 2)
    assert line is None or error.where.line == line
    assert str(path) in str(error.where) or "kernel" in case
    # Nothing stays registered: after a correction the module loads.
    atcpy.convert(model(ONE_NODE), tmp_path / "m.om", custom_ops=module(tmp_path))


def test_two_files_cannot_register_one_operator(tmp_path: Path) -> None:
    first, second = module(tmp_path), module(tmp_path, DOUBLE + "\n", name="other.py")
    error = error_of(tmp_path, [first, second])
    assert error.code == "E13030"
    assert str(first) in error.what


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    assert error_of(tmp_path, tmp_path / "nope.py").code == "E10410"
    assert error_of(tmp_path, tmp_path).exit_code == 2
    (tmp_path / "ops.txt").write_text(HEAD, encoding="utf-8")
    assert error_of(tmp_path, tmp_path / "ops.txt").code == "E13029"


def test_a_module_may_be_both_imported_and_loaded_by_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("imported_first", "imported_last"):
        path = module(tmp_path, DOUBLE, f"{name}.py")
        if name == "imported_first":
            importlib.import_module(name)
        atcpy.convert(model(ONE_NODE), tmp_path / "m.om", custom_ops=path)
        imported = importlib.import_module(name)
        atcpy.convert(model(ONE_NODE), tmp_path / "m.om", custom_ops=imported)
        importlib.reload(imported)
        atcpy.convert(model(ONE_NODE), tmp_path / "m.om")
        with pytest.raises(AtcError, match="E13030"):
            atcpy.register_operator("Double")(imported.Double)
        forget_all()


def test_a_module_may_import_modules_of_its_folder(tmp_path: Path) -> None:
    module(tmp_path, "FACTOR = 2\n", name="neighbour_of_ops.py")
    text = "import neighbour_of_ops\n" + double(forward="return x * x.dtype.type(neighbour_of_ops.FACTOR)")
    atcpy.convert(model(ONE_NODE), tmp_path / "m.om", custom_ops=module(tmp_path, text))
