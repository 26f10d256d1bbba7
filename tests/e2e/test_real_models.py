"""Trained models from the field: convert, load, run, compare with ONNX Runtime; those of open dims at three shapes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atcpy import InferenceSession
from atcpy.ir.tensor import Array
from atcpy.options import convert_options
from atcpy.stages.pipeline import convert
from atcpy.verify.verification import verify

MODELS = Path(__file__).parents[2].parent / "shared" / "models" / "real"
needs_models = pytest.mark.skipif(not MODELS.exists(), reason="needs ../shared/models/real")

Shapes = Mapping[str, tuple[int, ...]]


def _gpt2(batch: int, tokens: int, past: int) -> Shapes:
    rows = {"input_ids": (batch, tokens), "position_ids": (batch, tokens), "attention_mask": (batch, past + tokens)}
    return {**rows, **{f"past_{layer}": (2, batch, 4, past, 8) for layer in range(5)}}


# The sizes of the dims that a model leaves open.
SHAPES: Mapping[str, list[Shapes]] = {
    "antispoof_dynquant": [{"input": (n, 3, 128, 128)} for n in (1, 2, 3)],
    "basic_pitch": [{"serving_default_input_2:0": (n, 43844, 1)} for n in (1, 3)],
    "byte_bidi_lstm": [{"input": shape} for shape in ((2, 40), (1, 1), (5, 17))],
    "cntk_scan_lstm": [{"Input13165": (n, 1, 3)} for n in (1, 4, 9)],
    "kws_static_qdq": [{"serving_default_input:0": (n, 1960)} for n in (1, 2, 7)],
    "magika_v3_3": [{"bytes": (n, 2048)} for n in (1, 2, 3)],
    "mlagents_sorter": [
        {"obs_0": (n, 20, 23), "obs_1": (n, 10), "obs_2": (n, 8), "action_masks": (n, 9)} for n in (1, 2, 5)
    ],
    "ppocr_v2_cls": [{"x": shape} for shape in ((2, 3, 48, 192), (1, 3, 48, 96), (1, 3, 48, 320))],
    "ppocr_v3_det": [{"x": shape} for shape in ((1, 3, 160, 224), (1, 3, 96, 96), (2, 3, 64, 128))],
    "qlstm_scan": [{"input": (n, 3)} for n in (3, 1, 8)],
    "silero_vad": [
        {"input": (batch, 576), "state": (2, batch, 128)} for batch in (1, 2, 3)
    ],
    "superres_10": [{"input": (n, 1, 224, 224)} for n in (1, 2, 3)],
    "tiny_gpt2_past": [
        _gpt2(1, 4, 3), _gpt2(2, 1, 6), _gpt2(1, 7, 0),
        {**_gpt2(1, 1, 1), "attention_mask": (1, 1)},  # a mask of one column is none
    ],
    "tiny_text_transformer": [{"input": shape} for shape in ((2, 7), (1, 1), (3, 30))],
    "xgboost_classifier_tree": [{"input": (n, 13)} for n in (5, 1, 64)],
    "yunet_n_dynamic": [{"input": shape} for shape in ((1, 3, 192, 256), (1, 3, 64, 64), (2, 3, 96, 160))],
}  # fmt: skip
# What may run on the host.
ON_HOST: dict[str, set[str]] = {}


# Models that take a second or more.
LARGE = {
    "antispoof_dynquant", "basic_pitch", "gtcrn_stream", "ppocr_v2_cls", "ppocr_v3_det", "silero_vad", "superres_10",
    "tiny_gpt2_past", "yolox_nano", "yunet_n_dynamic",
}  # fmt: skip


def each_of(names: Iterable[str]) -> pytest.MarkDecorator:
    found = [pytest.param(name, marks=pytest.mark.slow if name in LARGE else ()) for name in names]
    return pytest.mark.parametrize("name", found or ["none"])


@cache
def manifest() -> Mapping[str, Mapping[str, Any]]:
    """The models that ONNX Runtime runs, by name."""
    if not MODELS.exists():
        return {}
    entries = json.loads((MODELS / "manifest.json").read_text(encoding="utf-8"))
    return {entry["file"].removesuffix(".onnx"): entry for entry in entries if entry["ort"] == "runs"}


def make_feeds(name: str, session: InferenceSession, shapes: Shapes, seed: int) -> dict[str, Array]:
    """Random inputs in the range that the model was made for."""
    rng = np.random.default_rng(seed)
    feeds: dict[str, Array] = {}
    for port in session.get_inputs():
        spec = manifest()[name]["feed"][port.name]
        shape = shapes.get(port.name, spec["shape"])
        if "value" in spec:
            elements = np.resize(spec["value"], int(np.prod(shape, dtype=np.int64)))
        elif port.dtype.is_int:
            elements = rng.integers(spec["range"][0], max(spec["range"][1], spec["range"][0] + 1), shape)
        else:
            elements = rng.uniform(*spec["range"], shape)
        feeds[port.name] = elements.astype(port.dtype.numpy).reshape(shape)
    return feeds


@needs_models
@each_of(manifest())
def test_the_answer_is_that_of_onnxruntime(name: str, tmp_path: Path) -> None:
    report = convert(MODELS / f"{name}.onnx", tmp_path / "m.om", convert_options({}))
    assert {op.op for op in report.host_cpu_ops} <= ON_HOST.get(name, set())
    session = InferenceSession(tmp_path / "m.om", threads=2)
    assert report.unknown_shapes is (name in SHAPES)
    for seed, shapes in enumerate(SHAPES.get(name, [{}, {}])):
        feeds = make_feeds(name, session, shapes, seed)
        compared = verify(tmp_path / "m.om", MODELS / f"{name}.onnx", feeds=feeds)
        assert compared.passed, (shapes, compared.outputs)


@needs_models
@each_of(SHAPES)
def test_fixed_by_an_option_it_is_planned_ahead(name: str, tmp_path: Path) -> None:
    options = {"input_shape": {port: list(shape) for port, shape in SHAPES[name][0].items()}}
    report = convert(MODELS / f"{name}.onnx", tmp_path / "m.om", convert_options(options))
    session = InferenceSession(tmp_path / "m.om", threads=2)
    feeds = make_feeds(name, session, SHAPES[name][0], seed=9)
    compared = verify(tmp_path / "m.om", MODELS / f"{name}.onnx", feeds=feeds)
    assert compared.passed, compared.outputs
    assert report.task_count > 0 or report.unknown_shapes


@pytest.mark.slow
@needs_models
@each_of(manifest())
def test_unoptimised_the_answer_is_the_same(name: str, tmp_path: Path) -> None:
    """At O0 nothing is fused: where both levels are as right as float64 asks, they agree with each other."""
    convert(MODELS / f"{name}.onnx", tmp_path / "m.om", convert_options({"oo_level": "O0"}))
    session = InferenceSession(tmp_path / "m.om", threads=2)
    feeds = make_feeds(name, session, SHAPES.get(name, [{}])[0], seed=0)
    compared = verify(tmp_path / "m.om", MODELS / f"{name}.onnx", feeds=feeds)
    assert compared.passed, compared.outputs


# Models that read a stream piece by piece: the input that is stepped through, and their states.
STREAMING: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "dtln_1": ("input_2", {"tf_op_layer_stack_2": "input_3"}),
    "gtcrn_stream": (
        "mix",
        {"conv_cache_out": "conv_cache", "tra_cache_out": "tra_cache", "inter_cache_out": "inter_cache"},
    ),
    "silero_vad": ("input", {"stateN": "state"}),
}


@needs_models
@pytest.mark.parametrize("threads", [1, 2, 3])
@each_of(STREAMING)
def test_iterations_give_what_single_runs_give(name: str, threads: int, tmp_path: Path) -> None:
    (stepped, state), n = STREAMING[name], 7
    convert(MODELS / f"{name}.onnx", tmp_path / "m.om", convert_options({}))
    session = InferenceSession(tmp_path / "m.om", threads=threads)
    pieces = [make_feeds(name, session, SHAPES.get(name, [{}])[0], seed)[stepped] for seed in range(n)]
    feeds = make_feeds(name, session, SHAPES.get(name, [{}])[0], seed=n)
    names = [port.name for port in session.get_outputs()]
    now, expected = feeds, list[dict[str, Array]]()
    for piece in pieces:
        expected.append(dict(zip(names, session.run(None, {**now, stepped: piece}), strict=True)))
        now = {**now, **{old: expected[-1][new] for new, old in state.items()}}
    collect = [each for each in names if each not in state]
    results = session.run_iterations({**feeds, stepped: np.stack(pieces)}, n, state=state, collect=collect)
    for each, result in zip(names, results, strict=True):
        rows = np.stack([outputs[each] for outputs in expected])
        np.testing.assert_array_equal(result, rows if each in collect else rows[-1])
