"""What verify feeds the oracle: the numpy form of AIPP against the model of the tests, and records that are damaged."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.aipp.pictures import PictureInput
from atcpy.aipp.recorded import ModelInput
from atcpy.errors import PackageCorrupt
from atcpy.ir import Graph, TensorDesc
from atcpy.ir.dtype import DType
from atcpy.runtime.picture_inputs import picture_inputs
from tests.aipp import model
from tests.aipp.test_aipp import configurations
from tests.effort import THOROUGH, trials


@settings(THOROUGH, max_examples=trials(100))
@given(case=configurations(), batch=st.integers(1, 2), layout=st.sampled_from(["NCHW", "NHWC"]))
def test_it_agrees_with_the_model(case: tuple[dict[str, Any], tuple[int, int]], batch: int, layout: str) -> None:
    config, size = case
    channels = 1 if config["input_format"] == "YUV400_U8" else 3
    shape = (batch, channels, *size) if layout == "NCHW" else (batch, *size, channels)
    found = PictureInput("x", config, ModelInput("float32", layout, shape), 0)
    source = np.random.default_rng(0).integers(0, 256, model.input_shape(config, batch, *size), np.uint8)
    result = found.model_array([found.static_settings()] * batch, source)
    assert (result.shape, result.dtype) == (shape, np.float32)
    expected = model.aipp(config, source, channels, *size)
    result = result.transpose(0, 2, 3, 1) if layout == "NCHW" else result
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-3)


RECORD = {"dtype": "float32", "layout": "NCHW", "shape": [1, 3, 4, 6], "parameters": ""}


def inputs_with(settings_text: str, record_text: str) -> dict[str, PictureInput]:
    graph = Graph("g")
    data = graph.append("Data", (), {"index": 0, "aipp": settings_text, "aipp_model": record_text}, outputs=("x",))
    data.output.desc = TensorDesc.plain(DType.UINT8, (1, 4, 6, 3))
    return picture_inputs(graph.inputs)


def test_records() -> None:
    found = inputs_with("{}", json.dumps(RECORD))["x"]
    assert (found.model.channels, found.model.size, found.model.pictures, found.is_dynamic) == (3, (4, 6), 1, False)
    assert ModelInput.read(json.loads(found.model.text)) == found.model


@pytest.mark.parametrize(
    ("settings_text", "change"),
    [
        ("{", {}),
        ("3", {}),
        ("[1]", {}),
        ("{}", {"dtype": "object"}),
        ("{}", {"layout": "ND"}),
        ("{}", {"shape": [1, 3, 4]}),
        ("{}", {"shape": [1, 2, 4, 6]}),
        ("{}", {"shape": [1, 3, 4, -1]}),
        ("{}", {"shape": [1, 3, 4, 2**31]}),
        ("{}", {"shape": [1, 3, 4, "6"]}),
        ("{}", {"shape": [True, 3, 4, 6]}),
        ("{}", {"shape": None}),
        ("{}", {"parameters": 3}),
        ("{}", {"parameters": "p", "shape": [None, 3, 4, 6]}),
    ],
)
def test_damaged_records(settings_text: str, change: dict[str, Any]) -> None:
    with pytest.raises(PackageCorrupt) as caught:
        inputs_with(settings_text, json.dumps({**RECORD, **change}))
    assert caught.value.code == "P0005"


def test_damaged_text() -> None:
    for text in ("", "[" * 100_000, "{}", "[]"):
        with pytest.raises(PackageCorrupt):
            inputs_with("{}", text)
