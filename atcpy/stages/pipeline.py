"""The pipeline: a model becomes a package. This module is the table of the stages.

parse  →  prepare  →  split  →  optimize  →  compile  →  .om
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import onnx

from atcpy import __version__
from atcpy.errors import AtcError, AtcWarning, Unsupported, Where
from atcpy.files import check_unchanged, open_file, require_unchanged_files
from atcpy.ir import CompiledModel, Engine, Graph, states_by_name, task_counts, walk
from atcpy.ir.collector import collector_paused
from atcpy.ir.decisions import Moment, PassCount, Precision
from atcpy.ir.gears import one_gear
from atcpy.ir.shape import format_shape
from atcpy.om import writer
from atcpy.om.atomic import atomic_write, require_writable
from atcpy.om.signature import read_signing_key
from atcpy.ops.collectives import WORLD
from atcpy.ops.custom import custom_ops_in, load_custom_ops
from atcpy.options import AllReduceSplit, ConvertOptions, MemoryLimit, Stage
from atcpy.passes.compile.buffer_assignment import names_of
from atcpy.passes.compile.emit_tasks import Identity
from atcpy.passes.full_caches import FullCaches, assume_full_caches
from atcpy.passes.optimize.cancel_transdata import count_transdata
from atcpy.passes.pass_manager import PassManager
from atcpy.passes.prepare.precision.precision_mode import NAME as PRECISION
from atcpy.passes.prepare.recognise.custom_op import passes_with
from atcpy.passes.split.known_shapes import is_known
from atcpy.precision_options import PrecisionOptions
from atcpy.stages import report as reporting
from atcpy.stages.compile import compile_graph
from atcpy.stages.determinism import check_positions
from atcpy.stages.gears import compile_gears
from atcpy.stages.iterate import iterate
from atcpy.stages.optimize import optimize
from atcpy.stages.parse import ParsedModel, parse
from atcpy.stages.prepare import prepare, prepare_bodies, set_precision
from atcpy.stages.report import ConvertReport
from atcpy.stages.split import assign_engines, split
from atcpy.stages.symbolic import plan_unknown

# The names under which GE dumps its graph at the end of each stage.
GE_STAGE = {
    Stage.PARSE: "PreRunBegin",
    Stage.PREPARE: "PreRunAfterPrepare",
    Stage.SPLIT: "AfterEnginePlacer",
    Stage.OPTIMIZE: "PreRunAfterOptimizeSubgraph",
    Stage.COMPILE: "Build",
}


class Observer:
    """Watches a conversion: progress, dumps. Its methods do nothing until a subclass overrides them."""

    def stage(self, stage: Stage) -> None:
        """A stage begins."""

    def stage_done(self, stage: Stage, seconds: float, graphs: Sequence[Graph]) -> None:
        """A stage has ended; `graphs` is what it leaves: one, or after split the root and its pieces."""

    def passing(self, name: str, graph: Graph, moment: Moment) -> None:
        """A pass is about to run on a graph, or on a piece of it, or has run."""


@dataclass(slots=True)
class _Clock:
    """Times the stages and tells the observer."""

    observer: Observer | None
    times: list[reporting.StageTime] = field(default_factory=list)
    graphs: Sequence[Graph] = ()

    @contextmanager
    def stage(self, stage: Stage) -> Iterator[None]:
        if self.observer is not None:
            self.observer.stage(stage)
        start = time.perf_counter()
        yield
        seconds = time.perf_counter() - start
        self.times.append(reporting.StageTime(stage.value, seconds))
        if self.observer is not None:
            self.observer.stage_done(stage, seconds, self.graphs)


@collector_paused()
def compile_model(
    model: Path | onnx.ModelProto, options: ConvertOptions, observer: Observer | None = None
) -> tuple[CompiledModel, ConvertReport]:
    """Takes a model through all stages but the writing of the package; the report lacks the file."""
    custom = load_custom_ops(options.custom_ops)
    passes = passes_with(custom)
    warnings = passes.check_switches(options.optimize.switches, options.skipped_passes, options.dump.passes)
    clock = _Clock(observer)
    observe = None if observer is None else observer.passing
    manager = PassManager(options, passes, options.limits.deadline(), observe)
    with clock.stage(Stage.PARSE):
        parsed = parse(model, options.parse, custom)
        graph = parsed.graph
        clock.graphs = (graph,)
        nodes_before = graph.node_count_before
    with clock.stage(Stage.PREPARE):
        full = assume_full_caches(graph)
        prepare(graph, manager)
        if options.prepare.loop is not None:
            graph, full = iterate(graph, options.prepare.loop), None
            clock.graphs = (graph,)
            prepare(graph, manager)
        set_precision(graph, manager)
        _check_values(graph, options.limits.memory())
        prepare_bodies(graph, manager)
    identity = Identity(options.soc, options.atc_cmdline, parsed.source, __version__)
    compiled, transdata_left = _compile_prepared(graph, full, options, identity, manager, clock)
    if options.status_check and compiled.has_unknown_shapes:
        what = "--status_check=1 is not supported where shapes are not known: what lies where in memory is not, either"
        hint = '--input_shape="x:1,3,224,224", or gears'
        raise Unsupported("E10055", what, where=Where(option="status_check"), hint=hint)
    compiled = replace(compiled, checks_status=options.status_check)
    if options.deterministic_level > 1:
        check_positions(compiled.graph)
    _account_for_sources(compiled.graph)
    return compiled, _report(compiled, parsed, options, nodes_before, transdata_left, clock.times, warnings)


def _compile_prepared(
    graph: Graph,
    full: FullCaches | None,
    options: ConvertOptions,
    identity: Identity,
    manager: PassManager,
    clock: _Clock,
) -> tuple[CompiledModel, int]:
    """Take a prepared graph through the other stages. Returns how many nodes that change formats are left, too. `full`
    is the graph with full caches, not prepared.
    """
    if options.parse.gears is not None:
        with clock.stage(Stage.COMPILE):
            compiled = compile_gears(graph, options.parse.input_shape, options.parse.gears, identity, manager)
            clock.graphs = (compiled.graph,)
        return compiled, 0
    # Weights that a run may replace are no constants, and cannot be packed: only runs that do so are planned without.
    if not is_known(graph) or any("default" in data.attrs for data in graph.inputs):
        with clock.stage(Stage.SPLIT):
            assign_engines(graph, manager)
        with clock.stage(Stage.COMPILE):
            return plan_unknown(graph, full, identity, manager), 0
    with clock.stage(Stage.SPLIT):
        partition = split(graph, manager)
        clock.graphs = (partition.root, *(piece.graph for piece in partition.subgraphs))
    with clock.stage(Stage.OPTIMIZE):
        graph = optimize(partition, manager)
        clock.graphs = (graph,)
        transdata_left = count_transdata(graph)
    with clock.stage(Stage.COMPILE):
        return compile_graph(graph, identity, manager), transdata_left


def _account_for_sources(graph: Graph) -> None:
    """See that each node of the model is in a node that is left, or has a reason why not."""
    graph.decisions.account_for({source for node in walk(graph) if not node.is_structural for source in node.sources})


def _check_values(graph: Graph, limit: MemoryLimit) -> None:
    """R0001 that names the largest value, if that alone is more than may be used."""
    sized = [value for node in graph.nodes for value in node.outputs if value.desc.is_static]
    largest = max(sized, key=lambda value: value.desc.nbytes, default=None)
    if largest is not None:
        what = f'the value "{largest.name}" of shape {format_shape(largest.desc.shape)}'
        limit.check(largest.desc.nbytes, what, where=largest.producer.where)


@collector_paused()
def convert(
    model: Path | onnx.ModelProto, target: Path | None, options: ConvertOptions, observer: Observer | None = None
) -> ConvertReport:
    """Converts a model and writes the package to `target`; with None nothing is written."""
    key = None if options.sign is None else read_signing_key(options.sign)  # refused before the work, not behind it
    with require_unchanged_files() as files:
        times = options.compile.kernel_times
        if times is not None and target is not None:
            require_writable(times.path)
        compiled, report = compile_model(model, options, observer)
        if target is None:
            return report
        if times is not None and times.is_changed:
            atomic_write(times.path, [times.text().encode()])
        start = time.perf_counter()
        sign = None if key is None else key.sign
        check = partial(check_unchanged, files)
        written = writer.write(target, compiled, sign=sign, check=check, external=options.external_weight)
        files.clear()  # what happens to them now does not matter
    if key is not None:
        report = replace(report, signed_by=key.public.fingerprint, warnings=(*report.warnings, *key.warnings))
    report = replace(report, weight_files=reporting.count_files(written))
    writing = reporting.StageTime("write", time.perf_counter() - start)
    with open_file(target) as file:
        digest, size = hashlib.file_digest(file, "sha256").hexdigest(), file.tell()
    return replace(report, output=str(target), bytes=size, sha256=digest, stages=(*report.stages, writing))


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What `check` found: problems as errors, ops by engine, shapes by how much is known."""

    problems: tuple[AtcError, ...] = ()
    warnings: tuple[AtcWarning, ...] = ()
    ops: tuple[tuple[str, int, str], ...] = ()
    known_shapes: int = 0
    unknown_shapes: int = 0
    nodes: int = 0
    precision: Precision = Precision()  # noqa: RUF009
    kept_types: tuple[tuple[str, int], ...] = ()  # of nodes that the precision mode does not change: reason, count


@collector_paused()
def check(model: Path | onnx.ModelProto, options: ConvertOptions) -> CheckReport:
    """Report everything that keeps a model from converting, at once; no package is written."""
    custom = load_custom_ops(options.custom_ops)
    manager = PassManager(options, passes_with(custom), options.limits.deadline())
    try:
        parsed = parse(model, options.parse, custom)
        nodes = sum(1 for node in parsed.graph.nodes if not node.is_structural)
        prepare(parsed.graph, manager)
        set_precision(parsed.graph, manager)
        _check_values(parsed.graph, options.limits.memory())
        assign_engines(parsed.graph, manager)
    except AtcError as error:
        return CheckReport(problems=tuple(error.problems))
    counts: dict[tuple[str, str], int] = {}
    known = unknown = 0
    for node in parsed.graph.nodes:
        for value in node.outputs:
            known, unknown = known + value.desc.is_static, unknown + (not value.desc.is_static)
        if not node.is_structural and node.engine is not None:
            key = (node.op_type, node.engine.value)
            counts[key] = counts.get(key, 0) + 1
    ops = tuple((op, count, engine) for (op, engine), count in sorted(counts.items()))
    decisions = parsed.graph.decisions
    kept = Counter(
        reject.reason for record in decisions.passes if record.name == PRECISION for reject in record.rejects
    )
    return CheckReport(
        warnings=(
            *parsed.warnings,
            *_precision_warnings(decisions.precision, options.prepare.precision),
            *_host_warnings(parsed.graph, reporting.count_host_ops(parsed.graph)),
        ),
        ops=ops,
        known_shapes=known,
        unknown_shapes=unknown,
        nodes=nodes,
        precision=decisions.precision,
        kept_types=tuple(sorted(kept.items())),
    )


def _host_warnings(graph: Graph, counts: Sequence[reporting.OpCount]) -> tuple[AtcWarning, ...]:
    if not counts:
        return ()
    first: dict[str, str] = {}
    for node in walk(graph):
        if node.engine is Engine.HOST_CPU:
            first.setdefault(node.op_type, node.name)
    return tuple(
        AtcWarning("W0020", f"{count.op} ×{count.count} runs on HOST_CPU", Where(node=first[count.op], op=count.op))
        for count in counts
    )


def _split_warnings(graph: Graph, split: AllReduceSplit) -> Iterator[AtcWarning]:
    """W0012 for what the user says of allreduces that there are not."""
    if split == AllReduceSplit():
        return
    groups = {node.str_attr("group", WORLD) for node in walk(graph) if node.op_type == "HcomAllReduce"}
    if not groups:
        yield AtcWarning("W0012", "--allreduce_… has no effect: the model has no allreduces")
        return
    for option, table in (("allreduce_split_size", split.sizes), ("allreduce_split_index", split.indices)):
        for group in sorted(table.keys() - groups - {""}):
            what = f'--{option}: "{group}" has no effect: the allreduces are of {", ".join(sorted(groups))}'
            yield AtcWarning("W0012", what, Where(option=option))


def _memory_warnings(graph: Graph, unshared: Set[str]) -> Iterator[AtcWarning]:
    """W0012 for names of nodes whose results share no memory, and that the package does not have."""
    known: set[str] = set().union(*map(names_of, walk(graph))) if unshared else set()
    for name in sorted(unshared - known):
        what = f'--no_reuse_mem: "{name}" has no effect: it is neither a node of the package nor the type of one'
        yield AtcWarning("W0012", what, Where(option="no_reuse_mem"))


def _precision_warnings(precision: Precision, options: PrecisionOptions) -> Iterator[AtcWarning]:
    """W0012 for nodes to keep where all are kept; W0021 for constants beyond the range of their new type."""
    if options.keep and options.mode.keeps_all:
        what = f"nodes that keep their types have no effect: with the mode {options.mode.value} all do"
        yield AtcWarning("W0012", what, Where(option="keep_dtype"))
    if names := precision.clipped:
        listed = ", ".join(f'"{name}"' for name in names[:3]) + (f" and {len(names) - 3} more" if names[3:] else "")
        became = "its largest numbers" if options.clip_weights else "infinite: --is_weight_clip=1 clips them"
        what = f"{precision.mode}: constants with elements beyond the range of the type became {became}: {listed}"
        yield AtcWarning("W0021", what, Where(value=names[0]))


def _report(
    compiled: CompiledModel,
    parsed: ParsedModel,
    options: ConvertOptions,
    nodes_before: int,
    transdata_left: int,
    times: list[reporting.StageTime],
    warnings: Sequence[AtcWarning],
) -> ConvertReport:
    decisions = compiled.graph.decisions
    graph = one_gear(compiled.graph)
    host_ops = reporting.count_host_ops(graph)
    cancelled = sum(record.applied for record in decisions.passes if record.name == "TransOpWithoutReshapeFusionPass")
    return ConvertReport(
        output=None,
        bytes=0,
        sha256="",
        source=compiled.source,
        soc=options.soc,
        inputs=tuple(reporting.port_info(port) for port in compiled.inputs),
        outputs=tuple(reporting.port_info(port) for port in compiled.outputs),
        nodes_before=nodes_before,
        task_count=len(compiled.tasks),
        gears=tuple(gear.text for gear in compiled.gears),
        unknown_shapes=compiled.has_unknown_shapes,
        plans=task_counts(compiled.clusters),
        guards=reporting.count_guards(compiled.clusters),
        states=states_by_name(
            compiled.clusters, [port.name for port in compiled.inputs], [port.name for port in compiled.outputs]
        ),
        unplanned=compiled.unplanned,
        iterations=options.prepare.loop,
        engines=reporting.count_engines(graph),
        host_cpu_ops=host_ops,
        custom_ops=custom_ops_in(graph),
        passes=tuple(PassCount(*count) for count in decisions.counts()),
        allreduce=decisions.allreduce,
        precision=decisions.precision,
        streams=reporting.count_streams((task.kernel, task.stream) for task in compiled.tasks),
        memory=reporting.memory_of(compiled),
        transdata=reporting.TransDataCount(transdata_left + cancelled, cancelled),
        stages=tuple(times),
        warnings=(
            *warnings,
            *parsed.warnings,
            *_split_warnings(graph, options.prepare.allreduce),
            *_memory_warnings(graph, options.compile.unshared),
            *_precision_warnings(decisions.precision, options.prepare.precision),
            *_host_warnings(graph, host_ops),
        ),
    )
