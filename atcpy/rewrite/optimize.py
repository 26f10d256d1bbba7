"""`atcpy optimize`: an ONNX model becomes a smaller ONNX model of the same meaning.

parse  →  prepare, engine-neutral passes only  →  export  →  check  →  .onnx
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import onnx

from atcpy.errors import AtcWarning, UsageError, did_you_mean
from atcpy.ir import Graph
from atcpy.ir.collector import collector_paused
from atcpy.ir.decisions import PassCount
from atcpy.om.atomic import atomic_write
from atcpy.options import Stage
from atcpy.parsers.onnx import import_onnx
from atcpy.parsers.onnx.functions import all_nodes
from atcpy.parsers.onnx.reader import ModelFile, read_model, standard_opset
from atcpy.parsers.parsed import ParsedModel
from atcpy.passes import prepare as _passes  # registers them
from atcpy.passes.base import Pass
from atcpy.passes.pass_manager import PassManager
from atcpy.passes.pass_set import built_in_passes
from atcpy.passes.phase import Phase
from atcpy.rewrite.export import CannotExport, Constant, RewrittenModel, export_rewritten
from atcpy.rewrite.options import RewriteOptions
from atcpy.rewrite.recorder import SourceRecorder
from atcpy.rewrite.report import ModelCount, OptimizeReport, Verdict
from atcpy.rewrite.serialize import SerializedModel, serialize
from atcpy.rewrite.source_model import SourceModel

assert _passes
_EXTERNAL = onnx.TensorProto.EXTERNAL

# Compares a model with its rewritten form.
Compare = Callable[[ParsedModel, SourceModel, RewrittenModel], Verdict]
# Begins the comparison before the rewritten form is known.
Check = Callable[[Path | onnx.ModelProto, ModelFile, RewriteOptions], AbstractContextManager[Compare]]


@collector_paused()
def optimize_model(
    model: Path | onnx.ModelProto,
    target: Path,
    options: RewriteOptions,
    check: Check | None = None,
    step: Callable[[str], None] = lambda text: None,
) -> OptimizeReport:
    """Write the optimised model to `target`, unless `check` finds that it computes something else."""
    _check_names(options)
    step("parse")
    file = read_model(model, allow_hardlinks=options.shared.parse.allow_hardlinks)
    verdict = Verdict(verified=False, why="--no-verify")
    with check(model, file, options) if check is not None and options.verify else nullcontext() as compare:
        parsed, source = read_source(file, options)
        before = _count_source(source)
        step("optimize")
        rewritten, applied, warnings = _rewrite_best(file, parsed, source, options)
        if compare is not None:
            step("verify")
            verdict = compare(parsed, source, rewritten)
            if verdict.error is not None:
                raise verdict.error
            if not verdict.verified:
                warnings.append(AtcWarning("W0041", f"not verified: {verdict.why}"))
    step("write")
    data_name = f"{target.name}.data"
    parts = serialize(rewritten, data_name, external=source.is_external)
    _write(target, data_name, parts)
    return OptimizeReport(
        output=str(target),
        before=before,
        after=ModelCount(rewritten.ops.total(), parts.nbytes, dict(sorted(rewritten.ops.items()))),
        opset=standard_opset(rewritten.model),
        applied=applied,
        verified=verdict.verified,
        oracle=verdict.oracle,
        shapes=verdict.shapes,
        max_abs=verdict.max_abs,
        external_data=data_name if parts.data else "",
        warnings=(*parsed.warnings, *warnings),
    )


def read_source(file: ModelFile, options: RewriteOptions) -> tuple[ParsedModel, SourceModel]:
    """Import a model together with what it takes to write its graph as ONNX again."""
    recorder = SourceRecorder(SourceModel.of(file), options.keep)
    parsed = import_onnx(file, options.shared.parse, recorder=recorder)
    missing = [name for name in options.keep if name not in recorder.source.kept]
    if missing:
        names = [origin.proto.name for origin in recorder.source.origins.values()]
        hint = did_you_mean(missing[0], names)
        raise UsageError("E10016", f'--keep: there is no node "{missing[0]}" in the model', hint=hint)
    return parsed, recorder.source


def _check_names(options: RewriteOptions) -> None:
    shared = options.shared
    passes = built_in_passes()
    passes.check_switches(shared.prepare.switches, (*shared.skipped_passes, *options.only))
    for name in options.only:
        entry = passes.find(name)
        if entry is None or entry.stage is not Stage.PREPARE or not entry.is_neutral:
            what = f"--passes: {name} does not run in optimize: its result serves our own kernels only"
            raise UsageError("E10001", what, hint="atcpy passes list")


# --------------------------------------------------------------------------------------------------------------------
# Rewriting, and what is done when it fails


def rewrite_file(file: ModelFile, options: RewriteOptions) -> RewrittenModel:
    """The optimised form of a model that was read, neither checked nor written."""
    parsed, source = read_source(file, options)
    return _rewrite_best(file, parsed, source, options)[0]


def _rewrite_best(
    file: ModelFile, parsed: ParsedModel, source: SourceModel, options: RewriteOptions
) -> tuple[RewrittenModel, tuple[PassCount, ...], list[AtcWarning]]:
    """Rewrite by all passes that are on; if the result cannot be written or is larger, by the required ones alone;
    if that fails too, return the model as it was.
    """
    why = ""
    attempts = [options, options.required_only()]
    while attempts:
        attempt = attempts.pop(0)
        if attempt is not options:
            parsed, source = read_source(file, options)
        try:
            rewritten = rewrite(parsed.graph, source, attempt)
        except CannotExport as error:
            why = why or str(error)
            continue
        if attempt is options and (avoidable := rewritten.raised_by & _optional_passes()):
            attempts.insert(0, options.without(avoidable))  # the model's opset is worth more than a few nodes
            continue
        count = rewritten.ops.total()
        if count > source.node_count:
            why = why or f"it would have {count} nodes instead of {source.node_count}"
            continue
        warnings = [AtcWarning("W0042", f"only required passes were run: {why}")] if why else []
        if rewritten.raised:
            opset = standard_opset(rewritten.model)
            warnings.append(AtcWarning("W0040", f"the opset is raised to {opset} for {rewritten.raised}"))
        return rewritten, _applied(parsed.graph), warnings
    return unchanged(source), (), [AtcWarning("W0042", f"the model is written as it was: {why}")]


def _optional_passes() -> frozenset[str]:
    return frozenset(entry.name for entry in built_in_passes() if not entry.required)


def rewrite(graph: Graph, source: SourceModel, options: RewriteOptions) -> RewrittenModel:
    """Run the engine-neutral passes over the graph of `source`, and export it."""
    shared = options.shared
    opset = standard_opset(source.model)

    def is_on(entry: Pass) -> bool:
        is_named = not options.only or entry.required or entry.name in options.only
        return is_named and entry.is_neutral and all(onnx.defs.has(op_type, opset) for op_type in entry.makes)

    manager = PassManager(shared, built_in_passes().where(is_on), shared.limits.deadline())
    manager.run(graph, *Phase.of(Stage.PREPARE))
    manager.run_bodies(graph, *Phase.of(Stage.PREPARE))
    retyped = bool(shared.parse.input_shape)
    return export_rewritten(graph, source, retyped=retyped, lowest_opset=options.lowest_opset)


def unchanged(source: SourceModel) -> RewrittenModel:
    """The model as it was read."""
    result = RewrittenModel(onnx.ModelProto())
    result.model.CopyFrom(source.model)
    result.ops = _count_ops(source.model)
    del result.model.graph.initializer[:]
    for index, proto in enumerate(source.model.graph.initializer):
        if proto.data_location == _EXTERNAL:
            plain = onnx.TensorProto(name=proto.name, data_type=proto.data_type, dims=proto.dims)
            result.constants.append(Constant(plain, source.read(proto)))
        else:
            result.constants.append(Constant(proto, source.inline.get(index)))
    return result


# --------------------------------------------------------------------------------------------------------------------
# Counting and writing


def _applied(graph: Graph) -> tuple[PassCount, ...]:
    return tuple(PassCount(*count) for count in graph.decisions.counts() if count[2])


def _count_source(source: SourceModel) -> ModelCount:
    """The model as its files store it, but with functions inlined."""
    tensors = source.model.graph.initializer if source.is_external else ()
    external = sum(len(source.read(tensor)) for tensor in tensors if tensor.data_location == _EXTERNAL)
    return ModelCount(source.node_count, source.nbytes + external, dict(sorted(source.ops.items())))


def _count_ops(model: onnx.ModelProto) -> Counter[str]:
    counts = Counter(node.op_type for node in all_nodes(model.graph.node))
    del counts["Constant"]
    return counts


def _write(target: Path, data_name: str, parts: SerializedModel) -> None:
    """Write the data first: a model is never beside data of another for longer than a rename takes."""
    if parts.data:
        atomic_write(target.with_name(data_name), parts.data)
    atomic_write(target, parts.model)
