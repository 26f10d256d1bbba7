"""`atcpy optimize`: a model becomes a smaller model of the same meaning, in the same words.

parse  →  prepare, engine-neutral passes only  →  export  →  check  →  .onnx
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import onnx

from atcpy.errors import AtcError, AtcWarning, UsageError, did_you_mean
from atcpy.exporters.onnx import CannotExport, Constant, Rewritten, export_in_words
from atcpy.exporters.onnx.stream import Streams, streams
from atcpy.ir import Graph
from atcpy.ir.decisions import PassCount
from atcpy.ir.origin import ModelWords
from atcpy.om.atomic import atomic_write
from atcpy.ops.custom import CustomOps
from atcpy.options import (
    OPTIONS,
    ConvertOptions,
    Framework,
    OoLevel,
    PassSwitches,
    convert_options,
    read_bool,
    read_int,
    read_names,
)
from atcpy.options import Stage as StageName
from atcpy.parsers.onnx.reader import ModelFile, read_model
from atcpy.parsers.parsed import ParsedModel
from atcpy.passes.base import Pass, check_switches, passes_of
from atcpy.stages.collector import collector_paused
from atcpy.stages.parse import parse
from atcpy.stages.prepare import prepare, prepare_bodies

_EXTERNAL = onnx.TensorProto.EXTERNAL


@dataclass(frozen=True, kw_only=True)
class RewriteOptions:
    """What `optimize` is asked for: the options that it shares with `convert`, and its own. `only` are the passes to
    run beside those that every model needs; none named are all.
    """

    shared: ConvertOptions = field(default_factory=ConvertOptions)
    only: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    verify: bool = True
    checks: int = 1


@dataclass(frozen=True, slots=True)
class ModelCount:
    """A model in numbers; `ops` without Constant, those of bodies included."""

    nodes: int
    bytes: int
    ops: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the result was compared with the source: by whom, at which sizes; or `why` not."""

    verified: bool
    oracle: str = ""
    shapes: tuple[str, ...] = ()
    max_abs: float = 0.0
    why: str = ""
    error: AtcError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeReport:
    """What became of the model; the fields are those of `optimize --json`."""

    output: str
    before: ModelCount
    after: ModelCount
    opset: int
    applied: tuple[PassCount, ...]
    verified: bool
    oracle: str = ""
    shapes: tuple[str, ...] = ()
    max_abs: float = 0.0
    external_data: str = ""
    warnings: tuple[AtcWarning, ...] = ()


# Compares the source with what became of it, from when that is known on.
Compare = Callable[[ParsedModel, Rewritten], Verdict]
Check = Callable[[Path | onnx.ModelProto, ModelFile, RewriteOptions], AbstractContextManager[Compare]]


def rewrite_options(values: Mapping[str, object] | None = None) -> RewriteOptions:
    """The record for what the user gave: names with `-` or `_`; None is the default."""
    given = {name.replace("-", "_"): value for name, value in (values or {}).items() if value is not None}
    own = {name: given.pop(name) for name in ("passes", "keep", "verify", "check") if name in given}
    for name, shared in (("level", "oo_level"), ("skip", "skip_pass")):
        if name in given:
            given[shared] = given.pop(name)
    refused = [name for name in given if name in OPTIONS and name not in SHARED]
    if refused:
        raise UsageError("E10001", f'optimize has no option "{refused[0]}"', hint=did_you_mean(refused[0], SHARED))
    return RewriteOptions(
        shared=convert_options(given),
        only=read_names("passes", own["passes"]) if "passes" in own else (),
        keep=read_names("keep", own["keep"]) if "keep" in own else (),
        verify=read_bool("verify", own.get("verify", True)),
        checks=read_int("check", own.get("check", 1), 1, 100),
    )


SHARED = (
    "input_shape", "oo_level", "skip_pass", "max_const", "max_growth", "allow_hardlinks", "memory_limit", "timeout",
    "threads", "debug",
)  # fmt: skip


@collector_paused()
def optimize_onnx(
    model: Path | onnx.ModelProto,
    target: Path,
    options: RewriteOptions,
    check: Check | None = None,
    step: Callable[[str], None] = lambda text: None,
) -> OptimizeReport:
    """Writes the optimised model to `target`, if `check` does not find that it computes something else."""
    _check_names(options)
    step("parse")
    file = read_model(model, allow_hardlinks=options.shared.parse.allow_hardlinks)
    verdict = Verdict(verified=False, why="--no-verify")
    with check(model, file, options) if check is not None and options.verify else nullcontext() as compare:
        parsed = _parse(file, options)
        words = parsed.words
        assert words is not None
        before = _count_source(words)
        step("optimize")
        rewritten, applied, warnings = _best(file, parsed, before.nodes, options)
        if compare is not None:
            step("verify")
            verdict = compare(parsed, rewritten)
            if verdict.error is not None:
                raise verdict.error
            if not verdict.verified:
                warnings.append(AtcWarning("W0041", f"not verified: {verdict.why}"))
    step("write")
    data_name = f"{target.name}.data"
    parts = streams(rewritten, data_name, external=words.is_external)
    _write(target, data_name, parts)
    return OptimizeReport(
        output=str(target),
        before=before,
        after=ModelCount(rewritten.ops.total(), parts.nbytes, dict(sorted(rewritten.ops.items()))),
        opset=_opset(rewritten.model),
        applied=applied,
        verified=verdict.verified,
        oracle=verdict.oracle,
        shapes=verdict.shapes,
        max_abs=verdict.max_abs,
        external_data=data_name if parts.data else "",
        warnings=(*parsed.warnings, *warnings),
    )


def _parse(file: ModelFile, options: RewriteOptions) -> ParsedModel:
    asked = replace(options.shared.parse, for_export=True, keep=options.keep, framework=Framework.ONNX)
    parsed = parse(file, asked, CustomOps())
    assert parsed.words is not None
    missing = [name for name in options.keep if name not in parsed.words.kept]
    if missing:
        names = [origin.proto.name for origin in parsed.words.origins.values()]
        hint = did_you_mean(missing[0], names)
        raise UsageError("E10016", f'--keep: there is no node "{missing[0]}" in the model', hint=hint)
    return parsed


def _check_names(options: RewriteOptions) -> None:
    shared = options.shared
    check_switches(shared.prepare.switches, (*shared.skipped_passes, *options.only))
    known = {entry.name: entry for entry in passes_of(StageName.PREPARE)}
    for name in options.only:
        if name not in known or not known[name].is_neutral:
            what = f"--passes: {name} does not run in optimize: its result serves our own kernels only"
            raise UsageError("E10001", what, hint="atcpy passes list")


# --------------------------------------------------------------------------------------------------------------------
# The rewriting, and what is done when it fails


def _best(
    file: ModelFile, parsed: ParsedModel, nodes: int, options: RewriteOptions
) -> tuple[Rewritten, tuple[PassCount, ...], list[AtcWarning]]:
    """The model by all passes that are asked for; if that cannot be written or is larger, by the required ones alone;
    else as it was.
    """
    assert parsed.words is not None
    why = ""
    attempts = [options, _required_only(options)]
    while attempts:
        attempt = attempts.pop(0)
        if attempt is not options:
            parsed = _parse(file, options)
        try:
            rewritten = rewrite(parsed, attempt)
        except CannotExport as error:
            why = why or str(error)
            continue
        if attempt is options and (avoidable := rewritten.raised_by & _optional_passes()):
            attempts.insert(0, _without(options, avoidable))  # the model's opset is worth more than a few nodes
            continue
        made = rewritten.ops.total()
        if made > nodes:
            why = why or f"it would have {made} nodes instead of {nodes}"
            continue
        warnings = [AtcWarning("W0042", f"only required passes were run: {why}")] if why else []
        if rewritten.raised:
            opset = _opset(rewritten.model)
            warnings.append(AtcWarning("W0040", f"the opset is raised to {opset} for {rewritten.raised}"))
        return rewritten, _applied(parsed.graph), warnings
    return unchanged(parsed), (), [AtcWarning("W0042", f"the model is written as it was: {why}")]


def _optional_passes() -> frozenset[str]:
    return frozenset(entry.name for entry in passes_of(StageName.PREPARE) if not entry.required)


def _without(options: RewriteOptions, names: Iterable[str]) -> RewriteOptions:
    shared = options.shared
    switches = PassSwitches(named=dict.fromkeys(sorted(names), False)).over(shared.prepare.switches)
    return replace(options, shared=replace(shared, prepare=replace(shared.prepare, switches=switches)))


def _required_only(options: RewriteOptions) -> RewriteOptions:
    shared = options.shared
    return replace(options, shared=replace(shared, prepare=replace(shared.prepare, level=OoLevel.O1)))


def rewrite(parsed: ParsedModel, options: RewriteOptions) -> Rewritten:
    """Runs the engine-neutral passes over a graph that was read for this, and exports it."""
    shared, words = options.shared, parsed.words
    assert words is not None
    opset = _opset(words.model)

    def wanted(entry: Pass) -> bool:
        asked = not options.only or entry.required or entry.name in options.only
        return asked and entry.is_neutral and all(onnx.defs.has(op_type, opset) for op_type in entry.makes)

    deadline = shared.limits.deadline()
    run = partial(prepare, options=shared.prepare, deadline=deadline, verify_ir=shared.verify_ir, wanted=wanted)
    run(parsed.graph)
    prepare_bodies(parsed.graph, run)
    return export_in_words(parsed.graph, words, retyped=bool(shared.parse.input_shape))


def unchanged(parsed: ParsedModel) -> Rewritten:
    """The model as it was read."""
    words = parsed.words
    assert words is not None
    source = words.model
    made = Rewritten(onnx.ModelProto())
    made.model.CopyFrom(source)
    made.ops = _ops(source)
    del made.model.graph.initializer[:]
    for index, proto in enumerate(source.graph.initializer):
        if proto.data_location == _EXTERNAL:
            plain = onnx.TensorProto(name=proto.name, data_type=proto.data_type, dims=proto.dims)
            made.constants.append(Constant(plain, words.read(proto)))
        else:
            made.constants.append(Constant(proto, words.inline.get(index)))
    return made


# --------------------------------------------------------------------------------------------------------------------
# Counting and writing


def _applied(graph: Graph) -> tuple[PassCount, ...]:
    return tuple(PassCount(*count) for count in graph.decisions.counts() if count[2])


def _count_source(words: ModelWords) -> ModelCount:
    """The model as its files have it, but for functions, which are inlined."""
    tensors = words.model.graph.initializer if words.is_external else ()
    external = sum(len(words.read(tensor)) for tensor in tensors if tensor.data_location == _EXTERNAL)
    return ModelCount(words.nodes, words.nbytes + external, dict(sorted(words.ops.items())))


def _ops(model: onnx.ModelProto) -> Counter[str]:
    counts: Counter[str] = Counter()
    pending = [model.graph]
    while pending:
        for node in pending.pop().node:
            counts[node.op_type] += 1
            for attr in node.attribute:
                pending += [attr.g] if attr.type == onnx.AttributeProto.GRAPH else attr.graphs
    counts.pop("Constant", None)
    return counts


def _opset(model: onnx.ModelProto) -> int:
    return next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)


def _write(target: Path, data_name: str, parts: Streams) -> None:
    """The data first: a model never stands beside data that are not its own for longer than a rename takes."""
    if parts.data:
        atomic_write(target.with_name(data_name), parts.data)
    atomic_write(target, parts.model)
