"""Dynamic AIPP: the settings of a run become the bytes of Ascend's structs, and the kernel does what they say."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import parser

import atcpy
from atcpy import InferenceSession
from atcpy.aipp.parameters import HEADER, RECORD, AippParameters, field_at
from atcpy.errors import AtcError, ModelInvalid, Unsupported, UsageError
from atcpy.ir.tensor import Array
from tests.aipp import model
from tests.aipp.test_aipp import FORMATS, YUV_TO_RGB, identity, matrix

NAME = "ascend_dynamic_aipp_data"
MAX_BYTES = 4000


def converted(folder: Path, source: Any, *, fields: str = f"max_src_image_size: {MAX_BYTES}", **options: Any) -> Path:
    (folder / "aipp.cfg").write_text(f"aipp_op {{ aipp_mode: dynamic {fields} }}")
    atcpy.convert(source, folder / "m.om", insert_op_conf=folder / "aipp.cfg", **options)
    return folder / "m.om"


@pytest.fixture(scope="module")
def rgb(tmp_path_factory: pytest.TempPathFactory) -> InferenceSession:
    """Two pictures of 4×6 with three channels."""
    return InferenceSession(converted(tmp_path_factory.mktemp("rgb"), identity(3, 4, 6, batch=2)), threads=1)


@pytest.fixture(scope="module")
def gray(tmp_path_factory: pytest.TempPathFactory) -> InferenceSession:
    """One picture of 4×6 with one channel."""
    return InferenceSession(converted(tmp_path_factory.mktemp("gray"), identity(1, 4, 6, batch=1)), threads=1)


def pictures(config: model.Config, batch: int, height: int, width: int) -> Array:
    shape = model.input_shape({"input_format": config["input_format"]}, batch, height, width)
    return np.random.default_rng(height * width).integers(0, 256, shape, np.uint8)


# --- the bytes


def test_the_parameters_lie_as_ascend_has_them() -> None:
    parameters = AippParameters(2)
    parameters.set_input_format("RGB888_U8")
    parameters.set_csc_params(True, range(1, 10), (10, 11, 12), (13, 14, 255))
    parameters.set_rbuv_swap_switch(True)
    parameters.set_ax_swap_switch(True)
    parameters.set_src_image_size(640, 480)
    parameters.set_crop_params(True, 1, 2, 3, 4, picture=1)
    parameters.set_padding_params(True, 5, 6, 7, 8, picture=1)
    parameters.set_dtc_pixel_mean(9, 8, 7, 6, picture=1)
    parameters.set_dtc_pixel_min(0.5, 1, 2, 3, picture=1)
    parameters.set_pixel_var_reci(0.25, -2, picture=1)
    header = struct.pack("<BbbbB3xii9h6x3B3B2x16x", 3, 1, 1, 1, 2, 640, 480, *range(1, 10), 10, 11, 12, 13, 14, 255)
    record = "<bbbb4x4i4i4i4h4e4e16x"
    first = struct.pack(record, *[0] * 4, *[0] * 12, *[0] * 4, *[0] * 4, *[1] * 4)
    second = struct.pack(
        record, 1, 0, 1, 0, 1, 2, 3, 4, *[0] * 4, 5, 6, 7, 8, 9, 8, 7, 6, 0.5, 1, 2, 3, 0.25, -2, 1, 1
    )  # fmt: skip
    assert parameters.to_array().tobytes() == header + first + second
    assert len(AippParameters(1).to_array()) == 160


def test_the_numbers_of_formats() -> None:
    for number, name in enumerate(("YUV420SP_U8", "XRGB8888_U8", "RGB888_U8", "YUV400_U8"), 1):
        parameters = AippParameters()
        parameters.set_input_format(name)
        assert parameters.to_array()[0] == number
    with pytest.raises(UsageError, match="RAW10"):
        AippParameters().set_input_format("RAW10")


@pytest.mark.parametrize(
    ("method", "low", "high", "count"),
    [
        ("set_dtc_pixel_mean", 0, 255, 4),
        ("set_dtc_pixel_min", 0, 255, 4),
        ("set_pixel_var_reci", -65504, 65504, 4),
        ("set_src_image_size", 2, 4096, 2),
    ],
)
def test_ranges_of_the_methods(method: str, low: int, high: int, count: int) -> None:
    for value in (low, high):
        getattr(AippParameters(), method)(*[value] * count)
    for value in (low - 1, high + 1, float("nan")):
        with pytest.raises(UsageError, match="outside"):
            getattr(AippParameters(), method)(*[value] * count)


def test_ranges_of_crop_padding_and_conversion() -> None:
    parameters = AippParameters(127)
    parameters.set_crop_params(True, 4095, 0, 1, 4096, picture=126)
    parameters.set_padding_params(True, 0, 32, 0, 32)
    parameters.set_csc_params(True, [-32768, 32767, *[0] * 7], [0, 255, 0], [0, 255, 0])
    for wrong in (
        lambda: AippParameters(0),
        lambda: AippParameters(128),
        lambda: parameters.set_crop_params(True, 4096, 0, 1, 1),
        lambda: parameters.set_crop_params(True, 0, -1, 1, 1),
        lambda: parameters.set_crop_params(True, 0, 0, 0, 1),
        lambda: parameters.set_crop_params(True, 0, 0, 1, 4097),
        lambda: parameters.set_crop_params(False, picture=127),
        lambda: parameters.set_crop_params(False, picture=-1),
        lambda: parameters.set_padding_params(True, 33),
        lambda: parameters.set_padding_params(True, 0, 0, -1),
        lambda: parameters.set_csc_params(True, [32768, *[0] * 8]),
        lambda: parameters.set_csc_params(True, [0] * 8),
        lambda: parameters.set_csc_params(True, output_bias=[0, 0, 256]),
        lambda: parameters.set_csc_params(True, input_bias=[-1, 0, 0]),
        lambda: parameters.set_dtc_pixel_mean(1, 2, 3, 4, 5),
    ):
        with pytest.raises(UsageError) as caught:
            wrong()
        assert caught.value.code == "E10052"


def test_names_of_bytes() -> None:
    assert field_at(0) == "inputFormat"
    assert field_at(18) == "cscMatrix[1]"
    assert field_at(64) == "cropSwitch of picture 0"
    assert field_at(64 + 2 * 96 + 66) == "dtcPixelMin[1] of picture 2"
    assert (HEADER.itemsize, RECORD.itemsize) == (64, 96)


# --- settings of a run

SETTINGS: list[dict[str, Any]] = [
    {"input_format": "RGB888_U8"},
    {"input_format": "XRGB8888_U8", "ax_swap_switch": True, "rbuv_swap_switch": True, "var_reci_chn_1": 0.5},
    {"input_format": "RGB888_U8", "csc_switch": True, "mean_chn_0": 16, "min_chn_0": 0.5},
    {"input_format": "YUV420SP_U8", "csc_switch": True},
    {"input_format": "YUV420SP_U8", "csc_switch": True, "rbuv_swap_switch": True, **matrix(YUV_TO_RGB["BT.709 wide"])},
]


@pytest.mark.parametrize("config", SETTINGS)
def test_one_package_takes_any_format(rgb: InferenceSession, config: dict[str, Any]) -> None:
    source = pictures(config, 2, 4, 6)
    (result,) = rgb.run(None, {"x": source}, aipp={"x": config})
    np.testing.assert_array_equal(result.transpose(0, 2, 3, 1), model.aipp(config, source, 3, 4, 6))


@pytest.mark.parametrize("kind", FORMATS)
def test_crop_and_padding_of_each_picture(rgb: InferenceSession, gray: InferenceSession, kind: str) -> None:
    session, batch, channels = (gray, 1, 1) if kind == "YUV400_U8" else (rgb, 2, 3)
    common: dict[str, Any] = {"input_format": kind, "crop": True, "padding": True}
    each = [
        {**common, "load_start_pos_w": 2, "crop_size_w": 4, "crop_size_h": 4, "left_padding_size": 2, "mean_chn_0": 3},
        {**common, "load_start_pos_h": 4, "crop_size_w": 6, "crop_size_h": 1, "top_padding_size": 1,
         "bottom_padding_size": 2, "var_reci_chn_0": 0.0171},
    ][:batch]  # fmt: skip
    source = pictures(common, batch, 8, 10)
    (result,) = session.run(None, {"x": source}, aipp={"x": each})
    for number, config in enumerate(each):
        half = {name: float(np.float16(value)) for name, value in config.items() if name.startswith("var_reci")}
        expected = model.aipp({**config, **half}, source[number : number + 1], channels, 4, 6)
        np.testing.assert_allclose(result[number].transpose(1, 2, 0), expected[0], rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "uint8"])
def test_types_of_models(tmp_path: Path, dtype: str) -> None:
    session = InferenceSession(converted(tmp_path, identity(3, 4, 6, batch=1, dtype=dtype)))
    config = {"input_format": "RGB888_U8", "mean_chn_0": 3, "var_reci_chn_0": 0.5, "csc_switch": True}
    source = pictures(config, 1, 4, 6)
    (result,) = session.run(None, {"x": source}, aipp={"x": config})
    levels = model.levels(config, source, 3, 4, 6)
    expected = levels if dtype == "uint8" else model.normalized(config, levels)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result.transpose(0, 2, 3, 1), expected.astype(dtype))


def test_several_inputs(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1,3,2,4] x, float[1,2] w, float[1,1,2,2] z, float[1,3,2,2] v) =>
          (float[1,3,2,4] a, float[1,2] b, float[1,1,2,2] c, float[1,3,2,2] d) {
            a = Neg(x)  b = Neg(w)  c = Neg(z)  d = Neg(v)
        }"""
    (tmp_path / "aipp.cfg").write_text(
        "aipp_op { aipp_mode: dynamic related_input_rank: 2 max_src_image_size: 64 }\n"
        'aipp_op { aipp_mode: dynamic related_input_name: "x" max_src_image_size: 64 }\n'
        "aipp_op { aipp_mode: static related_input_rank: 3 input_format: RGB888_U8 }\n"
    )
    atcpy.convert(parser.parse_model(text), tmp_path / "m.om", insert_op_conf=tmp_path / "aipp.cfg")
    session = InferenceSession(tmp_path / "m.om")
    ports = [(port.name, port.shape) for port in session.get_inputs()]
    assert ports[:4] == [("x", (64,)), ("w", (1, 2)), ("z", (64,)), ("v", (1, 2, 2, 3))]
    assert ports[4:] == [(NAME, (160,)), (f"{NAME}_1", (160,))]
    x, z = pictures({"input_format": "RGB888_U8"}, 1, 2, 4), pictures({"input_format": "YUV400_U8"}, 1, 2, 2)
    v, w = np.full((1, 2, 2, 3), 7, np.uint8), np.ones((1, 2), np.float32)
    settings = {"x": {"input_format": "RGB888_U8"}, "z": {"input_format": "YUV400_U8", "mean_chn_0": 1}}
    a, b, c, d = session.run(None, {"x": x, "w": w, "z": z, "v": v}, aipp=settings)
    np.testing.assert_array_equal(a, -x.transpose(0, 3, 1, 2).astype(np.float32))
    np.testing.assert_array_equal(c, 1 - z.transpose(0, 3, 1, 2).astype(np.float32))
    assert (b == -1).all() and (d == -7).all()


def test_bytes_and_parameters_may_be_fed_as_they_are(rgb: InferenceSession) -> None:
    parameters = AippParameters(2)
    parameters.set_input_format("RGB888_U8")
    parameters.set_src_image_size(6, 4)
    source = pictures({"input_format": "RGB888_U8"}, 2, 4, 6)
    room = np.full(MAX_BYTES, 9, np.uint8)
    room[: source.size] = source.reshape(-1)
    (result,) = rgb.run(None, {"x": room, NAME: parameters.to_array()})
    np.testing.assert_array_equal(result.transpose(0, 2, 3, 1), source)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "input_format is required"),
        ({"input_format": "RAW10"}, "RAW10 is not supported"),
        ({"input_format": 3}, "not text"),
        ({"input_fromat": "RGB888_U8"}, '"input_fromat" is no setting'),
        ({"input_format": "RGB888_U8", "aipp_mode": "static"}, '"aipp_mode" is no setting'),
        ({"input_format": "RGB888_U8", "crop": 1}, "not true or false"),
        ({"input_format": "RGB888_U8", "crop": 10**5000}, "outside"),
        ({"input_format": "RGB888_U8", "rotation_angle": "1"}, "not a number"),
        ({"input_format": "RGB888_U8", "mean_chn_0": "1"}, "not a number"),
        ({"input_format": "RGB888_U8", "mean_chn_0": True}, "not a number"),
        ({"input_format": "RGB888_U8", "mean_chn_0": None}, "not a number"),
        ({"input_format": "RGB888_U8", "mean_chn_0": 1.5}, "not an integer"),
        ({"input_format": "RGB888_U8", "mean_chn_0": [1]}, "not a number"),
        ({"input_format": "RGB888_U8", "min_chn_0": float("nan")}, "outside"),
        ({"input_format": "RGB888_U8", "mean_chn_0": 256}, "outside"),
        ({"input_format": "RGB888_U8", "mean_chn_0": 10**400}, "outside"),
        ({"input_format": "RGB888_U8", "var_reci_chn_0": -(10**5000)}, "outside"),
        ({"input_format": "RGB888_U8", "resize": True}, "reserves"),
        ({"input_format": "RGB888_U8", "padding": True, "padding_value": 1}, "padding_value"),
        ({"input_format": "YUV400_U8"}, "gives 1 channels"),
        ({"input_format": "RGB888_U8", "src_image_size_w": 7}, "7 ≠ 6"),
        ({"input_format": "RGB888_U8", "crop": True, "load_start_pos_w": 1}, "leaves"),
        ({"input_format": "RGB888_U8", "crop": True, "crop_size_w": 5}, "5 ≠ 6"),
        ("RGB888_U8", "not fields"),
        (None, "not fields"),
        ([], "0 settings for the 2 pictures"),
        ([{"input_format": "RGB888_U8"}], "1 settings for the 2 pictures"),
        ([{"input_format": "RGB888_U8"}, {"input_format": "RGB888_U8", "rbuv_swap_switch": True}], "the same"),
        ([{"input_format": "RGB888_U8"}, {"input_format": "RGB888_U8", "csc_switch": True}], "same conversion"),
    ],
)
def test_settings_that_do_not_fit(rgb: InferenceSession, settings: Any, words: str) -> None:
    source = pictures({"input_format": "RGB888_U8"}, 2, 4, 6)
    with pytest.raises(AtcError) as caught:
        rgb.run(None, {"x": source}, aipp={"x": settings})
    assert words in "\n".join([caught.value.what, *(problem.what for problem in caught.value.problems)])
    assert {problem.code for problem in caught.value.problems} <= {"E10052", "E10055"}


def test_feeds_that_do_not_fit(rgb: InferenceSession) -> None:
    settings = {"input_format": "RGB888_U8"}
    source = pictures(settings, 2, 4, 6)
    for wrong in (source[:1], source[0], source.astype(np.int8), source[..., :1], np.zeros(MAX_BYTES, np.uint8)):
        with pytest.raises(UsageError) as caught:
            rgb.run(None, {"x": wrong}, aipp={"x": settings})
        assert caught.value.code == "E10052"
    large = {**settings, "crop": True, "crop_size_w": 6, "crop_size_h": 4}
    fitting, larger = pictures(settings, 2, 4, 166), pictures(settings, 2, 4, 168)
    rgb.run(None, {"x": fitting}, aipp={"x": large})
    with pytest.raises(UsageError, match=f"more than max_src_image_size: {MAX_BYTES}"):
        rgb.run(None, {"x": larger}, aipp={"x": large})
    for feeds, names in (
        ({"x": source}, {"y": settings}),
        ({}, {"x": settings}),
        ({"x": source, NAME: source}, {"x": settings}),
    ):
        with pytest.raises(UsageError) as caught:
            rgb.run(None, feeds, aipp=names)
        assert caught.value.code == "E13025"


# --- parameters that somebody else wrote

HEADER_AT = {name: offset for name, (_, offset) in (HEADER.fields or {}).items()}
RECORD_AT = {name: 64 + 96 + offset for name, (_, offset) in (RECORD.fields or {}).items()}  # of the second picture
AT = HEADER_AT | RECORD_AT
TYPES = {name: np.dtype(kind.base) for fields in (HEADER, RECORD) for name, (kind, _) in (fields.fields or {}).items()}


def run_with(session: InferenceSession, changes: dict[str, float], kind: str = "RGB888_U8") -> Array:
    """Run on pictures of 8×10 that are cut to 3×5 and padded, with some fields of the parameters changed."""
    parameters = AippParameters(2)
    parameters.set_input_format(kind)
    parameters.set_src_image_size(10, 8)
    for picture in (0, 1):
        parameters.set_crop_params(True, 4, 2, 5, 3, picture)
        parameters.set_padding_params(True, 1, 0, 0, 1, picture)
    block = parameters.to_array()
    for name, value in changes.items():
        number = np.array([value]).astype(TYPES[name])
        block[AT[name] : AT[name] + number.nbytes] = number.view(np.uint8)
    result: Array = session.run(None, {"x": np.zeros(MAX_BYTES, np.uint8), NAME: block})[0]
    return result


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"inputFormat": 0}, "inputFormat"),
        ({"inputFormat": 5}, "inputFormat"),
        ({"inputFormat": 4}, "inputFormat"),
        ({"cscSwitch": 2}, "cscSwitch"),
        ({"cscSwitch": -1}, "cscSwitch"),
        ({"rbuvSwapSwitch": 2}, "rbuvSwapSwitch"),
        ({"axSwapSwitch": 2}, "axSwapSwitch"),
        ({"batchNum": 1}, "batchNum"),
        ({"batchNum": 3}, "batchNum"),
        ({"srcImageSizeW": 1}, "srcImageSizeW"),
        ({"srcImageSizeW": 4097}, "srcImageSizeW"),
        ({"srcImageSizeH": 0}, "srcImageSizeH"),
        ({"srcImageSizeH": 4097}, "srcImageSizeH"),
        ({"srcImageSizeH": -8}, "srcImageSizeH"),
        ({"srcImageSizeH": 67}, "srcImageSizeH"),
        ({"cropSwitch": 2}, "cropSwitch"),
        ({"cropSwitch": 0}, "cropSizeW"),
        ({"scfSwitch": 1}, "scfSwitch"),
        ({"rotateSwitch": 1}, "rotateSwitch"),
        ({"paddingSwitch": 2}, "paddingSwitch"),
        ({"paddingSwitch": 0}, "cropSizeW"),
        ({"cropStartPosW": -1}, "cropStartPosW"),
        ({"cropStartPosW": 6}, "cropSizeW"),
        ({"cropStartPosH": -2}, "cropStartPosH"),
        ({"cropStartPosH": 6}, "cropSizeH"),
        ({"cropStartPosH": 2**31 - 1}, "cropSizeH"),
        ({"cropSizeW": 6}, "cropSizeW"),
        ({"cropSizeW": 0, "paddingSizeRight": 6}, "cropSizeW"),
        ({"cropSizeH": 2}, "cropSizeH"),
        ({"cropSizeH": -3}, "cropSizeH"),
        ({"paddingSizeTop": 33}, "paddingSizeTop"),
        ({"paddingSizeBottom": -1}, "paddingSizeBottom"),
        ({"paddingSizeLeft": -1, "paddingSizeRight": 2}, "paddingSizeLeft"),
        ({"paddingSizeRight": 33}, "paddingSizeRight"),
        ({"paddingSizeRight": -1}, "paddingSizeRight"),
        ({"dtcPixelMean": -1}, "dtcPixelMean"),
        ({"dtcPixelMean": 256}, "dtcPixelMean"),
        ({"dtcPixelMin": -0.5}, "dtcPixelMin"),
        ({"dtcPixelMin": 255.5}, "dtcPixelMin"),
        ({"dtcPixelMin": float("nan")}, "dtcPixelMin"),
        ({"dtcPixelVarReci": float("inf")}, "dtcPixelVarReci"),
        ({"dtcPixelVarReci": float("nan")}, "dtcPixelVarReci"),
    ],
)
def test_parameters_that_do_not_fit(rgb: InferenceSession, changes: dict[str, float], field: str) -> None:
    with pytest.raises(ModelInvalid) as caught:
        run_with(rgb, changes)
    assert caught.value.code == "D0001"
    assert f"{field}" in caught.value.what.split(" is ")[0]
    assert field in HEADER_AT or "picture 1" in caught.value.what


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"srcImageSizeH": 66},
        {"srcImageSizeW": 9},
        {"cropStartPosW": 5},
        {"cropStartPosH": 5},
        {"cropStartPosW": 0, "cropStartPosH": 0},
        {"paddingSizeLeft": 1, "paddingSizeRight": 0},
        {"dtcPixelMean": 255, "dtcPixelMin": 255.0, "dtcPixelVarReci": -65504.0},
        {"scfInputSizeW": 7},
    ],
)
def test_parameters_that_just_fit(rgb: InferenceSession, changes: dict[str, float]) -> None:
    assert run_with(rgb, changes).shape == (2, 3, 4, 6)


def test_yuv_needs_even_sizes(rgb: InferenceSession) -> None:
    run_with(rgb, {}, "YUV420SP_U8")
    for name, value in {"srcImageSizeW": 9, "srcImageSizeH": 7, "cropStartPosW": 3, "cropStartPosH": 1}.items():
        run_with(rgb, {name: value})
        with pytest.raises(ModelInvalid, match=name):
            run_with(rgb, {name: value}, "YUV420SP_U8")


def test_a_gray_model_takes_gray_or_a_conversion(gray: InferenceSession) -> None:
    for kind, converts, fits in (
        ("YUV400_U8", False, True),
        ("YUV400_U8", True, False),
        ("RGB888_U8", True, True),
        ("RGB888_U8", False, False),
    ):
        parameters = AippParameters()
        parameters.set_input_format(kind)
        parameters.set_src_image_size(6, 4)
        parameters.set_csc_params(converts, (256, 0, 0, *[0] * 6))
        feeds = {"x": np.full(MAX_BYTES, 9, np.uint8), NAME: parameters.to_array()}
        if fits:
            assert (gray.run(None, feeds)[0] == 9).all()
        else:
            with pytest.raises(ModelInvalid, match="cscSwitch"):
                gray.run(None, feeds)


# --- conversion


def test_what_a_dynamic_block_needs(tmp_path: Path) -> None:
    source = identity(3, 4, 6, batch=1)
    for fields, words in (
        ("", "max_src_image_size is required"),
        ("max_src_image_size: 0", "max_src_image_size is required"),
        (f"max_src_image_size: {4096 * 4096 * 4 + 1}", "is outside 1.."),
        ("max_src_image_size: 9 related_input_rank: 1", "outside 0..0"),
        ("max_src_image_size: 9 resize: true", "reserves"),
    ):
        with pytest.raises(AtcError, match=words):
            converted(tmp_path, source, fields=fields)
    with pytest.raises(UsageError, match="4 channels"):
        converted(tmp_path, identity(4, 4, 6, batch=1))
    with pytest.raises(UsageError, match="128 pictures"):
        converted(tmp_path, identity(1, 2, 2, batch=128))
    converted(tmp_path, identity(1, 2, 2, batch=127))
    with pytest.raises(UsageError, match="is open"):
        converted(tmp_path, identity(3, 4, 6), input_shape="x:-1,3,4,6")
    with pytest.raises(Unsupported, match="gears"):
        converted(tmp_path, identity(3, 4, 6), input_shape="x:-1,3,4,6", dynamic_batch_size="1,2")


def test_fields_that_each_run_sets_have_no_effect(tmp_path: Path) -> None:
    (tmp_path / "aipp.cfg").write_text(
        "aipp_op { aipp_mode: dynamic max_src_image_size: 99 csc_switch: true\n mean_chn_0: 3 }"
    )
    report = atcpy.convert(identity(3, 2, 2, batch=1), tmp_path / "m.om", insert_op_conf=tmp_path / "aipp.cfg")
    (warning,) = report.warnings
    assert (warning.code, warning.where.line) == ("W0031", 1)
    assert "mean_chn_0" in warning.message and "csc_switch" in warning.message


def test_the_package_records_the_block(rgb: InferenceSession) -> None:
    data = rgb.model.graph.inputs[0]
    assert json.loads(data.str_attr("aipp", "")) == {
        "aipp_mode": "dynamic", "max_src_image_size": MAX_BYTES, "related_input_rank": 0,
    }  # fmt: skip
