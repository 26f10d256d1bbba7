"""ATC's way to read arguments: rewriting, prefixes, words that are taken as values."""

from __future__ import annotations

import pytest

from atcpy.atc_flags import FLAG_BY_NAME, FLAGS, FlagKind, Support, read_flags
from atcpy.cli.atc.arguments import ArgumentError, read_arguments
from atcpy.errors import AtcError


@pytest.mark.parametrize(
    ("words", "texts"),
    [
        (["--model=m.onnx"], {"model": "m.onnx"}),
        (["--model", "m.onnx"], {"model": "m.onnx"}),
        (["-model=m.onnx"], {"model": "m.onnx"}),
        (["-model", "m.onnx"], {"model": "m.onnx"}),
        (["--soc-version=Ascend310"], {"soc_version": "Ascend310"}),
        (["-soc-version", "Ascend310"], {"soc_version": "Ascend310"}),
        (["--soc=Ascend310"], {"soc_version": "Ascend310"}),
        (["--frame=5"], {"framework": "5"}),
        (["--output=o"], {"output": "o"}),  # an exact name, though output_type begins with it
        (["--output=a=b-c"], {"output": "a=b-c"}),
        (["--input_shape", "x:-1,3"], {"input_shape": "x:-1,3"}),
        (["--model", "--output"], {"model": "--output"}),
        (["--mode=0", "--mode=3"], {"mode": "3"}),
        (["--help"], {"help": ""}),
        (["-h"], {"h": ""}),
        (["--model="], {"model": ""}),
        ([], {}),
    ],
)
def test_spellings(words: list[str], texts: dict[str, str]) -> None:
    assert read_arguments(words) == texts


@pytest.mark.parametrize(
    ("words", "line", "hint"),
    [
        (["--modell=x"], "ERROR: unknown command line flag 'modell'", "did you mean"),
        (["--input=x"], "ERROR: unknown command line flag 'input'", "input_shape"),
        (["--xyz"], "ERROR: unknown command line flag 'xyz'", ""),
        (["--model"], "ERROR: flag 'model' is missing its argument; flag description: the model", ""),
        (["x:1", "--mode=0"], "ERROR: Non-option parameter: x:1", "quotes"),
        (["--help", "true"], "ERROR: Non-option parameter: true", "quotes"),
        (["-"], "ERROR: Non-option parameter: -", "quotes"),
        (["--"], "ERROR: Non-option parameter: --", "quotes"),
        (["---mode=0"], "ERROR: Non-option parameter: ---mode=0", "quotes"),
    ],
)
def test_what_no_flag_takes(words: list[str], line: str, hint: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        read_arguments(words)
    assert str(caught.value) == line
    assert hint in caught.value.hint


def test_the_table_has_all_options() -> None:
    assert len(FLAGS) == len(FLAG_BY_NAME) == 91  # 90, and help's short name
    assert all(flag.note for flag in FLAGS)


@pytest.mark.parametrize("name", [flag.name for flag in FLAGS if flag.choices and flag.support is not Support.REFUSED])
def test_a_closed_set_takes_its_values_and_no_others(name: str) -> None:
    flag = FLAG_BY_NAME[name]
    assert [flag.read(choice) for choice in flag.choices] == list(flag.choices)
    for wrong in (flag.choices[0] + "x", "99"):
        with pytest.raises(AtcError) as caught:
            flag.read(wrong)
        assert caught.value.code == flag.code
    if flag.default and name not in ("input_format", "framework"):
        assert flag.default in flag.choices


@pytest.mark.parametrize("name", [flag.name for flag in FLAGS if flag.support is Support.REFUSED])
def test_what_is_refused_says_why(name: str) -> None:
    with pytest.raises(AtcError) as caught:
        FLAG_BY_NAME[name].read("1")
    expected = ("E10001", 2) if name == "auto_tune_mode" else ("E10055", 4)  # ATC itself refuses to tune
    assert (caught.value.code, caught.value.exit_code) == expected
    assert FLAG_BY_NAME[name].note in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"), [("", "true"), ("T", "true"), ("yes", "true"), ("0", "false"), ("No", "false"), ("maybe", None)]
)
def test_bools(text: str, value: str | None) -> None:
    flag = next(flag for flag in FLAGS if flag.kind is FlagKind.BOOL and flag.support is Support.APPLIED)
    if value is None:
        with pytest.raises(AtcError) as caught:
            flag.read(text)
        assert caught.value.code == "E10005"
    else:
        assert flag.read(text) == value


def test_a_text_is_no_blank() -> None:
    with pytest.raises(AtcError) as caught:
        FLAG_BY_NAME["model"].read(" ")
    assert caught.value.code == "E10004"


def test_what_is_empty_counts_as_not_given() -> None:
    names = ("insert_op_conf", "multi_stream_parallel_mode", "enable_single_stream", "cluster_config", "auto_tune_mode")
    assert read_flags({**dict.fromkeys(names, ""), "model": "m"}) == {"model": "m"}
    assert read_flags({"help": ""}) == {"help": "true"}


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("mode", "E10001"),
        ("framework", "E10007"),
        ("log", "E10010"),
        ("is_weight_clip", "E10006"),
        ("precision_mode", "E10001"),
    ],
)
def test_what_atc_checks_while_it_reads_must_not_be_empty(name: str, code: str) -> None:
    with pytest.raises(AtcError) as caught:
        FLAG_BY_NAME[name].read("")
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("name", "what", "hint"),
    [
        ("allow_hf32", '--allow_hf32: "9" must be true or false', ""),
        ("dump_mode", '--dump_mode: "9" must be 0 or 1', ""),
        ("external_weight", '--external_weight: "9" is not one of 0, 1, 2', ""),
        ("framework", '--framework: "9" is unknown', "one of 0, 1, 3, 5: 5 for ONNX"),
        ("log", '--log: "9" is not a level', "the levels are debug, info, warning, error, null"),
        ("core_type", '--core_type: "9" is not one of AiCore, VectorCore', ""),
    ],
)
def test_what_is_said_of_a_wrong_value(name: str, what: str, hint: str) -> None:
    with pytest.raises(AtcError) as caught:
        FLAG_BY_NAME[name].read("9")
    assert caught.value.what == what
    assert hint in caught.value.hint


CODES = {
    "E10005": ("enable_single_stream", "enable_compress_weight", "allow_hf32", "save_original_model"),
    "E10006": ("deterministic", "atomic_clean_policy", "is_weight_clip", "ac_parallel_enable", "sparsity", "dump_mode"),
    "E10001": ("mode", "virtual_type", "op_debug_level", "deterministic_level", "topo_sorting_mode", "core_type"),
}


@pytest.mark.parametrize(("code", "name"), [(code, name) for code, names in CODES.items() for name in names])
def test_the_codes_of_closed_sets_are_those_of_atc(code: str, name: str) -> None:
    with pytest.raises(AtcError) as caught:
        FLAG_BY_NAME[name].read("9")
    assert caught.value.code == code
