"""`atcpy convert`: a model becomes a package."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from atcpy.cli import custom_ops
from atcpy.cli.invocation import NEEDS_QUOTES, Invocation, require_with
from atcpy.cli.outcome import Outcome
from atcpy.cli.standard_streams import File
from atcpy.cli.verify import compare_with_model, verdict_lines
from atcpy.errors import UsageError, Where
from atcpy.options import OPTIONS, ConvertOptions, ExternalWeight, ParseOptions, convert_options

PRECISION_TABLE = (
    "precision_mode", "precision_mode_v2", "keep_dtype", "keep_fp32", "customize_dtypes", "modify_mixlist",
    "is_weight_clip", "output_type", "input_fp16_nodes",
)  # fmt: skip
TABLE = (
    "soc", "framework", "custom_ops", "input_shape", "dynamic_batch_size", "dynamic_image_size", "dynamic_dims",
    "out_nodes", "input_format", "insert_op_conf", "signature", "tag_set",
    "zipmap", "static", "fold_default_inputs", "oo_level", "oo_constant_folding", "oo_dead_code_elimination",
    "quant_dumpable", "skip_pass",
    "fusion_switch_file", "optimization_switch", "pass_limit", *PRECISION_TABLE, "op_select_implmode", "auto_tune_mode",
    "enable_graph_kernel", "disable_reuse_memory", "no_reuse_mem",
    "enable_single_stream", "topo_sorting_mode", "deterministic_level", "status_check", "external_weight",
    "iterations_per_loop", "state", "stepped", "max_const", "max_growth", "allreduce_split", "allreduce_split_size",
    "allreduce_split_index", "allreduce_split_threshold", "allreduce_cost", "sign",
    "dump_graph", "dump_stages", "dump_passes", "export_compile_stat",
)  # fmt: skip


def convert(
    run: Invocation,
    argument: Annotated[str | None, typer.Argument(metavar="M.onnx", help="The model."), File.READ] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", metavar="M.onnx", help="The same."), File.READ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="M.om", help="The package; default: <model>.om, here."),
        File.WRITTEN,
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite/--no_overwrite", help="Replace a package that is there.")
    ] = True,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare it with the model; if it differs it is kept as .rejected.om.")
    ] = False,
    oracle: Annotated[str | None, typer.Option("--oracle", help="For --verify: as atcpy verify has it.")] = None,
    input_data: Annotated[
        str | None,
        typer.Option("--input_data", metavar="NPZ", help="For --verify: inputs by name, in one file."),
        File.READ,
    ] = None,
    **options: Any,
) -> Outcome:
    """Compile a model into a package."""
    model = chosen_model(argument, model)
    for name, value in (("input_data", input_data), ("oracle", oracle)):
        require_with(name, "verify", is_given=value is not None, is_used=verify)
    if input_data is not None:
        from atcpy.cli.arrays import load_npz

        load_npz(input_data)  # report a bad file before anything is compiled
    parsed = read_options(run, options)
    if verify and parsed.external_weight is ExternalWeight.COMBINED:
        # The file that belongs to a package that is there would be replaced before the verdict.
        hint = "--external_weight=1, whose files are named by what is in them"
        raise UsageError("E10047", "--verify and --external_weight=2 cannot be used together", hint=hint)
    if verify:
        _require_oracle(Path(model), parsed.parse, oracle)
    target = package_path(model, output)
    if not overwrite and target.exists():
        raise UsageError("E13004", f"{target} exists", where=Where(file=str(target)), hint="drop --no-overwrite")
    from atcpy.cli.watcher import Watcher
    from atcpy.om import atomic
    from atcpy.report.compile_stat import CompileStatistics
    from atcpy.report.summary import convert_result, convert_summary
    from atcpy.stages import pipeline

    statistics = CompileStatistics(parsed.export_compile_stat)
    atomic.require_writable(target)
    started = time.perf_counter()
    written = rejected_path(target) if verify else target
    report = pipeline.convert(Path(model), written, parsed, Watcher(run, parsed.dump))
    seconds = time.perf_counter() - started
    statistics.compiled(report)
    verdict, warnings = None, list(report.warnings)
    if verify:
        custom = custom_ops.load(options["custom_ops"])
        verdict = compare_with_model(run, written, Path(model), input_data, oracle, custom)
        warnings += verdict.warnings
    if verdict is not None and verdict.passed:
        atomic.move(written, target)
        report = replace(report, output=str(target))
    lines = convert_summary(report, model, seconds, soc_is_default=options.get("soc") is None)
    result = convert_result(report)
    if verdict is not None:
        from atcpy.report.record import to_json

        result["verify"] = to_json(verdict)
        lines += verdict_lines(verdict)
    if verdict is None or verdict.passed:
        statistics.at_end(report)
    return Outcome(result, lines, None if verdict is None else verdict.error, warnings=warnings)


def chosen_model(argument: str | None, option: str | None) -> str:
    """The model, which is an argument or an option. Raises UsageError unless it is one of both."""
    where = Where(option="model")
    if argument is not None and option is not None:
        what = f'two models are given, "{argument}" and --model "{option}"'
        raise UsageError("E10047", what, where=where, hint=NEEDS_QUOTES)
    if argument is None and option is None:
        raise UsageError("E10054", "no model is given", where=where, hint="atcpy convert M.onnx")
    return argument or option or ""


def _require_oracle(model: Path, options: ParseOptions, choice: str | None) -> None:
    """Report that the oracle of --verify is not installed before anything is compiled."""
    from atcpy.stages.parse import names_tensorflow
    from atcpy.verify.oracle import require_oracle

    if not names_tensorflow(model, options):  # TensorFlow has oracles of its own
        require_oracle(choice)


def rejected_path(target: Path) -> Path:
    """Where a package waits for its verdict, and stays if that is bad."""
    return target.with_name(target.name.removesuffix(".om") + ".rejected.om")


def read_options(run: Invocation, options: dict[str, Any]) -> ConvertOptions:
    """The records for the table's options and the common ones; a flag that is False counts as absent."""
    flags = {name for name in (*options, *run.common) if OPTIONS[name].default is False}
    values = {name: value for name, value in (options | run.common).items() if value is not None}
    return convert_options({name: value for name, value in values.items() if value or name not in flags})


def package_path(model: str, output: str | None) -> Path:
    """Where the package goes: `.om` is appended unless the name ends in it."""
    if output is None:
        return Path(Path(model).stem + ".om")
    if output.endswith("/") or Path(output).is_dir():
        hint = f"--output={output.rstrip('/')}/{Path(model).stem}"
        raise UsageError("E10022", f'--output: "{output}" names a directory', where=Where(option="output"), hint=hint)
    return Path(output if output.endswith(".om") else output + ".om")
