"""Every model of ../shared/models/tf, by its manifest: converted without TensorFlow, and equal to its results."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atcpy
from atcpy.parsers.tensorflow.bundle import Checkpoint

MODELS = Path(__file__).parents[2].parent / "shared" / "models" / "tf"
MANIFEST: dict[str, dict[str, Any]] = (
    json.loads((MODELS / "manifest.json").read_text(encoding="utf-8")) if MODELS.is_dir() else {}
)
# Not yet right, and why; a case that became right fails here until its name is taken out.
WRONG: dict[str, str] = {}
LARGE = {"sm_keras_bert", "detection_post"}  # that take a second or more
Names = list[tuple[str, str]]  # of the model, and in the file of arrays


def marks_of(name: str) -> list[pytest.MarkDecorator]:
    wrong = [pytest.mark.xfail(strict=True, reason=WRONG[name])] if name in WRONG else []
    return [*wrong, *([pytest.mark.slow] if name in LARGE else [])]


def cases(*kinds: str) -> Any:
    found = [
        pytest.param(name, marks=marks_of(name))
        for name, entry in MANIFEST.items()
        if entry["kind"] in kinds and entry.get("expect") != "error"
    ]
    missing = pytest.param("", marks=pytest.mark.skip(reason="there is no ../shared/models/tf"))
    return pytest.mark.parametrize("name", found or [missing])


def runs_of(entry: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Names, Names, list[str]]]:
    """For each signature its options, the inputs, the outputs in the order asked for, and the files of arrays."""
    for signature, rule in entry.get("signatures", {}).items():
        inputs = [(key, f"in:{key}") for key in rule["inputs"]]
        outputs = [(key, f"out:{key}") for key in sorted(rule["outputs"])]
        yield {"signature": signature}, inputs, outputs, rule["io"]
    if entry["kind"] != "saved_model":
        names = [(item["tensor"], item["key"]) for item in entry["outputs"]]
        inputs = [(item["tensor"].removesuffix(":0"), item["key"]) for item in entry["inputs"]]
        yield {"out_nodes": [name for name, _ in names]}, inputs, names, entry["io"]


def compare(
    package: Path, entry: dict[str, Any], folder: Path, inputs: Names, outputs: Names, files: list[str]
) -> None:
    session = atcpy.InferenceSession(str(package))
    assert [item.name for item in session.get_outputs()] == [name for name, _ in outputs]
    for file in files:
        arrays = np.load(folder / file)
        results = session.run(None, {name: arrays[key] for name, key in inputs})
        for (name, key), result in zip(outputs, results, strict=True):
            expected, actual = arrays[key], np.asarray(result)
            assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape), name
            if expected.dtype.kind in "fc":
                atol = entry.get("out_atol", {}).get(name, entry["atol"])
                assert np.allclose(actual, expected, rtol=entry["rtol"], atol=atol, equal_nan=True), (file, name)
            else:
                assert np.array_equal(actual, expected), (file, name)


@cases("frozen_pb", "tf1_checkpoint", "saved_model")
def test_a_model_computes_what_tensorflow_does(name: str, tmp_path: Path) -> None:
    entry, folder = MANIFEST[name], MODELS / name
    for options, inputs, outputs, files in runs_of(entry):
        atcpy.convert(folder / entry["model"], tmp_path / "m.om", **options)
        compare(tmp_path / "m.om", entry, folder, inputs, outputs, files)


@cases("tf1_checkpoint", "saved_model")
def test_a_frozen_model_computes_the_same(name: str, tmp_path: Path) -> None:
    entry, folder = MANIFEST[name], MODELS / name
    for options, inputs, outputs, files in runs_of(entry):
        report = atcpy.freeze(folder / entry["model"], tmp_path / "f.pb", **options)
        tensors = [(f"{key.removesuffix(':0')}:0", where) for key, where in outputs]
        assert report.outputs == tuple(tensor for tensor, _ in tensors)
        atcpy.convert(tmp_path / "f.pb", tmp_path / "m.om", out_nodes=list(report.outputs))
        compare(tmp_path / "m.om", entry, folder, inputs, tensors, files)


@cases("tf1_checkpoint")
def test_tensorflows_own_freeze_computes_the_same(name: str, tmp_path: Path) -> None:
    entry, folder = MANIFEST[name], MODELS / name
    for options, inputs, outputs, files in runs_of(entry):
        atcpy.convert(folder / entry["freeze_reference"], tmp_path / "m.om", **options)
        compare(tmp_path / "m.om", entry, folder, inputs, outputs, files)


@pytest.mark.slow
@cases("bundle")
def test_a_table_of_many_blocks(name: str) -> None:
    entry = MANIFEST[name]
    checkpoint = Checkpoint(MODELS / name / entry["model"])
    expected = json.loads((MODELS / name / entry["expected"]).read_text(encoding="utf-8"))
    assert sorted(checkpoint.keys) == sorted(expected)
    for key, (dtype, shape, crc) in expected.items():
        array = checkpoint.tensor(key).array
        assert (array.dtype.name, list(array.shape), zlib.crc32(array.tobytes())) == (dtype, shape, crc)


@cases("tf2_checkpoint")
def test_an_object_based_checkpoint(name: str) -> None:
    entry = MANIFEST[name]
    checkpoint = Checkpoint(MODELS / name / entry["model"])
    expected = np.load(MODELS / name / entry["expected"])
    assert sorted(checkpoint.keys) == sorted(entry["keys"])
    for key in expected.files:
        array, there = checkpoint.tensor(key.replace("|", "/")).array, expected[key]
        texts = [text.encode() if isinstance(text, str) else text for text in array.reshape(-1)]
        assert np.array_equal(array, there) or texts == list(there.reshape(-1))


@pytest.mark.skipif(not MANIFEST, reason="there is no ../shared/models/tf")
def test_rows_of_texts_that_a_table_looks_up(tmp_path: Path) -> None:
    path = MODELS / "neg_string_lookup" / "saved_model"
    atcpy.convert(path, tmp_path / "m.om")
    session = atcpy.InferenceSession(tmp_path / "m.om")
    checkpoint = Checkpoint(path / "variables" / "variables")
    (rows,) = [array for key in checkpoint.keys if (array := checkpoint.tensor(key).array).shape == (3, 4)]
    (y,) = session.run(None, {"words": np.array(["a", "what is no key", "a"], object)})
    assert np.array_equal(y, rows[[2, 0, 2]])
