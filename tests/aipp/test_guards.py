"""What a configuration and a model must have in common: both sides of each guard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import parser

import atcpy
from atcpy import InferenceSession
from atcpy.errors import AtcError, Unsupported, UsageError
from atcpy.options import convert_options
from atcpy.stages import pipeline
from tests.aipp import model
from tests.aipp.test_aipp import identity, matrix

RGB = {"input_format": "RGB888_U8"}
TWO = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1,3,4,6] x, float[1,1,2,4] z) => (float[1,3,4,6] y, float[1,3,4,6] v, float[1,1,2,4] w) {
    y = Neg(x)  v = Abs(x)  w = Neg(z)
}"""


class Compile:
    """Compiles a model with configurations of AIPP."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.package = folder / "m.om"

    def __call__(self, source: Any, *configs: model.Config, **options: Any) -> Any:
        (self.folder / "aipp.cfg").write_text(model.textproto(*configs))
        return atcpy.convert(source, self.package, insert_op_conf=self.folder / "aipp.cfg", **options)

    def error(self, source: Any, *configs: model.Config, **options: Any) -> AtcError:
        with pytest.raises(AtcError) as caught:
            self(source, *configs, **options)
        return caught.value

    def says(self, source: Any, config: model.Config, text: str, field: str = "", **options: Any) -> None:
        """E10052 with that text, at the line of that field."""
        error = self.error(source, config, **options)
        assert (error.code, error.exit_code) == ("E10052", 2)
        assert text in error.what
        if field:
            line = (self.folder / "aipp.cfg").read_text().splitlines()[(error.where.line or 0) - 1]
            assert line.strip().startswith(field + ":")


@pytest.fixture
def compiled(tmp_path: Path) -> Compile:
    return Compile(tmp_path)


def test_crop_stays_in_the_source(compiled: Compile) -> None:
    source = RGB | {"src_image_size_w": 256, "src_image_size_h": 240, "crop": True}
    compiled(identity(3, 224, 224, batch=1), source | {"load_start_pos_w": 32, "load_start_pos_h": 16})
    picture = identity(3, 224, 224, batch=1)
    text = "crop 224×224 at (33,0) leaves the 256×240 source: 33 + 224 > 256"
    compiled.says(picture, source | {"load_start_pos_w": 33}, text, "load_start_pos_w")
    text = "crop 224×224 at (0,17) leaves the 256×240 source: 17 + 224 > 240"
    compiled.says(picture, source | {"load_start_pos_h": 17}, text, "load_start_pos_h")
    sizes = {"crop_size_w": 225, "crop_size_h": 224}
    compiled.says(picture, source | sizes, "the width of the picture is not that of", "crop_size_w")


def test_the_sum_is_the_size_of_the_model(compiled: Compile) -> None:
    config = RGB | {"src_image_size_w": 5, "src_image_size_h": 4, "padding": True}
    compiled(
        identity(3, 7, 8, batch=1), config | {"top_padding_size": 3, "left_padding_size": 1, "right_padding_size": 2}
    )
    compiled.says(identity(3, 7, 5, batch=1), config | {"top_padding_size": 2}, "2 + 4 + 0 ≠ 7", "src_image_size_h")
    compiled.says(identity(3, 4, 7, batch=1), config | {"left_padding_size": 1}, "1 + 5 + 0 ≠ 7", "src_image_size_w")
    compiled.says(identity(3, 4, 7, batch=1), RGB | {"src_image_size_w": 5}, ": 5 ≠ 7", "src_image_size_w")


def test_sizes_of_the_model_have_the_same_limits(compiled: Compile) -> None:
    compiled(identity(3, 1, 2, batch=1), RGB)
    compiled.says(identity(3, 1, 1, batch=1), RGB, "src_image_size_w: 1 is outside 2..4096")
    compiled.says(identity(3, 1, 4097, batch=1), RGB, "src_image_size_w: 4097 is outside 2..4096")
    compiled.says(identity(3, 4097, 2, batch=1), RGB, "src_image_size_h: 4097 is outside 1..4096")
    yuv = {"input_format": "YUV420SP_U8"}
    compiled(identity(3, 2, 4, batch=1), yuv)
    compiled.says(identity(3, 3, 4, batch=1), yuv, "src_image_size_h: 3 is odd")


def test_channels(compiled: Compile) -> None:
    gray = {"csc_switch": True, **matrix([(76, 150, 30), (0, 0, 0), (0, 0, 0)])}
    compiled(identity(1, 2, 2, batch=1), RGB | gray)
    compiled.says(identity(1, 2, 2, batch=1), RGB | gray | {"matrix_r2c1": 1}, "gives 3 channels", "csc_switch")
    compiled.says(identity(1, 2, 2, batch=1), RGB, "RGB888_U8 gives 3 channels", "input_format")
    compiled.says(identity(4, 2, 2, batch=1), {"input_format": "XRGB8888_U8"}, "takes 4", "input_format")
    compiled.says(identity(3, 2, 2, batch=1), {"input_format": "YUV400_U8"}, "gives 1 channels", "input_format")


def test_channels_last(compiled: Compile) -> None:
    for channels, size in ((1, (2, 3)), (3, (2, 2)), (3, (2, 3))):
        config = RGB if channels == 3 else {"input_format": "YUV400_U8"}
        compiled(identity(channels, *size, batch=1), config)
    for dynamic in (False, True):
        config = {"aipp_mode": "dynamic", "max_src_image_size": 99} if dynamic else RGB
        for height, channels in ((2, 3), (4, 1)):
            error = compiled.error(identity(height, 6, channels, batch=1), config)
            assert error.code == "E10052"
            assert f"[1,{height},6,{channels}] has its channels last" in error.what
            assert "tf2onnx --inputs-as-nchw" in error.hint


def test_types(compiled: Compile) -> None:
    for dtype in ("float", "float16", "uint8"):
        compiled(identity(3, 2, 2, batch=1, dtype=dtype), RGB)
    compiled.says(identity(3, 2, 2, batch=1, dtype="int64"), RGB, "is int64")
    flat = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]> g (float[3,4] x) => (float[3,4] y) {
        y = Neg(x) }""")
    compiled.says(flat, RGB, "has not the four dims of NCHW")
    config = RGB | {"padding": True, "padding_value": 0.5}
    compiled(identity(3, 2, 2, batch=1), config)
    compiled.says(identity(3, 2, 2, batch=1, dtype="uint8"), config, "padding_value: 0.5 is no number", "padding_value")


def test_several_inputs(compiled: Compile) -> None:
    gray = {"input_format": "YUV400_U8", "mean_chn_0": 5}
    for which in ({"related_input_rank": 1}, {"related_input_name": "z"}):
        compiled(parser.parse_model(TWO), gray | which, RGB | {"rbuv_swap_switch": True})
        session = InferenceSession(compiled.package)
        assert [port.shape for port in session.get_inputs()] == [(1, 4, 6, 3), (1, 2, 4, 1)]
        rng = np.random.default_rng(1)
        x, z = (rng.integers(0, 256, port.shape, np.uint8) for port in session.get_inputs())
        y, v, w = session.run(None, {"x": x, "z": z})
        expected = x[..., ::-1].transpose(0, 3, 1, 2).astype(np.float32)
        np.testing.assert_array_equal(v, expected)
        np.testing.assert_array_equal(y, -expected)
        np.testing.assert_array_equal(w, 5 - z.astype(np.float32).transpose(0, 3, 1, 2))


def test_inputs_that_a_block_names(compiled: Compile) -> None:
    two = parser.parse_model(TWO)
    compiled.says(two, RGB | {"related_input_rank": 2}, "2 is outside 0..1", "related_input_rank")
    compiled.says(two, RGB | {"related_input_name": "q"}, 'no input "q"', "related_input_name")
    error = compiled.error(two, RGB, RGB | {"related_input_name": "x"})
    assert (error.code, error.where.line) == ("E10052", 8)
    assert '"x" has a block at line 1 already' in error.what


def test_the_readers_of_an_input(compiled: Compile) -> None:
    two = parser.parse_model(TWO)
    compiled(two, RGB | {"input_edge_idx": [0, 1]})
    for edges in ([0], [1], [0, 2], [0, 1, 2]):
        compiled.says(two, RGB | {"input_edge_idx": edges}, "are not the 2 readers", "input_edge_idx")


def test_layouts(compiled: Compile) -> None:
    compiled(identity(3, 2, 2, batch=1), RGB, input_format="NCHW")
    error = compiled.error(identity(3, 2, 2, batch=1), RGB, input_format="ND")
    assert (error.code, error.where.option) == ("E10001", "input_format")


def test_batch_gears(compiled: Compile) -> None:
    config = {"input_format": "YUV420SP_U8", "csc_switch": True, "src_image_size_w": 8, "src_image_size_h": 4}
    config |= {"crop": True, "load_start_pos_w": 2}
    compiled(identity(3, 4, 6), config, input_shape="x:-1,3,4,6", dynamic_batch_size="1,2,4")
    session = InferenceSession(compiled.package)
    assert session.get_inputs()[0].gears == tuple((batch, 6, 8, 1) for batch in (1, 2, 4))
    for batch in (1, 2, 4):
        x = np.random.default_rng(batch).integers(0, 256, (batch, 6, 8, 1), np.uint8)
        expected = model.aipp(config, x, 3, 4, 6).transpose(0, 3, 1, 2)
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], expected)
    with pytest.raises(UsageError):
        session.run(None, {"x": np.zeros((3, 6, 8, 1), np.uint8)})


def test_image_gears(compiled: Compile) -> None:
    open_picture = identity(3, "H", "W")
    gears = {"input_shape": "x:1,3,-1,-1", "dynamic_image_size": "4,6;8,2"}
    config = RGB | {"csc_switch": True, "rbuv_swap_switch": True}
    compiled(open_picture, config, **gears)
    session = InferenceSession(compiled.package)
    assert session.get_inputs()[0].gears == ((1, 4, 6, 3), (1, 8, 2, 3))
    for height, width in ((4, 6), (8, 2)):
        x = np.random.default_rng(height).integers(0, 256, (1, height, width, 3), np.uint8)
        expected = model.aipp(config, x, 3, height, width).transpose(0, 3, 1, 2)
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], expected)
    for field in ({"crop": True}, {"padding": True}, {"src_image_size_w": 6}, {"src_image_size_h": 4}):
        compiled.says(open_picture, RGB | field, "cannot be used with --dynamic_image_size", next(iter(field)), **gears)
    error = compiled.error(open_picture, {"input_format": "YUV420SP_U8"}, **gears)
    assert isinstance(error, Unsupported)


def test_open_sizes_are_refused(compiled: Compile) -> None:
    for dims in ("-1,3,4,6", "1~8,3,4,6", "1,3,4,2~6"):
        source = identity(3, "H", "W")
        compiled.says(source, RGB, "is open, and AIPP has one size", input_shape=f"x:{dims}")
    error = compiled.error(identity(3, 4, 6), RGB, input_shape="x:-1,3,4,6", dynamic_dims="1;2")
    assert (error.code, error.where.option) == ("E10001", "insert_op_conf")


def test_fields_of_channels_that_are_not_there(compiled: Compile) -> None:
    report = compiled(identity(3, 2, 2, batch=1), RGB | {"mean_chn_2": 1, "mean_chn_3": 1, "var_reci_chn_3": 1})
    assert [(w.code, w.message) for w in report.warnings] == [
        ("W0031", 'AIPP: mean_chn_3, var_reci_chn_3 have no effect: the input "x" takes 3 channels')
    ]
    report = compiled(identity(3, 2, 2, batch=1, dtype="uint8"), RGB | {"mean_chn_2": 1})
    assert ["takes bytes" in warning.message for warning in report.warnings] == [True]


def test_the_same_settings_give_the_same_bytes(compiled: Compile) -> None:
    packages = []
    for config in (RGB | {"mean_chn_0": 7, "csc_switch": False}, {"mean_chn_0": 7} | RGB, RGB | {"mean_chn_0": 8}):
        compiled(identity(3, 2, 2, batch=1), config)
        packages.append(compiled.package.read_bytes())
    assert packages[0] == packages[1] != packages[2]


def test_check_reports_what_does_not_fit(compiled: Compile) -> None:
    path = compiled.folder / "aipp.cfg"
    path.write_text(model.textproto(RGB | {"src_image_size_w": 5}))
    report = pipeline.check(identity(3, 4, 7, batch=1), convert_options({"insert_op_conf": path}))
    assert [problem.code for problem in report.problems] == ["E10052"]


def test_an_input_that_is_the_output_or_read_by_nobody(compiled: Compile) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1,3,2,2] x, float[1,3,2,2] z) => (float[1,3,2,2] x) { }"""
    compiled(parser.parse_model(text), RGB | {"mean_chn_0": 1}, RGB | {"related_input_rank": 1})
    x = np.full((1, 2, 2, 3), 9, np.uint8)
    (y,) = InferenceSession(compiled.package).run(None, {"x": x, "z": x})
    np.testing.assert_array_equal(y[0, :, 0, 0], [8, 9, 9])
