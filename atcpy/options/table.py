"""The table of all options: name, reader, default and canonical spelling."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

from atcpy.errors import UsageError, did_you_mean
from atcpy.options.aipp import read_insert_op_conf
from atcpy.options.allreduce import network_text, read_network, read_splits, splits_text
from atcpy.options.choices import (
    IMPL_MODES,
    INPUT_FORMATS,
    LEVELS,
    SPLITS,
    TOPO_SORTING_MODES,
    bit_text,
    read_deterministic_level,
    read_external_weight,
    read_framework,
    read_stages,
)
from atcpy.options.custom_ops import ops_text, read_custom_ops
from atcpy.options.gears import batches_text, read_batches, read_dims, read_images, rows_text
from atcpy.options.kernel_times import read_kernel_times
from atcpy.options.loops import read_states
from atcpy.options.precision import mode_of, mode_text, read_keep
from atcpy.options.readers import (
    Reader,
    choice,
    file_of,
    number,
    read_bool,
    read_float,
    read_int,
    read_names,
    read_path,
    read_seconds,
    read_size,
    read_zero_or_one,
    sha256_text,
    text_of,
)
from atcpy.options.records import (
    MIB,
    ExternalWeight,
    ImplMode,
    Network,
    OoLevel,
    PassSwitches,
    SplitBy,
    Stage,
    TopoSortingMode,
)
from atcpy.options.shapes import read_input_shape, shape_text
from atcpy.options.socs import read_soc
from atcpy.options.switches import read_limits, read_switch_file, read_switches, switch_text
from atcpy.precision_options import (
    PRECISION_MODES,
    PRECISION_MODES_V2,
    output_types_text,
    read_customized,
    read_keep_file,
    read_mix_list,
    read_output_types,
)


def _canonical(value: object) -> str:
    """Return the text of a value, as the package records it."""
    match value:
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case OoLevel():
            return value.name
        case Enum():
            return str(value.value)
        case tuple():
            return ",".join(value)
    return str(value)


@dataclass(frozen=True, slots=True)
class Option:
    """One option: `text` gives its canonical spelling.  What cannot change the package is not `recorded` in it."""

    name: str
    read: Reader
    default: Any
    help: str
    text: Callable[[Any], str] = _canonical
    recorded: bool = True
    aliases: tuple[str, ...] = ()
    repeatable: bool = False

    @property
    def choices(self) -> tuple[str, ...]:
        """The values that it may have, if they are few."""
        return tuple(self.read.keywords.get("choices", ())) if isinstance(self.read, partial) else ()


TABLE = (
    Option("soc", read_soc, "Ascend910", "chip to compile for", aliases=("soc_version",)),
    Option("input_shape", read_input_shape, {}, 'shapes of inputs, "x:1,3,224,224;y:1~8,-1"', shape_text),
    Option("dynamic_batch_size", read_batches, (), 'gears: the batches to compile for, "1,2,4,8"', batches_text),
    Option("dynamic_image_size", read_images, (), 'gears: heights and widths, "416,416;832,832"', rows_text),
    Option("dynamic_dims", read_dims, (), "gears: the sizes of all dims that are -1 in --input_shape", rows_text),
    Option(
        "out_nodes",
        lambda option, value: read_names(option, value, ";"),
        (),
        'the values that become outputs, "node:0;node:1" or output names',
        ";".join,
    ),
    Option(
        "iterations_per_loop",
        number(read_int, 1, 2**31 - 1),
        1,
        "how often one run of the package runs the model, as GE's sink mode",
    ),
    Option(
        "state",
        read_states,
        {},
        'with --iterations_per_loop: outputs that are inputs of the next iteration, "h2=h;c2=c"',
        lambda states: ";".join(f"{new}={old}" for new, old in sorted(states.items())),
    ),
    Option(
        "stepped",
        lambda option, value: read_names(option, value, ";"),
        (),
        'with --iterations_per_loop: inputs that have a value for each iteration, "x;y"',
        lambda names: ";".join(sorted(names)),
    ),
    Option("framework", read_framework, None, "5 for ONNX, 3 for TensorFlow; default: by content"),
    Option(
        "input_format",
        choice({name: name for name in INPUT_FORMATS}),
        "",
        "what the package calls the layout of the inputs: NHWC (TensorFlow's), NCHW (ONNX's), ND, NDHWC or NCDHW",
    ),
    Option(
        "insert_op_conf",
        read_insert_op_conf,
        None,
        "file of AIPP, as ATC's: inputs become pictures of bytes, and the package converts them",
        lambda config: "sha256:" + config.sha256,
    ),
    Option("signature", text_of, "", "SavedModel: which of its signatures; default: serving_default"),
    Option("tag_set", read_names, (), "SavedModel: the tags of its graph; default: serve"),
    Option("zipmap", read_bool, True, "give scores as ZipMap does, a dict of each row by label; without, as a tensor"),
    Option("fold_default_inputs", read_bool, False, "make inputs that have a default constants"),
    Option("static", read_bool, False, "refuse a model with an open dimension"),
    Option("oo_level", choice(LEVELS), OoLevel.O2, "how much is optimised, O0 to O3"),
    Option("oo_constant_folding", read_bool, True, "false: what depends on constants only is computed at run time"),
    Option("oo_dead_code_elimination", read_bool, True, "false: both branches of an If with a constant condition stay"),
    Option(
        "quant_dumpable",
        read_zero_or_one,
        False,
        "1: QuantizeLinear and DequantizeLinear stay nodes of their own, computed in floats",
        bit_text,
    ),
    Option("skip_pass", read_names, (), "passes to leave out", lambda names: ",".join(sorted(names))),
    Option(
        "fusion_switch_file",
        read_switch_file,
        None,
        "file that switches passes on and off, as ATC's",
        lambda file: "sha256:" + file.sha256,
    ),
    Option("optimization_switch", read_switches, PassSwitches(), '"Pass:on;Pass:off"; beats the file', switch_text),
    Option(
        "pass_limit",
        read_limits,
        {},
        '"Pass:7": rewrite only its first so many matches; for finding faults',
        lambda limits: ";".join(f"{name}:{count}" for name, count in sorted(limits.items())),
    ),
    Option(
        "op_select_implmode",
        choice(IMPL_MODES),
        ImplMode.HIGH_PERFORMANCE,
        "whether 3x3 convolutions of floats may be Winograd's, whose rounding errors are larger",
    ),
    Option(
        "auto_tune_mode",
        read_kernel_times,
        None,
        "take the fastest of the kernels that compute the same; file of their times, to which those that are not in it "
        "are added, measured on this CPU",
        lambda times: "sha256:" + times.sha256,
    ),
    Option(
        "precision_mode",
        mode_of(PRECISION_MODES),
        None,
        "what becomes of float32: force_fp16, force_fp32, cube_fp16in_fp32out, allow_fp32_to_fp16, allow_fp32_to_bf16, "
        "allow_mix_precision_fp16, allow_mix_precision_bf16, must_keep_origin_dtype (the default)",
        mode_text(PRECISION_MODES),
    ),
    Option(
        "precision_mode_v2",
        mode_of(PRECISION_MODES_V2),
        None,
        "the same by newer names: origin, fp16, cube_fp16in_fp32out, mixed_float16, mixed_bfloat16",
        mode_text(PRECISION_MODES_V2),
    ),
    Option(
        "keep_dtype",
        file_of(read_keep_file),
        None,
        "file of nodes, and of OpType::T, that keep their types",
        sha256_text,
    ),
    Option(
        "keep_fp32",
        read_keep,
        (),
        'nodes that keep their types, patterns of them, and OpType::T: "/head/*,OpType::Softmax"; repeatable',
        repeatable=True,
    ),
    Option(
        "customize_dtypes",
        file_of(read_customized),
        None,
        "file of lines NODE::InputDtype:float16,OutputDtype:float32; beats --keep_dtype",
        sha256_text,
    ),
    Option(
        "modify_mixlist",
        file_of(read_mix_list),
        None,
        "JSON file that changes the lists of a mixed mode",
        sha256_text,
    ),
    Option("is_weight_clip", read_zero_or_one, True, "0: lowered weights that are too large become infinite", bit_text),
    Option(
        "output_type",
        read_output_types,
        (),
        'type of all outputs, FP16, or by the entries of --out_nodes, "node:0:FP16;other:0:FP32"',
        output_types_text,
    ),
    Option(
        "input_fp16_nodes",
        lambda option, value: read_names(option, value, ";"),
        (),
        'inputs that are fed as float16, "a;b"',
        ";".join,
    ),
    Option("enable_graph_kernel", read_bool, None, "fuse elementwise ops into graph kernels; on from O2"),
    Option("disable_reuse_memory", read_zero_or_one, False, "1: no activation shares memory", bit_text),
    Option(
        "no_reuse_mem",
        read_names,
        (),
        "nodes and types of nodes whose results share no memory, as ATC's OP_NO_REUSE_MEM",
        lambda names: ",".join(sorted(names)),
    ),
    Option("enable_single_stream", read_bool, False, "no branches beside each other"),
    Option(
        "topo_sorting_mode",
        choice(TOPO_SORTING_MODES),
        TopoSortingMode.STABLE_RDFS,
        "order in which nodes run: 0 breadth first, 1 depth first, 2 from the results back, 3 as in the model",
    ),
    Option(
        "external_weight",
        read_external_weight,
        ExternalWeight.INSIDE,
        "1: weights in files of their own, in the folder weight beside the package; 2: all in one file there",
    ),
    Option(
        "status_check",
        read_zero_or_one,
        False,
        "1: runs end at the first node that computes NaN or infinity from numbers",
        bit_text,
    ),
    Option(
        "deterministic_level",
        read_deterministic_level,
        0,
        "2: rows of the same numbers have the same results, wherever they are; refused for nodes that differ",
    ),
    Option("max_const", read_size, 16 * MIB, "largest constant that folding may add, as 1M; default: 16M"),
    Option("max_growth", number(read_float, 0, 1000), 1.1, "how far folding may let the weights grow"),
    Option(
        "allreduce_split",
        choice(SPLITS),
        SplitBy.DEFAULT,
        "how allreduces are put together: default (96.54 % of the bytes first), or auto by the model of costs",
    ),
    Option(
        "allreduce_split_size",
        read_splits,
        {},
        'percentages of the bytes of each collective, "60,20,20", or for a group "tp:50,50"',
        splits_text,
    ),
    Option(
        "allreduce_split_index",
        read_splits,
        {},
        'the last allreduce of each collective, from 0: "20,100,159"',
        splits_text,
        aliases=("allreduce_split_idx",),
    ),
    Option(
        "allreduce_split_threshold",
        read_size,
        None,
        "the most bytes that one collective takes of several allreduces, as 25M",
    ),
    Option(
        "allreduce_cost",
        read_network,
        Network(),
        "for auto and the order of tasks: seconds to start a message, send a byte, add one; multiplications a second: "
        'by default "alpha=16e-6,beta=3e-10,gamma=1e-10,ranks=2,speed=100e9"',
        network_text,
    ),
    Option(
        "custom_ops",
        read_custom_ops,
        (),
        "Python modules that register custom operators, as my_ops.py; repeatable",
        ops_text,
        repeatable=True,
    ),
    Option("allow_hardlinks", read_bool, False, "take external data with several names", recorded=False),
    Option("memory_limit", read_size, None, "most memory to use, as 8G", recorded=False),
    Option("timeout", read_seconds, None, "most seconds to work", recorded=False),
    Option("threads", number(read_int, 1, 1024), None, "threads to use; default: the physical cores", recorded=False),
    Option("dump_graph", read_path, None, "directory to write each stage's graph to", recorded=False),
    Option("dump_stages", read_stages, frozenset(Stage), "stages to dump; default: all", recorded=False),
    Option("dump_passes", read_names, (), "passes to dump before and after they run", recorded=False),
    Option(
        "export_compile_stat",
        number(read_int, 0, 2),
        0,
        "write fusion_result.json: 0 never, 1 at the end, 2 after compilation",
        recorded=False,
    ),
    Option("sign", read_path, None, "private key of Ed25519 (PEM) that signs the package", recorded=False),
    Option("debug", read_bool, False, "verify the graph after each pass", recorded=False),
)
OPTIONS: dict[str, Option] = {option.name: option for option in TABLE}
_BY_NAME = {name: option for option in TABLE for name in (option.name, *option.aliases)}


def find_option(name: str, spelling: str) -> Option:
    """The option of that name, or of one of its aliases. Raises UsageError that shows it in the user's spelling."""
    option = _BY_NAME.get(name)
    if option is None:
        raise UsageError("E10001", f'there is no option "{spelling}"', hint=did_you_mean(name, _BY_NAME))
    return option
