"""Reading the file of --insert_op_conf: every range, both sides; each error with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from atcpy.aipp.config import Aipp, AippConfig, DynamicAipp, Picture
from atcpy.aipp.reader import read_aipp
from atcpy.errors import AtcError, Unsupported, UsageError
from atcpy.options import convert_options
from tests.aipp.model import textproto


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "aipp.cfg"


def read(path: Path, **fields: Any) -> AippConfig:
    path.write_text(textproto({"input_format": "RGB888_U8", **fields}))
    return read_aipp(str(path))


def error_of(path: Path, text: str) -> AtcError:
    path.write_text(text)
    with pytest.raises(AtcError) as caught:
        read_aipp(str(path))
    return caught.value


def location(error: AtcError) -> tuple[str, int | None, int | None]:
    return error.code, error.where.line, error.where.column


@pytest.mark.parametrize(
    ("text", "line", "column", "hint"),
    [
        ("aipp_op {\n  aipp_mode: static\n  mean_ch_0: 1\n}", 3, 3, "mean_chn_0"),
        ("aipp_op {\n  input_format: RGB888\n}", 2, 17, "RGB888_U8"),
        ("aip_op {\n}", 1, 1, "aipp_op"),
        ("aipp_op {\n  mean_chn_0: 1.5\n}", 2, 15, ""),
        ("aipp_op {\n  mean_chn_0: 1\n  mean_chn_0: 2\n}", 3, 15, ""),
        ("aipp_op {\n  crop: maybe\n}", 2, 9, ""),
        ("aipp_op {\n", 1, 9, ""),
    ],
)
def test_what_is_no_textproto(path: Path, text: str, line: int, column: int, hint: str) -> None:
    error = error_of(path, text)
    assert location(error) == ("E13018", line, column)
    assert error.what.startswith(f"{path}:{line}:{column}: ")
    assert "atcpy.aipp" not in error.what
    assert hint in error.hint
    assert bool(hint) == bool(error.hint)


def test_files_that_are_no_text(path: Path) -> None:
    path.write_bytes(b"aipp_op {\xff")
    with pytest.raises(UsageError) as caught:
        read_aipp(str(path))
    assert (caught.value.code, caught.value.where.offset) == ("E13005", 9)
    with pytest.raises(UsageError) as caught:
        read_aipp(str(path) + "no")
    assert caught.value.code == "E10410"
    assert error_of(path, "# nothing\n").code == "E10052"


BYTE, HALF, SHORT = (0, 255), (-65504, 65504), (-32768, 32767)
RANGES = {
    "src_image_size_w": (2, 4096),
    "src_image_size_h": (1, 4096),
    "load_start_pos_w": (0, 4095),
    "load_start_pos_h": (0, 4095),
    "crop_size_w": (0, 4096),
    "crop_size_h": (0, 4096),
    "left_padding_size": (0, 32),
    "right_padding_size": (0, 32),
    "top_padding_size": (0, 32),
    "bottom_padding_size": (0, 32),
    "padding_value": HALF,
    **{f"matrix_r{r}c{c}": SHORT for r in range(3) for c in range(3)},
    **{f"{side}_bias_{i}": BYTE for side in ("input", "output") for i in range(3)},
    **{f"mean_chn_{i}": BYTE for i in range(4)},
    **{f"min_chn_{i}": BYTE for i in range(4)},
    **{f"var_reci_chn_{i}": HALF for i in range(4)},
}


@pytest.mark.parametrize("name", RANGES)
def test_ranges(path: Path, name: str) -> None:
    lo, hi = RANGES[name]
    for value in (lo, hi):
        read(path, **{name: value})
    below = -1 if name.startswith("src_image_size") else lo - 1
    for value in (below, hi + 1, *([1] * (name == "src_image_size_w"))):
        with pytest.raises(UsageError) as caught:
            read(path, **{name: value})
        assert (caught.value.code, caught.value.where.line) == ("E10052", 4)
        assert f"{name}: {value} is outside" in caught.value.what


def test_numbers_that_are_none(path: Path) -> None:
    for value in ("nan", "inf", "-inf"):
        with pytest.raises(UsageError, match=r"var_reci_chn_0.*outside"):
            read(path, var_reci_chn_0=value)


@pytest.mark.parametrize("field", ["matrix_r0c0: 1", "var_reci_chn_1: 1", "input_bias_2: 3"])
def test_a_field_that_is_set_twice(path: Path, field: str) -> None:
    head = "aipp_op {\n aipp_mode: static\n input_format: RGB888_U8\n"
    error = error_of(path, f"{head} {field}\n {field}\n}}")
    assert location(error) == ("E10052", 4, None)
    assert f"{field.partition(':')[0]} is set 2 times" in error.what


@pytest.mark.parametrize(
    ("name", "only", "other"),
    [
        ("support_rotation", "false", "true"),
        ("rotation_angle", "0", "1"),
        ("cpadding_value", "0", "0.5"),
        ("resize", "false", "true"),
        ("resize_output_w", "0", "16"),
        ("resize_output_h", "0", "16"),
        ("single_line_mode", "false", "true"),
        ("raw_rgbir_to_f16_n", "8", "0"),
    ],
)
def test_reserved_fields(path: Path, name: str, only: str, other: str) -> None:
    read(path, **{name: only})
    with pytest.raises(Unsupported) as caught:
        read(path, **{name: other})
    assert (caught.value.code, caught.value.where.line) == ("E10055", 4)
    assert f"no value but {only}" in caught.value.what


def test_modes(path: Path) -> None:
    dynamic = error_of(path, "aipp_op {\n aipp_mode: dynamic\n}")
    assert location(dynamic) == ("E10052", 1, None)
    assert "max_src_image_size is required" in dynamic.what
    path.write_text("aipp_op { aipp_mode: dynamic max_src_image_size: 9 }")
    (block,) = read_aipp(str(path)).blocks
    assert isinstance(block, DynamicAipp) and block.max_source_bytes == 9
    assert "aipp_mode is required" in error_of(path, "aipp_op {\n input_format: RGB888_U8\n}").what
    assert "input_format is required" in error_of(path, "aipp_op {\n aipp_mode: static\n}").what


@pytest.mark.parametrize("name", ["ARGB8888_U8", "RAW12", "NC1HWC0DI_S8", "AYUV444_U8"])
def test_formats_that_are_refused(path: Path, name: str) -> None:
    with pytest.raises(Unsupported, match=name):
        read(path, input_format=name)


def test_yuv_needs_even_numbers(path: Path) -> None:
    for name in ("src_image_size_w", "src_image_size_h", "load_start_pos_w", "load_start_pos_h"):
        fields = {"input_format": "YUV420SP_U8", "crop": True}
        read(path, **fields, **{name: 4})
        read(path, crop=True, **{name: 5})
        with pytest.raises(UsageError, match=f"{name}: 5 is odd"):
            read(path, **fields, **{name: 5})


def test_gray_has_no_conversion(path: Path) -> None:
    read(path, input_format="YUV400_U8", csc_switch=False)
    with pytest.raises(UsageError, match="one channel"):
        read(path, input_format="YUV400_U8", csc_switch=True)


def test_all_that_is_wrong_is_said(path: Path) -> None:
    first = {"input_format": "RGB888_U8", "mean_chn_0": 256, "left_padding_size": 33}
    error = error_of(path, textproto(first, {"input_format": "RGB888_U8", "min_chn_1": -1, "resize": True}))
    assert sorted((problem.code, problem.where.line) for problem in error.problems) == [
        ("E10052", 4),
        ("E10052", 5),
        ("E10052", 10),
        ("E10055", 11),
    ]


@pytest.mark.parametrize(
    ("fields", "names", "why"),
    [
        ({"matrix_r0c0": 1, "input_bias_0": 1}, "matrix_r0c0, input_bias_0 have", "csc_switch is off"),
        ({"csc_switch": True, "input_bias_0": 1}, "input_bias_0 has", "output biases"),
        ({"crop_size_w": 3}, "crop_size_w has", "crop is off"),
        ({"top_padding_size": 1, "padding_value": 0}, "top_padding_size, padding_value have", "padding is off"),
        ({"max_src_image_size": 1}, "max_src_image_size has", "static"),
        ({"ax_swap_switch": False}, "ax_swap_switch has", "no X"),
        ({"input_format": "YUV400_U8", "rbuv_swap_switch": True}, "rbuv_swap_switch has", "one channel"),
        ({"related_input_name": "x", "related_input_rank": 1}, "related_input_rank has", "beats it"),
    ],
)
def test_fields_without_effect(path: Path, fields: dict[str, Any], names: str, why: str) -> None:
    (block,) = read(path, **fields).blocks
    (warning,) = block.warnings
    assert warning.code == "W0031"
    assert warning.message.startswith(f"AIPP: {names} no effect: ")
    assert why in warning.message
    assert warning.where.line in (4, 5)
    plain = {name: value for name, value in fields.items() if name in ("input_format", "csc_switch")}
    if "related_input_name" not in fields:
        assert read(path, **plain).sha256 == AippConfig((block,)).sha256


def test_the_digest_is_of_what_the_file_says(path: Path) -> None:
    one = read(path, mean_chn_0=3, var_reci_chn_1=0.5).sha256
    path.write_text(
        "# the same\naipp_op <var_reci_chn_1: 5e-1, input_format: 3; mean_chn_0: 0x3 mean_chn_1: 0\naipp_mode: static>"
    )
    assert read_aipp(str(path)).sha256 == one
    assert read(path, mean_chn_0=3, var_reci_chn_1=0.25).sha256 != one
    blocks = [{"input_format": "RGB888_U8"}, {"input_format": "YUV400_U8", "related_input_rank": 1}]
    digests = set()
    for order in (blocks, blocks[::-1]):
        path.write_text(textproto(*order))
        digests.add(read_aipp(str(path)).sha256)
    assert len(digests) == 1


def test_lines_of_blocks_in_a_list(path: Path) -> None:
    path.write_text(
        'aipp_op: [{ # a { brace\n aipp_mode: static input_format: RGB888_U8 related_input_name: "x{:0"},\n'
        "{aipp_mode: static\n input_format: YUV400_U8}]"
    )
    config = read_aipp(str(path))
    assert [block.fields.line for block in config.blocks] == [1, 3]
    assert [block.fields.lines["input_format"] for block in config.blocks] == [2, 4]
    assert config.blocks[0].name == "x{:0"
    assert isinstance(config.blocks[1], Aipp) and config.blocks[1].picture is Picture.YUV400


def test_the_option_reads_the_file(path: Path) -> None:
    config = read(path, mean_chn_0=3)
    for value in (path, str(path)):
        options = convert_options({"insert_op_conf": value})
        assert options.parse.aipp == config
        assert f"--insert_op_conf=sha256:{config.sha256}" in options.atc_cmdline
