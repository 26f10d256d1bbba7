"""`atcpy convert`: a model becomes a package."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from atcpy.cli.invocation import Invocation, Outcome, command
from atcpy.errors import Unsupported, UsageError, Where
from atcpy.options import ConvertOptions, Stage, convert_options
from atcpy.report.units import duration

if TYPE_CHECKING:
    from atcpy.ir import Graph

TABLE = (
    "soc", "input_shape", "out_nodes", "static", "oo_level", "skip_pass", "fusion_switch_file", "optimization_switch",
    "op_select_implmode", "disable_reuse_memory", "max_const", "max_growth", "dump_graph", "dump_stages",
)  # fmt: skip
_FRAMEWORKS = {"0": "Caffe", "1": "MindSpore", "3": "TensorFlow"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, table=TABLE)(convert)


def convert(
    run: Invocation,
    model: Annotated[str, typer.Option("--model", "-m", metavar="M.onnx", help="The model.")],
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="M.om", help="The package; default: <model>.om, here.")
    ] = None,
    framework: Annotated[str | None, typer.Option("--framework", help="5 for ONNX; default: by content.")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite/--no_overwrite", help="Replace a package that is there.")
    ] = True,
    **options: Any,
) -> Outcome:
    """Compile a model into a package."""
    check_framework(framework)
    parsed = read_options(run, options)
    target = package_path(model, output)
    if not overwrite and target.exists():
        raise UsageError("E13004", f"{target} exists", where=Where(file=str(target)), hint="drop --no-overwrite")
    from atcpy.report.summary import convert_result, convert_summary
    from atcpy.stages import pipeline

    started = time.perf_counter()
    report = pipeline.convert(Path(model), target, parsed, Watcher(run, parsed))
    lines = convert_summary(report, model, time.perf_counter() - started, soc_is_default=options.get("soc") is None)
    return Outcome(convert_result(report), lines, warnings=report.warnings)


def check_framework(framework: str | None) -> None:
    """Only ONNX can be read; the others have their own way out."""
    if framework in (None, "5"):
        return
    name = _FRAMEWORKS.get(framework)
    where = Where(option="framework")
    if name is None:
        raise UsageError("E10007", f"--framework: {framework} is unknown", where=where, hint="5 is ONNX")
    hint = "convert the model to ONNX first, and give that: --framework=5"
    raise Unsupported("E10055", f"--framework={framework}: {name} is not supported", where=where, hint=hint)


def read_options(run: Invocation, options: dict[str, Any]) -> ConvertOptions:
    """The records for the table's options and the common ones; a flag that is not set was not given."""
    given = {name: value for name, value in (options | run.common).items() if value not in (None, False)}
    return convert_options(given)


def package_path(model: str, output: str | None) -> Path:
    """Where the package goes: `.om` is appended unless the name ends in it."""
    if output is None:
        return Path(Path(model).stem + ".om")
    if output.endswith("/") or Path(output).is_dir():
        hint = f"--output={output.rstrip('/')}/{Path(model).stem}"
        raise UsageError("E10022", f'--output: "{output}" names a directory', where=Where(option="output"), hint=hint)
    return Path(output if output.endswith(".om") else output + ".om")


class Watcher:
    """An observer of the pipeline: tells the progress, writes the dumps."""

    def __init__(self, run: Invocation, options: ConvertOptions) -> None:
        self._run = run
        self._dump = options.dump

    def stage(self, stage: Stage) -> None:
        """A stage begins."""
        self._run.progress.step(stage.value)

    def stage_done(self, stage: Stage, seconds: float, graphs: "Sequence[Graph]") -> None:
        """A stage ended."""
        nodes = sum(len(graph) for graph in graphs)
        self._run.say(f"{stage.value}: {duration(seconds)}, {nodes} nodes", level=2)
        if self._dump.directory is not None:
            from atcpy.report.graph_dump import write_dump

            write_dump(self._dump, stage, graphs)
