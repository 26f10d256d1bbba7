"""ATC's options as data: all 85 flags of `atc` and the five optimisation options that its passes register.

Source: api/atc/main_impl.cc and compiler/api/aclgrph/option_utils.cc of the open graph engine (GE, ffdcbc9f), and the
user guide of the ATC tool.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from atcpy.errors import Unsupported, UsageError, Where, did_you_mean
from atcpy.precision_options import (
    HIFLOAT8_MODES,
    PRECISION_MODES,
    PRECISION_MODES_V2,
    TextFile,
    read_op_precision_file,
)

_ZERO_ONE = ("0", "1")
_TRUE_FALSE = ("true", "false")
# ATC checks these against their closed sets even where they are empty; any other text that is empty is not given.
_NEVER_EMPTY = frozenset(
    {
        *("mode", "framework", "sparsity", "dump_mode", "virtual_type", "status_check", "deterministic"),
        *("deterministic_level", "external_weight", "display_model_info", "atomic_clean_policy"),
        *("disable_reuse_memory", "op_debug_level", "jit_compile", "core_type", "log", "op_compiler_cache_mode"),
        *("buffer_optimize", "shape_generalized_build_mode", "op_select_implmode", "precision_mode"),
        *("precision_mode_v2", "is_weight_clip"),
    }
)
_TRUE = frozenset({"", "1", "t", "true", "y", "yes"})
_FALSE = frozenset({"0", "f", "false", "n", "no"})


class FlagKind(Enum):
    """What a flag takes, by gflags' names. A bool takes a value only behind `=`."""

    STRING = "string"
    INT32 = "int32"
    BOOL = "bool"


class Support(Enum):
    """What becomes of a flag."""

    APPLIED = "applied"
    RECORDED = "recorded"  # its value is checked and written into the package; it changes nothing on a CPU
    REFUSED = "refused"


class FlagGroup(Enum):
    """ATC's groups, as its help and its manual have them."""

    GENERAL = "General"
    INPUT = "Input"
    OUTPUT = "Output"
    TARGET = "Target"
    FEATURE = "Feature"
    MODEL_TUNING = "Model tuning"
    OPERATOR_TUNING = "Operator tuning"
    DEBUG = "Debug"


@dataclass(frozen=True, slots=True)
class Flag:
    """An option of ATC. `choices` are all values that it takes, with the code that ATC gives for any other; `note` says
    what it means, or why it is refused or changes nothing. Of a recorded one, the value has a `form`, a pattern with an
    example behind it, or `read_file` checks the file that it names.
    """

    name: str
    group: FlagGroup
    note: str
    kind: FlagKind = FlagKind.STRING
    default: str = ""
    choices: tuple[str, ...] = ()
    code: str = "E10001"
    support: Support = Support.APPLIED
    is_deprecated: bool = False
    form: tuple[str, str] | None = None
    read_file: Callable[[str, str], TextFile] | None = None

    def read(self, text: str) -> str:
        """The canonical spelling of a value; empty if the flag counts as not given. Raises UsageError for a value that
        ATC does not take, Unsupported (E10055) for a flag that is refused.
        """
        where = Where(option=self.name)
        if not text and self.kind is not FlagKind.BOOL and self.name not in _NEVER_EMPTY:
            return ""
        if self.support is Support.REFUSED:
            kind = Unsupported if self.code == "E10055" else UsageError
            raise kind(self.code, f"--{self.name} is not supported: {self.note}", where=where)
        if self.kind is FlagKind.BOOL:
            if text.lower() not in _TRUE | _FALSE:
                raise UsageError("E10005", f'--{self.name}: "{text}" must be true or false', where=where)
            return "true" if text.lower() in _TRUE else "false"
        if text.isspace():
            raise UsageError("E10004", f"--{self.name} needs a value", where=where)
        if self.choices and text not in self.choices:
            raise self._not_a_choice(text)
        if self.form is not None and re.fullmatch(self.form[0], text) is None:
            what = f'--{self.name}: "{text}" is not of the form {self.form[1]}'
            raise UsageError(self.code, what, where=where)
        return text if self.read_file is None else "sha256:" + self.read_file(self.name, text).sha256

    def _not_a_choice(self, text: str) -> UsageError:
        why, hint = f"is not one of {', '.join(self.choices)}", did_you_mean(text, self.choices)
        match self.code:
            case "E10005":
                why = "must be true or false"
            case "E10006" if self.choices == _ZERO_ONE:
                why = "must be 0 or 1"
            case "E10007":
                why, hint = "is unknown", f"one of {', '.join(self.choices)}: 5 for ONNX, 3 for TensorFlow"
            case "E10010":
                why, hint = "is not a level", f"the levels are {', '.join(self.choices)}"
        return UsageError(self.code, f'--{self.name}: "{text}" {why}', where=Where(option=self.name), hint=hint)


def _flags(group: FlagGroup, *flags: tuple[str, str] | Flag) -> tuple[Flag, ...]:
    return tuple(flag if isinstance(flag, Flag) else Flag(flag[0], group, flag[1]) for flag in flags)


def _recorded(
    name: str,
    group: FlagGroup,
    note: str,
    choices: tuple[str, ...] = (),
    default: str = "",
    code: str = "E10001",
    kind: FlagKind = FlagKind.STRING,
    is_deprecated: bool = False,
    form: tuple[str, str] | None = None,
) -> Flag:
    return Flag(name, group, note, kind, default, choices, code, Support.RECORDED, is_deprecated, form)


def _refused(name: str, group: FlagGroup, why: str, code: str = "E10055") -> Flag:
    return Flag(name, group, why, code=code, support=Support.REFUSED)


_G, _I, _O, _T = FlagGroup.GENERAL, FlagGroup.INPUT, FlagGroup.OUTPUT, FlagGroup.TARGET
_F, _M, _P, _D = FlagGroup.FEATURE, FlagGroup.MODEL_TUNING, FlagGroup.OPERATOR_TUNING, FlagGroup.DEBUG
_TRUTHS = (r"(true|false)(,(true|false))*", "true,false")
_QUANTIZE = "quantise the model first: atcpy quantize"
_CAFFE = "Caffe models are not read: convert the model to ONNX first"

FLAGS: tuple[Flag, ...] = (
    Flag("help", _G, "print this and end", FlagKind.BOOL, "false"),
    Flag("h", _G, "the same", FlagKind.BOOL, "false"),
    Flag(
        "mode",
        _G,
        "0: model to package; 1: package or model to JSON; 3: check; 5: GE's text dump to JSON; 6: show a package",
        FlagKind.INT32,
        "0",
        ("0", "1", "3", "5", "6", "7", "30"),
    ),
    *_flags(
        _I,
        ("model", "the model"),
        ("weight", "weights of Caffe, whose models are not read: ignored"),
        ("om", "the package, model or dump that modes 1, 5 and 6 read"),
        Flag("framework", _I, "3: TensorFlow, 5: ONNX", FlagKind.INT32, "-1", ("0", "1", "3", "5"), "E10007"),
        Flag(
            "input_format",
            _I,
            "the layout of the inputs",
            default="NCHW, NHWC for TensorFlow",
            choices=("NCHW", "NHWC", "ND", "NCDHW", "NDHWC"),
        ),
        ("input_shape", 'shapes of the inputs, "x:1,3,224,224;y:1~8,-1"'),
        Flag("input_shape_range", _I, 'deprecated: "x:[1~8,3,-1,-1]"; --input_shape says it, too', is_deprecated=True),
        _recorded(
            "input_hint_shape",
            _I,
            "likely shapes; kernels and memory are planned for the shapes of each run",
            form=(r"\d+:\[\d+(,\d+)*\](;\d+:\[\d+(,\d+)*\])*;?", '"0:[1,3,224,224];1:[8]"'),
        ),
        ("dynamic_batch_size", 'gears: the batches to compile for, "1,2,4,8"'),
        ("dynamic_image_size", 'gears: heights and widths, "416,416;832,832"'),
        ("dynamic_dims", "gears: the sizes of all dims that are -1 in --input_shape"),
        ("singleop", "JSON file of operators, each of which becomes a package in the folder --output"),
    ),
    *_flags(
        _O,
        ("output", "the package, without the suffix .om"),
        ("output_type", 'the type of all outputs, or of some, "node:0:FP16;other:0:FP32"'),
        Flag("check_report", _O, "the report of --mode=3", default="check_result.json"),
        ("json", "the file that modes 1 and 5 write"),
        _recorded("host_env_os", _O, "packages run on any host", ("linux", "minios")),
        _recorded("host_env_cpu", _O, "packages run on any host", ("x86_64", "aarch64", "arm64", "arm")),
    ),
    *_flags(
        _T,
        ("soc_version", "the chip to compile for"),
        _recorded("virtual_type", _T, "no slices of a chip", _ZERO_ONE, "0", kind=FlagKind.INT32),
        _recorded("core_type", _T, "a CPU has cores of one kind", ("AiCore", "VectorCore"), "AiCore"),
        _recorded(
            "aicore_num", _T, "a session has as many threads as it is given", form=(r"[1-9]\d*\|([1-9]\d*)?", '"24|48"')
        ),
    ),
    *_flags(
        _F,
        ("out_nodes", 'the values that become outputs, "node:0;node:1" or output names'),
        ("input_fp16_nodes", 'inputs that are fed as float16, "a;b"'),
        _recorded(
            "is_input_adjust_hw_layout",
            _F,
            "callers feed plain tensors: true is refused where ATC would adjust the layout",
            form=_TRUTHS,
        ),
        _recorded(
            "is_output_adjust_hw_layout",
            _F,
            "callers get plain tensors: true is refused where ATC would adjust the layout",
            form=_TRUTHS,
        ),
        ("insert_op_conf", "file of AIPP: inputs become pictures of bytes, which the package converts"),
        _refused("op_name_map", _F, _CAFFE),
        ("raw_ge_options", "JSON file of options by GE's names; the command line beats it"),
        Flag(
            "raw_ge_options_ignore_unsupported",
            _F,
            "options of that file that have no flag are ignored",
            FlagKind.BOOL,
            "false",
        ),
    ),
    *_flags(
        _M,
        Flag(
            "external_weight",
            _M,
            "1: weights in files of their own, in the folder weight; 2: all in one file there",
            FlagKind.INT32,
            "0",
            ("0", "1", "2"),
            "E10006",
        ),
        ("fusion_switch_file", "file that switches passes on and off"),
        Flag("oo_level", _M, "how much is optimised", default="O3", choices=("O1", "O3")),
        Flag(
            "oo_constant_folding",
            _M,
            "false: what depends on constants only is computed at run time",
            default="true",
            choices=_TRUE_FALSE,
        ),
        Flag(
            "oo_dead_code_elimination",
            _M,
            "false: both branches of an If with a constant condition stay",
            default="true",
            choices=_TRUE_FALSE,
        ),
        Flag(
            "topo_sorting_mode",
            _M,
            "order in which nodes run: 0 breadth first, 1 depth first, 2 from the results back, 3 as in the model",
            default="1",
            choices=("0", "1", "2", "3"),
        ),
        Flag("disable_reuse_memory", _M, "1: no activation shares memory", FlagKind.INT32, "0", _ZERO_ONE, "E10006"),
        Flag(
            "enable_single_stream",
            _M,
            "no branches beside each other",
            default="false",
            choices=_TRUE_FALSE,
            code="E10005",
        ),
        _recorded(
            "multi_stream_parallel_mode",
            _M,
            "streams are found by what they cost",
            form=(
                r"cv|(LoadBalance|MainStream):([1-9]|[1-5]\d|6[0-4])",
                "cv, LoadBalance:N or MainStream:N, N from 1 to 64",
            ),
        ),
        _recorded(
            "enable_scope_fusion_passes",
            _M,
            "graphs of TensorFlow are read node by node; passes fuse by structure, not by the names of scopes",
            form=(r"\w+(,\w+)*", "Pass1,Pass2"),
        ),
        Flag(
            "quant_dumpable",
            _M,
            "1: QuantizeLinear and DequantizeLinear stay nodes of their own, computed in floats",
            default="0",
            choices=_ZERO_ONE,
            code="E10006",
        ),
        _refused("cluster_config", _M, "ranks are started by atcpy run --ranks, their groups are a file of --groups"),
        _refused("hccl_sub_comm_config", _M, "groups are a file of atcpy run --groups"),
        _refused("compression_optimize_conf", _M, _QUANTIZE),
        _recorded("enable_small_channel", _M, "first convolutions of few channels are fast always", _ZERO_ONE, "0"),
        _recorded("enable_attr_compression", _M, "packages are small as they are", _TRUE_FALSE, "true", "E10005"),
        _recorded("enable_compress_weight", _M, "weights are read where they lie", _TRUE_FALSE, "false", "E10005"),
        _recorded("compress_weight_conf", _M, "weights are read where they lie"),
        _recorded("sparsity", _M, "no kernel for 4:2 sparse weights", _ZERO_ONE, "0", "E10006", FlagKind.INT32),
        _recorded(
            "buffer_optimize",
            _M,
            "a CPU's caches fill by themselves",
            ("l2_optimize", "l1_optimize", "off_optimize"),
            "l2_optimize",
        ),
        _recorded("ac_parallel_enable", _M, "operators are compiled already", _ZERO_ONE, "0", "E10006"),
        _recorded(
            "tiling_schedule_optimize", _M, "tiles are chosen when a package is loaded", _ZERO_ONE, "0", "E10006"
        ),
        _recorded(
            "h2d_overlapped_with_compute", _M, "nothing is copied to a device", form=(r"\d+(,\d+)*", '0, 1 or "44,64"')
        ),
        _recorded("mdl_bank_path", _M, "kernels are chosen without a bank"),
    ),
    *_flags(
        _P,
        Flag(
            "precision_mode",
            _P,
            "what becomes of float32",
            default="must_keep_origin_dtype",
            choices=tuple(PRECISION_MODES),
        ),
        Flag(
            "precision_mode_v2",
            _P,
            "the same by newer names",
            default="origin",
            choices=(*PRECISION_MODES_V2, *HIFLOAT8_MODES),
        ),
        Flag(
            "op_precision_mode",
            _P,
            "file of modes by type or node; no kernel approximates or rounds float32, and indices are checked",
            support=Support.RECORDED,
            read_file=read_op_precision_file,
        ),
        Flag(
            "op_select_implmode",
            _P,
            "deprecated; high_precision: no convolution of floats by Winograd's algorithm",
            default="high_performance",
            choices=("high_precision", "high_performance", "high_precision_for_all", "high_performance_for_all"),
            is_deprecated=True,
        ),
        _recorded("optypelist_for_implmode", _P, "--op_select_implmode is the same for all types"),
        ("keep_dtype", "file of nodes, and of OpType::T, that keep their types"),
        ("customize_dtypes", "file of the types of inputs and outputs, by node or OpType::T"),
        ("modify_mixlist", "JSON file that changes the lists of a mixed mode"),
        Flag(
            "is_weight_clip",
            _P,
            "0: lowered weights may become infinite",
            default="1",
            choices=_ZERO_ONE,
            code="E10006",
        ),
        _recorded("allow_hf32", _P, "float32 stays float32", _TRUE_FALSE, code="E10005"),
        ("optimization_switch", 'passes by name, "Pass:on;Pass:off"'),
        _recorded(
            "static_model_ops_lower_limit",
            _P,
            "parts of known shapes are planned with the others",
            default="4",
            form=(r"-1|\d+", "-1 or a number of operators"),
        ),
        _recorded("jit_compile", _P, "operators are compiled already", ("0", "1", "2"), "1"),
        _recorded("op_bank_path", _P, "kernels are chosen without a bank"),
    ),
    *_flags(
        _D,
        Flag(
            "log",
            _D,
            "what goes to stderr",
            default="null",
            choices=("debug", "info", "warning", "error", "null"),
            code="E10010",
        ),
        Flag("dump_mode", _D, "1: with --mode=1, shapes are inferred", default="0", choices=_ZERO_ONE, code="E10006"),
        ("debug_dir", "folder of the dumps of DUMP_GE_GRAPH, if the environment names none"),
        Flag("display_model_info", _D, "1: show the package", default="0", choices=_ZERO_ONE, code="E10006"),
        Flag(
            "export_compile_stat",
            _D,
            "fusion_result.json: 0 never, 1 at the end, 2 after compilation",
            default="1",
            choices=("0", "1", "2"),
        ),
        Flag(
            "status_check",
            _D,
            "1: runs end at the first node that computes NaN or infinity from numbers",
            default="0",
            choices=_ZERO_ONE,
            code="E10006",
        ),
        _recorded(
            "deterministic",
            _D,
            "results are the same in every run, for every number of threads",
            _ZERO_ONE,
            "0",
            "E10006",
        ),
        Flag(
            "deterministic_level",
            _D,
            "1: as --deterministic; 2: rows of the same numbers have the same results; 3, for any batch, is refused",
            default="0",
            choices=("0", "1", "2", "3"),
        ),
        _recorded("atomic_clean_policy", _D, "no kernel needs memory that is cleared", _ZERO_ONE, "0", "E10006"),
        _recorded(
            "op_debug_level",
            _D,
            "there are no files of compiled operators",
            ("0", "1", "2", "3", "4"),
            "0",
            kind=FlagKind.INT32,
        ),
        _recorded("op_debug_config", _D, "there are no files of compiled operators"),
        _recorded("op_compiler_cache_dir", _D, "operators are compiled already"),
        _recorded(
            "op_compiler_cache_mode", _D, "operators are compiled already", ("disable", "enable", "force"), "disable"
        ),
        _recorded(
            "shape_generalized_build_mode",
            _D,
            "shapes are what --input_shape says",
            ("shape_precise", "shape_generalized"),
            "shape_precise",
            is_deprecated=True,
        ),
        Flag(
            "save_original_model",
            _D,
            "true: write the package OUTPUT_original.om too, which is not optimised",
            default="false",
            choices=_TRUE_FALSE,
            code="E10005",
        ),
        _recorded("target", _D, "packages run on any host"),
        _recorded("device_id", _D, "a CPU has no number", default="0"),
        _refused("cal_conf", _D, _QUANTIZE),
        _refused("auto_tune_mode", _D, "ATC has given up tuning for AOE; `atcpy convert` measures kernels", "E10001"),
        _refused("build_config", _D, "it belongs to --mode=7"),
    ),
)
FLAG_BY_NAME: Mapping[str, Flag] = {flag.name: flag for flag in FLAGS}


def read_flags(texts: Mapping[str, str]) -> dict[str, str]:
    """The values of flags by their names, without those that count as not given. Raises what `Flag.read` does."""
    values = {name: FLAG_BY_NAME[name].read(text) for name, text in texts.items()}
    return {name: value for name, value in values.items() if value}
