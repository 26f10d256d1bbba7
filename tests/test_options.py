import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atcpy import options
from atcpy.deadline import Deadline
from atcpy.errors import AtcError, ResourceLimit
from atcpy.options import (
    ANY_SIZE,
    OPTIONS,
    CompileOptions,
    ConvertOptions,
    DimRange,
    ExternalWeight,
    Framework,
    FusionGroup,
    GearKind,
    Gears,
    ImplMode,
    InputDims,
    IterationsPerLoop,
    Limits,
    MemoryLimit,
    Network,
    OoLevel,
    OpsModule,
    PassSwitches,
    SplitBy,
    Stage,
    TopoSortingMode,
    convert_options,
    read_input_shape,
)
from atcpy.options.conversion import atc_cmdline
from atcpy.options.shapes import shape_text
from atcpy.precision_options import CustomDtypesFile, MixList, OutputType, PrecisionMode, TextFile


def error_of(values: dict[str, object]) -> AtcError:
    with pytest.raises(AtcError) as caught:
        convert_options(values)
    return caught.value


def test_defaults() -> None:
    assert convert_options() == convert_options({"input_shape": None}) == ConvertOptions()
    assert ConvertOptions().soc == "Ascend910"
    assert ConvertOptions().prepare.level is OoLevel.O2
    assert ConvertOptions().prepare.max_const_bytes == 16 * 1024**2
    assert ConvertOptions().compile == CompileOptions(impl_mode=ImplMode.HIGH_PERFORMANCE, reuse_memory=True)


@pytest.mark.parametrize("option", OPTIONS.values(), ids=lambda option: option.name)
def test_default_of_each_option_reads_back_and_is_not_recorded(option: options.Option) -> None:
    if option.default:
        again = option.read(option.name, option.default)
        assert again == option.default
        assert atc_cmdline({option.name: again}) == "atcpy convert"


# What each option changes: an option without a row here has no effect that anybody checks.
EFFECTS: dict[str, tuple[object, str, object]] = {
    "custom_ops": (int, "custom_ops", (OpsModule("int", "", "", int),)),
    "allreduce_split": ("auto", "prepare.allreduce.by", SplitBy.COSTS),
    "allreduce_split_size": ("60,40;tp:100", "prepare.allreduce.sizes", {"": (60.0, 40.0), "tp": (100.0,)}),
    "allreduce_split_index": ("3,7", "prepare.allreduce.indices", {"": (3.0, 7.0)}),
    "allreduce_split_threshold": ("25M", "prepare.allreduce.threshold", 25 * 2**20),
    "allreduce_cost": ("alpha=2e-5, ranks=8", "prepare.allreduce.network", Network(alpha=2e-5, ranks=8)),
    "soc": ("ascend310p3", "soc", "Ascend310P3"),
    "input_shape": ("x:1,3", "parse.input_shape", {"x": (1, 3)}),
    "dynamic_batch_size": ("1,2", "parse.gears", Gears(GearKind.BATCH, ((1,), (2,)))),
    "dynamic_image_size": ("8,8;9,9", "parse.gears", Gears(GearKind.IMAGE, ((8, 8), (9, 9)))),
    "dynamic_dims": ("3;4", "parse.gears", Gears(GearKind.DIMS, ((3,), (4,)))),
    "iterations_per_loop": ("100", "prepare.loop", IterationsPerLoop(100)),
    "state": ("h2=h;c2=c", "prepare.loop.states", {"h2": "h", "c2": "c"}),
    "stepped": ("x;y", "prepare.loop.stepped", ("x", "y")),
    "out_nodes": ("a:0;b:1", "parse.out_nodes", ("a:0", "b:1")),
    "framework": ("3", "parse.framework", Framework.TENSORFLOW),
    "input_format": ("ND", "parse.input_format", "ND"),
    "signature": ("features", "parse.signature", "features"),
    "tag_set": ("serve,gpu", "parse.tag_set", ("serve", "gpu")),
    "zipmap": ("false", "parse.zipmap", False),
    "static": ("true", "parse.static", True),
    "fold_default_inputs": ("true", "parse.fold_default_inputs", True),
    "oo_level": ("O1", "optimize.level", OoLevel.O1),
    "oo_constant_folding": ("false", "prepare.fold_constants", False),
    "oo_dead_code_elimination": ("false", "prepare.remove_dead_branches", False),
    "status_check": ("1", "status_check", True),
    "deterministic_level": ("2", "deterministic_level", 2),
    "quant_dumpable": ("1", "prepare.quant_dumpable", True),
    "auto_tune_mode": ("no_such.json", "compile.kernel_times.path", Path("no_such.json")),
    "skip_pass": ("A,B", "prepare.switches.named", {"A": False, "B": False}),
    "optimization_switch": ("A:on;B:off", "optimize.switches.named", {"A": True, "B": False}),
    "pass_limit": ("A:3;B:0", "optimize.switches.limits", {"A": 3, "B": 0}),
    "op_select_implmode": ("high_precision", "compile.impl_mode", ImplMode.HIGH_PRECISION),
    "enable_graph_kernel": ("false", "optimize.graph_kernel", False),
    "disable_reuse_memory": ("1", "compile.reuse_memory", False),
    "no_reuse_mem": ("b,A", "compile.unshared", frozenset({"A", "b"})),
    "enable_single_stream": ("true", "compile.single_stream", True),
    "topo_sorting_mode": ("2", "compile.topo_sorting", TopoSortingMode.RDFS),
    "external_weight": (2, "external_weight", ExternalWeight.COMBINED),
    "max_const": ("1M", "prepare.max_const_bytes", 1024**2),
    "max_growth": ("1.5", "prepare.max_growth", 1.5),
    "allow_hardlinks": ("1", "parse.allow_hardlinks", True),
    "memory_limit": ("1.5G", "limits.memory_bytes", 3 * 2**29),
    "timeout": ("2m", "limits.timeout_seconds", 120.0),
    "threads": ("2", "threads", 2),
    "dump_graph": ("d", "dump.directory", Path("d")),
    "dump_stages": ("prepare,split", "dump.stages", frozenset({Stage.PREPARE, Stage.SPLIT})),
    "export_compile_stat": ("2", "export_compile_stat", 2),
    "sign": ("key.pem", "sign", Path("key.pem")),
    "debug": ("yes", "verify_ir", True),
    "precision_mode": ("allow_mix_precision", "prepare.precision.mode", PrecisionMode.MIXED_FLOAT16),
    "precision_mode_v2": ("fp16", "prepare.precision.mode", PrecisionMode.FP16),
    "keep_fp32": (["a,b", "OpType::Relu"], "prepare.precision.keep", ("a", "b", "OpType::Relu")),
    "keep_dtype": (TextFile(("a",), ""), "prepare.precision.keep", ("a",)),
    "customize_dtypes": (CustomDtypesFile((), ""), "prepare.precision.customized", ()),
    "modify_mixlist": (MixList(), "prepare.precision.lists", MixList()),
    "is_weight_clip": ("0", "prepare.precision.clip_weights", False),
    "output_type": ("FP16", "prepare.precision.output_types", (OutputType("", "float16"),)),
    "input_fp16_nodes": ("a;b", "prepare.precision.fp16_inputs", ("a", "b")),
}


# Options without which another is refused.
NEEDED: dict[str, dict[str, object]] = {
    "dump_stages": {"dump_graph": "."},
    "dynamic_batch_size": {"input_shape": "x:-1,3"},
    "dynamic_image_size": {"input_shape": "x:1,3,-1,-1"},
    "dynamic_dims": {"input_shape": "x:2,-1"},
    "state": {"iterations_per_loop": 2},
    "stepped": {"iterations_per_loop": 2},
    "modify_mixlist": {"precision_mode_v2": "mixed_float16"},
}


@pytest.mark.parametrize("name", sorted(set(OPTIONS) - {"dump_passes", "fusion_switch_file", "insert_op_conf"}))
def test_each_option_has_an_effect(name: str) -> None:
    value, path, expected = EFFECTS[name]
    changed: Any = convert_options({name: value, **NEEDED.get(name, {})})
    for part in path.split("."):
        changed = getattr(changed, part)
    assert changed == expected


@pytest.mark.parametrize("value", ["60,40;tp:100", {"": [60, 40], "tp": "100"}])
def test_splits_by_group_are_texts_or_mappings(value: object) -> None:
    sizes = convert_options({"allreduce_split_size": value}).prepare.allreduce.sizes
    assert sizes == {"": (60.0, 40.0), "tp": (100.0,)}
    assert convert_options({"allreduce_split_size": [60, 40]}).prepare.allreduce.sizes == {"": (60.0, 40.0)}


def test_names_may_be_written_as_on_the_command_line() -> None:
    assert convert_options({"--max-const": "1K"}) == convert_options({"max_const": 1024})
    assert convert_options({"soc_version": "Ascend310"}).soc == "Ascend310"


def test_unknown_option_names_the_nearest() -> None:
    error = error_of({"inputshape": "x:1"})
    assert error.code == "E10001"
    assert "input_shape" in error.hint


def test_one_option_under_two_names() -> None:
    assert error_of({"soc": "Ascend910", "soc_version": "Ascend910"}).code == "E10047"


@pytest.mark.parametrize("name", ["signature", "fusion_switch_file", "custom_ops", "dump_graph", "sign"])
@pytest.mark.parametrize(("character", "message"), [("\0", "NUL"), ("\ud800", "half of a surrogate pair")])
def test_characters_that_no_command_line_has_are_refused(name: str, character: str, message: str) -> None:
    error = error_of({name: f"a{character}b"})
    assert (error.code, error.where.option) == ("E10003", name)
    assert message in error.what


def test_names_of_files_that_are_no_utf_8_are_read() -> None:
    assert convert_options({"dump_graph": "a\udcff"}).dump.directory == Path("a\udcff")


@pytest.mark.parametrize("soc", options.SOCS)
def test_chips_are_found_in_any_case(soc: str) -> None:
    assert convert_options({"soc": soc.swapcase()}).soc == soc


def test_chips_of_the_950_family_have_the_form_of_their_names() -> None:
    assert convert_options({"soc": "ascend950pr_9579"}).soc == "Ascend950PR_9579"


@pytest.mark.parametrize(
    ("soc", "near"), [("Ascend310P4", "Ascend310P"), ("310P3", "Ascend310P3"), ("nope", "npu-smi")]
)
def test_unknown_chip_names_the_nearest(soc: str, near: str) -> None:
    error = error_of({"soc": soc})
    assert (error.code, error.exit_code) == ("E10001", 2)
    assert near in error.hint


def test_tiny_chips_are_unsupported() -> None:
    assert error_of({"soc": "Ascend035A"}).exit_code == 4


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("x:1,3,224,224", {"x": (1, 3, 224, 224)}),
        ("a:;b:1,3", {"a": (), "b": (1, 3)}),
        ("x:0:1,3,8,8", {"x:0": (1, 3, 8, 8)}),
        (" x : 1 , 3 ;", {"x": (1, 3)}),
        ("x:-1,3", {"x": (ANY_SIZE, 3)}),
        ("x:1~8,3", {"x": (DimRange(1, 8), 3)}),
        ("x:1~-1", {"x": (DimRange(1, None),)}),
        ("x:0~4", {"x": (DimRange(0, 4),)}),
    ],
)
def test_input_shape(text: str, shapes: dict[str, InputDims]) -> None:
    assert read_input_shape("input_shape", text) == shapes


def test_input_shape_takes_natural_values() -> None:
    value = {"x": [1, np.int64(3), None, "1~8"], "y": (), "z": "2,3", "w": [DimRange(1, 2)]}
    assert read_input_shape("input_shape", value) == {
        "x": (1, 3, ANY_SIZE, DimRange(1, 8)),
        "y": (),
        "z": (2, 3),
        "w": (DimRange(1, 2),),
    }


@pytest.mark.parametrize(
    ("text", "code", "part", "column"),
    [
        ("x:1,a,3", "E10002", '"a"', 5),
        ("x:1;yy:1,,3", "E10002", '""', 10),
        ("x:3.5", "E10002", '"3.5"', 3),
        ("x", "E10002", '"x"', 1),
        ("x:1;:3", "E10002", '":3"', 5),
        ("x:1;x:2", "E10002", "twice", 5),
        ("x:8~1", "E10002", '"8~1"', 3),
        ("x:-2~4", "E10002", '"-2~4"', 3),
        ("x:1 2", "E10002", '"1 2"', 3),
        ("x:0", "E10011", "x dimension 0 is 0", None),
        ("x:1,-3", "E10011", "x dimension 1 is -3", None),
        ("x:99999999999999", "E10013", "outside", None),
        ("x:" + "1," * 64 + "1", "E10013", "65 dimensions", None),
        ("", "E10004", "needs a value", None),
        (" ; ", "E10004", "needs a value", None),
    ],
)
def test_input_shape_that_cannot_be_read_is_pointed_at(text: str, code: str, part: str, column: int | None) -> None:
    error = error_of({"input_shape": text})
    assert error.code == code
    assert part in error.what
    assert error.where.column == column
    assert column is None or f"character {column}" in error.what


@pytest.mark.parametrize(
    "value", [3, {"": [1]}, {1: [1]}, {"x": 3}, {"x": [1.5]}, {"x": [True]}, {"x": ["a"]}, {"x": [0]}, {"x": [[1]]}]
)
def test_input_shape_of_a_wrong_type(value: object) -> None:
    assert error_of({"input_shape": value}).exit_code == 2


IMAGE_SHAPE = "x:1,3,-1,-1"


@pytest.mark.parametrize(
    ("name", "value", "rows"),
    [
        ("dynamic_batch_size", "1,2, 4,", ((1,), (2,), (4,))),
        ("dynamic_batch_size", [np.int64(1), 8], ((1,), (8,))),
        ("dynamic_batch_size", list(range(1, 101)), tuple((size,) for size in range(1, 101))),
        ("dynamic_dims", "1,2;3,4;", ((1, 2), (3, 4))),
        ("dynamic_dims", [(1, 2), "3,4"], ((1, 2), (3, 4))),
        ("dynamic_image_size", "416,832;32,32", ((416, 832), (32, 32))),
    ],
)
def test_gears(name: str, value: object, rows: tuple[tuple[int, ...], ...]) -> None:
    shapes = {"dynamic_batch_size": "x:-1,3", "dynamic_dims": "y:-1;x:-1,3", "dynamic_image_size": IMAGE_SHAPE}
    gears = convert_options({name: value, "input_shape": shapes[name]}).parse.gears
    in_order = tuple(row[::-1] for row in rows) if name == "dynamic_dims" else rows  # x comes before y
    assert gears is not None and gears.rows == in_order


def test_numbers_of_gears_go_with_their_inputs_on_the_recorded_command_line() -> None:
    one = convert_options({"input_shape": "b:-1,8;a:-1,-1", "dynamic_dims": "1,2,3;4,5,6"})
    other = convert_options({"input_shape": "a:-1,-1;b:-1,8", "dynamic_dims": "2,3,1;5,6,4"})
    assert one == other
    assert one.atc_cmdline == "atcpy convert '--dynamic_dims=2,3,1;5,6,4' '--input_shape=a:-1,-1;b:-1,8'"
    assert one.parse.gears is not None
    assert list(one.parse.gears.shapes([(-1, -1), (-1, 8)])) == [((2, 3), (1, 8)), ((5, 6), (4, 8))]


def test_a_batch_and_an_image_are_those_of_every_input() -> None:
    assert list(Gears(GearKind.BATCH, ((1,), (2,))).shapes([(-1, 3), (4,), (-1,)])) == [
        ((1, 3), (4,), (1,)),
        ((2, 3), (4,), (2,)),
    ]
    assert list(Gears(GearKind.IMAGE, ((8, 9),)).shapes([(-1, -1, 3), (-1, -1)])) == [((8, 9, 3), (8, 9))]


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"dynamic_batch_size": "1", "input_shape": "x:-1"}, "E10035"),
        ({"dynamic_batch_size": " , ", "input_shape": "x:-1"}, "E10035"),
        ({"dynamic_batch_size": list(range(1, 102)), "input_shape": "x:-1"}, "E10036"),
        ({"dynamic_batch_size": "1,0", "input_shape": "x:-1"}, "E10038"),
        ({"dynamic_batch_size": "1,-2", "input_shape": "x:-1"}, "E10038"),
        ({"dynamic_batch_size": "1,2,1", "input_shape": "x:-1"}, "E10039"),
        ({"dynamic_batch_size": "1,x", "input_shape": "x:-1"}, "E10014"),
        ({"dynamic_batch_size": [1, True], "input_shape": "x:-1"}, "E10014"),
        ({"dynamic_batch_size": f"1,{2**40 + 1}", "input_shape": "x:-1"}, "E10013"),
        ({"dynamic_batch_size": "", "input_shape": "x:-1"}, "E10004"),
        ({"dynamic_batch_size": 2, "input_shape": "x:-1"}, "E10003"),
        ({"dynamic_batch_size": "1,2"}, "E10004"),
        ({"dynamic_batch_size": "1,2", "input_shape": "x:1,3"}, "E10031"),
        ({"dynamic_batch_size": "1,2", "input_shape": "x:-1,-1"}, "E10018"),
        ({"dynamic_batch_size": "1,2", "input_shape": "x:-1,3;y:3,-1"}, "E10018"),
        ({"dynamic_batch_size": "1,2", "input_shape": "x:-1,3;y:1~4"}, "E10040"),
        ({"dynamic_batch_size": "1,2", "dynamic_dims": "1;2", "input_shape": "x:-1"}, "E10009"),
        ({"dynamic_image_size": "8,8;9,9", "dynamic_dims": "1;2", "input_shape": IMAGE_SHAPE}, "E10009"),
        ({"dynamic_dims": "1,2;3", "input_shape": "x:-1,-1"}, "E10037"),
        ({"dynamic_dims": [[], []], "input_shape": "x:-1,-1"}, "E10038"),
        ({"dynamic_dims": "1;3", "input_shape": "x:-1,-1"}, "E10045"),
        ({"dynamic_dims": "1;3", "input_shape": "x:2,2"}, "E10045"),
        ({"dynamic_image_size": "8;9", "input_shape": IMAGE_SHAPE}, "E10020"),
        ({"dynamic_image_size": "8,8,3;9,9,3", "input_shape": IMAGE_SHAPE}, "E10020"),
        ({"dynamic_image_size": "8,8;9,9", "input_shape": "x:1,3,-1,8"}, "E10019"),
        ({"dynamic_image_size": "8,8;9,9", "input_shape": "x:-1,3,-1,-1"}, "E10019"),
        ({"dynamic_image_size": "8,8;9,9", "input_shape": "x:3,-1,-1"}, "E10019"),
        ({"dynamic_image_size": "8,8;9,9", "input_shape": "x:1,3,8,8"}, "E10019"),
        ({"dynamic_image_size": "8,8;9,9", "input_shape": "x:1,-1,-1,3", "input_format": "NCHW"}, "E10019"),
        ({"dynamic_image_size": "8,8;9,9", "input_shape": IMAGE_SHAPE, "framework": "3"}, "E10019"),
        ({"dynamic_image_size": "8,8;9,9", "input_shape": IMAGE_SHAPE, "input_format": "ND"}, "E10019"),
    ],
)
def test_gears_that_are_refused(given: dict[str, object], code: str) -> None:
    error = error_of(given)
    assert (error.code, error.exit_code) == (code, 2)
    assert error.where.option in given


@pytest.mark.parametrize("form", ["NHWC", "NCHW"])
def test_images_vary_at_h_and_w_of_the_layout(form: str) -> None:
    shape = "x:1,3,-1,-1" if form == "NCHW" else "x:1,-1,-1,3"
    for named in ({}, {"input_format": form}):
        gears = convert_options({"dynamic_image_size": "8,8;9,9", "input_shape": shape, **named}).parse.gears
        assert gears is not None and gears.kind is GearKind.IMAGE


@given(st.text(alphabet="x:,;~-0123 \n\t.é", max_size=30))
def test_input_shape_is_read_or_refused(text: str) -> None:
    try:
        shapes = read_input_shape("input_shape", text)
    except AtcError as error:
        assert error.code in {"E10002", "E10004", "E10011", "E10013"}
    else:
        # The canonical text names the same shapes.
        assert read_input_shape("input_shape", shape_text(shapes)) == shapes


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("static", "maybe", "E10005"),
        ("static", 2, "E10003"),
        ("disable_reuse_memory", "true", "E10006"),
        ("disable_reuse_memory", 2, "E10006"),
        ("threads", "two", "E10014"),
        ("threads", True, "E10014"),
        ("threads", 0, "E10013"),
        ("memory_limit", "8 apples", "E10014"),
        ("memory_limit", -1, "E10013"),
        ("timeout", "-1", "E10013"),
        ("timeout", float("nan"), "E10013"),
        ("max_growth", "x", "E10014"),
        ("oo_level", "O4", "E10001"),
        ("oo_level", 2, "E10003"),
        ("op_select_implmode", "fast", "E10001"),
        ("dump_stages", "prepare,pares", "E10001"),
        ("skip_pass", ",", "E10004"),
        ("skip_pass", 3, "E10003"),
        ("optimization_switch", "A", "E10001"),
        ("optimization_switch", "A:maybe", "E10001"),
        ("fusion_switch_file", "no/such/file", "E10410"),
        ("soc", "", "E10004"),
        ("allreduce_split_size", "60,many", "E10014"),
        ("allreduce_split_size", 60, "E10014"),
        ("allreduce_split_index", "nan", "E10014"),
        ("allreduce_split_index", {"tp": [float("nan")]}, "E10013"),
        ("allreduce_cost", "alfa=1", "E10001"),
        ("allreduce_cost", "alpha", "E10014"),
        ("allreduce_cost", "beta=-1", "E10013"),
        ("allreduce_cost", {"ranks": 0}, "E10013"),
        ("allreduce_cost", "speed=0", "E10013"),
    ],
)
def test_wrong_value_is_refused_with_atcs_code(name: str, value: object, code: str) -> None:
    error = error_of({name: value})
    assert error.code == code
    assert f"--{name}" in error.what or name == "fusion_switch_file"


def switch_file(folder: Path, text: str) -> Path:
    path = folder / "off.cfg"
    path.write_text(text, encoding="utf-8")
    return path


PLAIN = "# comment\nConvReluFusionPass:off\n\nSoftmaxFusionPass:on # why\n"
JSON = '{"Switch":{"GraphFusion":{"ALL":"off","SoftmaxFusionPass":"on"},"UBFusion":{"ConvReluFusionPass":"off"}}}'


@pytest.mark.parametrize("text", [PLAIN, JSON])
def test_both_forms_of_a_switch_file(tmp_path: Path, text: str) -> None:
    switches = convert_options({"fusion_switch_file": switch_file(tmp_path, text)}).optimize.switches
    assert switches.named == {"ConvReluFusionPass": False, "SoftmaxFusionPass": True}


def test_all_off_leaves_the_required_passes_and_those_named(tmp_path: Path) -> None:
    switches = convert_options({"fusion_switch_file": str(switch_file(tmp_path, JSON))}).prepare.switches
    assert switches.groups == {FusionGroup.GRAPH: False}
    assert not switches.enabled("Other")
    assert switches.enabled("Other", required=True)
    assert switches.enabled("Other", group=FusionGroup.UB)
    assert switches.enabled("SoftmaxFusionPass")


def test_priorities_of_a_switch_file_are_read(tmp_path: Path) -> None:
    text = '{"Switch":{"GraphFusion":{"A":"off"}},"Priority":{"GraphFusion":{"Top":{"B":"7"},"Down":{"C":"2999"}}}}'
    switches = convert_options({"fusion_switch_file": switch_file(tmp_path, text)}).prepare.switches
    assert switches.named == {"A": False}
    assert switches.priorities == {"B": 7, "C": 2999}


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("A:off\nB:of", "E20003", "not on or off"),
        ("A:off\nB", "E20003", ":2:"),
        ("{", "E10025", "off.cfg:1:2:"),
        ('{"Swich":{}}', "E20003", "Swich"),
        ('{"Switch":{"Graph":{}}}', "E20003", "Graph"),
        ('{"Switch":{"GraphFusion":[]}}', "E20003", "not an object"),
        ('{"Switch":{"GraphFusion":{"A":1}}}', "E20003", "not on or off"),
        ('{"Switch":' * 100_000, "E10025", "nested too deep"),
        ('{"Switch":' + "1" * 5000 + "}", "E10025", "digits"),
        ('{"Priority":{"UBFusion":{}}}', "E20003", "UBFusion"),
        ('{"Priority":{"GraphFusion":{"Middle":{}}}}', "E20003", "Middle"),
        ('{"Priority":{"GraphFusion":{"Top":{"A":1}}}}', "E20003", "0..999"),
        ('{"Priority":{"GraphFusion":{"Top":{"A":"1000"}}}}', "E20003", "0..999"),
        ('{"Priority":{"GraphFusion":{"Main":{"A":"-1"}}}}', "E20003", "1000..1999"),
        ('{"Priority":{"GraphFusion":{"Top":{"A":"1"},"Down":{"A":"2000"}}}}', "E20003", "already"),
        ('{"Priority":[]}', "E20003", "not an object"),
    ],
)
def test_broken_switch_file_is_pointed_at(tmp_path: Path, text: str, code: str, message: str) -> None:
    error = error_of({"fusion_switch_file": switch_file(tmp_path, text)})
    assert (error.code, error.exit_code) == (code, 2)
    assert message in error.what


def test_switch_file_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "off.cfg"
    path.write_bytes(b"\xff\xfe\x00")
    assert error_of({"fusion_switch_file": path}).code == "E13005"


def test_skip_beats_the_switch_which_beats_the_file(tmp_path: Path) -> None:
    file = switch_file(tmp_path, "A:off\nB:off\nC:on")
    given_all = {"fusion_switch_file": file, "optimization_switch": {"A": True, "B": True}, "skip_pass": ["A"]}
    assert convert_options(given_all).prepare.switches.named == {"A": False, "B": True, "C": True}


def test_command_line_is_canonical(tmp_path: Path) -> None:
    file = switch_file(tmp_path, PLAIN)
    text = convert_options(
        {
            "timeout": 5,
            "threads": 2,
            "dump_graph": "/somewhere",
            "soc": "ascend310",
            "skip_pass": ["B", "A", "B"],
            "oo_level": "O2",
            "input_shape": " y : 1 ; x:1~8, -1",
            "fusion_switch_file": file,
            "static": 1,
            "max_const": "1K",
        }
    ).atc_cmdline
    digest = hashlib.sha256(PLAIN.encode()).hexdigest()
    assert text == (
        f"atcpy convert --fusion_switch_file=sha256:{digest} '--input_shape=x:1~8,-1;y:1'"
        " --max_const=1024 --skip_pass=A,B --soc=Ascend310 --static=true"
    )


def test_deadline_names_what_was_going_on() -> None:
    now = 0.0
    deadline = Deadline(10, clock=lambda: now)
    now = 9.0
    deadline.check("folding")
    assert deadline.remaining() == 1.0
    now = 11.0
    with pytest.raises(ResourceLimit, match=r"R0003.*10 s.*folding"):
        deadline.check("folding")
    assert deadline.remaining() == 0.0


def test_no_deadline_never_ends() -> None:
    deadline = Limits().deadline()
    deadline.check("anything")
    assert deadline.remaining() is None


def test_memory_limit_tells_both_numbers() -> None:
    MemoryLimit(100).check(100, "arena")
    with pytest.raises(ResourceLimit, match=r"R0001.*arena needs 101 bytes, the limit is 100"):
        MemoryLimit(100).check(101, "arena")
    assert Limits(memory_bytes=7).memory() == MemoryLimit(7)
    assert Limits().memory().limit_bytes > 2**20


def test_pass_is_on_unless_switched_off() -> None:
    assert PassSwitches().enabled("A")
    assert not PassSwitches().enabled("A", default=False)
    assert not PassSwitches(named={"A": False}).enabled("A", required=True)


def test_threads_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATCPY_THREADS", "3")
    assert options.default_threads() == 3
    monkeypatch.setenv("ATCPY_THREADS", "many")
    with pytest.raises(AtcError, match="E13024"):
        options.default_threads()
    monkeypatch.delenv("ATCPY_THREADS")
    assert options.default_threads() >= 1
