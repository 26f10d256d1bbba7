"""What the command line or a Python caller gives, sorted into the records of a conversion."""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from atcpy.errors import Unsupported, UsageError, Where, did_you_mean
from atcpy.options.aipp import aipp_of
from atcpy.options.gears import gears_of, in_order_of_names
from atcpy.options.loops import loop_of
from atcpy.options.records import (
    AllReduceSplit,
    CompileOptions,
    ConvertOptions,
    DumpOptions,
    Limits,
    OoLevel,
    OptimizeOptions,
    ParseOptions,
    PassSwitches,
    PrepareOptions,
    SplitOptions,
    Stage,
)
from atcpy.options.switches import SwitchFile
from atcpy.options.table import OPTIONS, TABLE, find_option
from atcpy.precision_options import CustomDtypesFile, MixList, PrecisionMode, PrecisionOptions, TextFile
from atcpy.threads import default_threads


def convert_options(values: Mapping[str, object] | None = None, *, recorded: Mapping[str, str] = {}) -> ConvertOptions:
    """The records for what the user gave: names with `-` or `_`; None is the default. `recorded` are options of ATC
    without effect here, which the package names.
    """
    read: dict[str, Any] = {}
    for raw_name, value in (values or {}).items():
        name = raw_name.removeprefix("--").replace("-", "_")
        option = find_option(name, raw_name)
        if value is not None:
            if option.name in read:
                raise UsageError("E10047", f"{' and '.join(sorted(values or {}))}: one option, given twice")
            _check_characters(name, value)
            read[option.name] = option.read(name, value)  # errors name the option as the user did
    if read.get("dynamic_dims") and read.get("input_shape"):
        in_order_of_names(read)
    return _sorted_into_records(read, recorded)


def _check_characters(option: str, value: object) -> None:
    """Refuse a text that neither a command line nor a file could hold."""
    if isinstance(value, str | os.PathLike):
        text = str(os.fspath(value))
        try:
            text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            what = f"--{option}: character {error.start + 1} is half of a surrogate pair"
            raise UsageError("E10003", what, where=Where(option=option)) from error
        if "\0" in text:
            raise UsageError("E10003", f"--{option}: it has a NUL character", where=Where(option=option))


def _sorted_into_records(read: Mapping[str, Any], recorded: Mapping[str, str]) -> ConvertOptions:
    value = {option.name: read.get(option.name, option.default) for option in TABLE}
    file: SwitchFile | None = value["fusion_switch_file"]
    skipped = PassSwitches(named=dict.fromkeys(value["skip_pass"], False))
    asked = skipped.over(value["optimization_switch"]).over(PassSwitches(limits=value["pass_limit"]))
    switches = asked.over(file.switches if file else PassSwitches())
    level = value["oo_level"]
    graph_kernel = value["enable_graph_kernel"]
    return ConvertOptions(
        soc=value["soc"],
        parse=ParseOptions(
            input_shape=value["input_shape"],
            gears=gears_of(value),
            out_nodes=value["out_nodes"],
            static=value["static"],
            fold_default_inputs=value["fold_default_inputs"],
            allow_hardlinks=value["allow_hardlinks"],
            framework=value["framework"],
            input_format=value["input_format"],
            aipp=aipp_of(value),
            signature=value["signature"],
            tag_set=value["tag_set"],
            zipmap=value["zipmap"],
        ),
        prepare=PrepareOptions(
            level=level,
            switches=switches,
            fold_constants=value["oo_constant_folding"],
            remove_dead_branches=value["oo_dead_code_elimination"],
            quant_dumpable=value["quant_dumpable"],
            max_const_bytes=value["max_const"],
            max_growth=value["max_growth"],
            allreduce=AllReduceSplit(
                value["allreduce_split"],
                value["allreduce_split_size"],
                value["allreduce_split_index"],
                value["allreduce_split_threshold"],
                value["allreduce_cost"],
            ),
            loop=loop_of(value),
            precision=_precision(value),
        ),
        split=SplitOptions(level=level, switches=switches),
        optimize=OptimizeOptions(
            level=level,
            switches=switches,
            graph_kernel=level >= OoLevel.O2 if graph_kernel is None else graph_kernel,
        ),
        compile=CompileOptions(
            level=level,
            switches=switches,
            impl_mode=value["op_select_implmode"],
            kernel_times=value["auto_tune_mode"],
            threads=value["threads"] or (1 if value["auto_tune_mode"] is None else default_threads()),
            reuse_memory=not value["disable_reuse_memory"],
            unshared=frozenset(value["no_reuse_mem"]),
            single_stream=value["enable_single_stream"],
            topo_sorting=value["topo_sorting_mode"],
        ),
        limits=Limits(timeout_seconds=value["timeout"], memory_bytes=value["memory_limit"]),
        dump=_dump_options(value["dump_graph"], value["dump_stages"], value["dump_passes"]),
        export_compile_stat=value["export_compile_stat"],
        skipped_passes=tuple(value["skip_pass"]),
        custom_ops=value["custom_ops"],
        deterministic_level=value["deterministic_level"],
        status_check=value["status_check"],
        sign=value["sign"],
        external_weight=value["external_weight"],
        verify_ir=value["debug"],
        threads=value["threads"],
        atc_cmdline=atc_cmdline(read, recorded),
    )


def _precision(value: Mapping[str, Any]) -> PrecisionOptions:
    """The precision of a conversion. Raises UsageError where options exclude or need each other."""
    if value["precision_mode"] is not None and value["precision_mode_v2"] is not None:
        what = "--precision_mode and --precision_mode_v2 cannot be used together"
        raise UsageError("E10056", what, where=Where(option="precision_mode_v2"), hint="drop one: they name the same")
    mode = value["precision_mode"] or value["precision_mode_v2"] or PrecisionMode.ORIGIN
    lists: MixList | None = value["modify_mixlist"]
    if lists is not None and not mode.is_mixed:
        what = f"--modify_mixlist: the lists are of mixed modes, and the mode is {mode.value}"
        where = Where(option="modify_mixlist")
        raise UsageError("E10001", what, where=where, hint="--precision_mode_v2=mixed_float16")
    out_nodes: tuple[str, ...] = value["out_nodes"]
    for item in value["output_type"]:
        if item.entry and item.entry not in out_nodes:
            what = f'--output_type: "{item.entry}" is not in --out_nodes'
            hint = did_you_mean(item.entry, out_nodes) or f'--out_nodes="{item.entry}"'
            raise UsageError("E10001", what, where=Where(option="output_type"), hint=hint)
    file: TextFile | None = value["keep_dtype"]
    customized: CustomDtypesFile | None = value["customize_dtypes"]
    precision = PrecisionOptions(
        mode=mode,
        keep=(*value["keep_fp32"], *(file.lines if file is not None else ())),
        customized=customized.dtypes if customized is not None else (),
        lists=lists if lists is not None else MixList(),
        clip_weights=value["is_weight_clip"],
        output_types=value["output_type"],
        out_nodes=out_nodes,
        fp16_inputs=value["input_fp16_nodes"],
    )
    if value["iterations_per_loop"] > 1 and not precision.changes_nothing:
        what = "other types than the model's are not supported with --iterations_per_loop: loops keep theirs"
        raise Unsupported("E10055", what, where=Where(option="iterations_per_loop"), hint="drop one of the options")
    return precision


def _dump_options(directory: Path | None, stages: frozenset[Stage], passes: tuple[str, ...]) -> DumpOptions:
    given = {"dump_passes": bool(passes), "dump_stages": stages != frozenset(Stage)}
    for name in (name for name, is_given in given.items() if is_given and directory is None):
        raise UsageError("E10057", f"--{name} needs a directory", where=Where(option=name), hint="--dump_graph DIR")
    return DumpOptions(directory=directory, stages=stages, passes=passes)


def atc_cmdline(values: Mapping[str, Any], recorded: Mapping[str, str] = {}) -> str:
    """What the package records: the options that differ from their defaults, sorted, in canonical spelling."""
    texts = {
        name: OPTIONS[name].text(value)
        for name, value in values.items()
        if OPTIONS[name].recorded and value != OPTIONS[name].default
    }
    words = [f"--{name}={text}" for name, text in sorted({**texts, **recorded}.items())]
    return shlex.join(["atcpy", "convert", *words])
