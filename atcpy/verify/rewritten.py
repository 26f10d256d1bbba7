"""Is an optimised model equal to its source? Both run in ONNX Runtime, as they are written, on the same inputs.

ONNX Runtime reads large constants where they are, in the mapped file of the source or in the memory of a pass: neither
model is written to disk for this, and no weight is copied.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol

import onnx

from atcpy.errors import AtcError, ModelInvalid, VerifyFailed, group
from atcpy.ir import Source
from atcpy.options import default_threads
from atcpy.parsers.onnx.reader import ModelFile
from atcpy.parsers.parsed import ParsedModel
from atcpy.rewrite.export import RewrittenModel
from atcpy.rewrite.optimize import Compare
from atcpy.rewrite.options import RewriteOptions
from atcpy.rewrite.report import Verdict
from atcpy.rewrite.source_model import SourceModel
from atcpy.verify import stepwise
from atcpy.verify.compare import Tolerance, compare_all, paired
from atcpy.verify.float64 import evaluate_in_float64, recheck
from atcpy.verify.inputs import Feeds, Port, feeds_of, model_ports
from atcpy.verify.oracle import RANDOM, behind_random, first_line, ort_errors, too_new
from atcpy.verify.ort import load_onnxruntime
from atcpy.verify.quantization import quantization_steps
from atcpy.verify.sessions import constants_of, open_session, open_whole
from atcpy.verify.sizes import describe, is_open, trials
from atcpy.verify.stepwise import Stepwise, stepwise_errors
from atcpy.verify.unchanged import is_unchanged


class EarlyRun(Protocol):
    """A model that runs elsewhere."""

    def outputs(self, sha256: str, names: Sequence[str], feeds: Feeds) -> list[Any] | None:
        """The outputs of the model of this hash for these inputs; None if it has others, or failed."""


# Runs the model in a file on its first inputs while the context lasts; the flag allows data files with hard links.
Begin = Callable[[Path, bool], AbstractContextManager[EarlyRun | None]]


@contextmanager
def check_rewritten(
    model: Path | onnx.ModelProto, file: ModelFile, options: RewriteOptions, *, begin: Begin | None = None
) -> Iterator[Compare]:
    """Compare the outputs of a model with those of the model that it is rewritten to. `begin` runs a large one in
    another process until its outputs are needed. Raises Unsupported (E10055) where ONNX Runtime is not installed.
    """
    load_onnxruntime(without="--no_verify")
    with _early_run(model, file, options, begin) as early:
        yield lambda parsed, source, rewritten: _check(model, parsed, source, rewritten, options, early)


def _check(
    model: Path | onnx.ModelProto,
    parsed: ParsedModel,
    source: SourceModel,
    rewritten: RewrittenModel,
    options: RewriteOptions,
    early: EarlyRun | None,
) -> Verdict:
    """`error` is set if the outputs differ, `why` if they could not be compared."""
    name = f"onnxruntime {load_onnxruntime().__version__}"
    why = too_new(source.model) or too_new(rewritten.model) or _not_fed(rewritten.model)
    if why:
        return Verdict(verified=False, why=why)
    if (run := _in_steps(parsed.source, source, rewritten, early)) is not None:
        with suppress(_NotInSteps):
            return replace(_compare(model, source, rewritten, run, options), oracle=name)
    threads = options.shared.threads or default_threads()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        opening = pool.submit(_open_source, model, source, folder, threads)
        opening_result = pool.submit(open_whole, rewritten.model, rewritten.constants, folder, threads)
        try:
            oracle = opening.result()
        except ModelInvalid as error:
            return Verdict(verified=False, why=error.what)
        try:
            result = opening_result.result()
        except ModelInvalid as error:
            raise VerifyFailed("V0001", f"the result cannot be opened: {error.what}") from error
        return replace(_compare(model, source, rewritten, _both(oracle, result), options), oracle=name)


def _open_source(model: Path | onnx.ModelProto, source: SourceModel, folder: str, threads: int) -> Any:
    try:
        return open_whole(
            source.model, constants_of(source.model, source.inline, source.read).values(), folder, threads
        )
    except ModelInvalid:
        if isinstance(model, Path) and source.is_external:
            return open_session(str(model), threads=threads)  # bodies have external data, too
        raise


def _early_run(
    model: Path | onnx.ModelProto, file: ModelFile, options: RewriteOptions, begin: Begin | None
) -> AbstractContextManager[EarlyRun | None]:
    """Begin to run a large model on inputs of the declared shapes, if there is a core for it."""
    has_cores = (options.shared.threads or default_threads()) > 1
    is_large = len(file.model.graph.node) >= stepwise.LARGE
    as_declared = not options.shared.parse.input_shape
    if begin is None or not (isinstance(model, Path) and is_large and has_cores and as_declared):
        return nullcontext()
    return begin(model, options.shared.parse.allow_hardlinks)


# Runs source and result on the same inputs.
RunBoth = Callable[[list[str], Feeds], tuple[list[Any], list[Any]]]


class _Refused(Exception):
    """Why the source does not run on these inputs."""


class _NotInSteps(Exception):
    """One of the models does not run node by node; as a whole it may."""


def _both(oracle: Any, result: Any) -> RunBoth:
    def run(names: list[str], feeds: Feeds) -> tuple[list[Any], list[Any]]:
        refusals: tuple[type[Exception], ...] = (ModelInvalid, *ort_errors())
        try:
            expected = oracle.run(names, feeds)
        except refusals as error:
            raise _Refused(first_line(error)) from error
        try:
            return expected, result.run(names, feeds)
        except refusals as error:
            what = f"the result fails where the source does not: {first_line(error)}"
            raise VerifyFailed("V0001", what) from error

    return run


def _in_steps(origin: Source, source: SourceModel, rewritten: RewrittenModel, early: EarlyRun | None) -> RunBoth | None:
    """Return a function that runs both node by node; None if they are small."""
    if len(source.model.graph.node) < stepwise.LARGE:
        return None
    constants = constants_of(source.model, source.inline, source.read)
    result = None
    if not is_unchanged(source.model, constants, rewritten):
        result = Stepwise(rewritten.model, {each.proto.name: each for each in rewritten.constants}, open_session)

    @cache
    def original() -> Stepwise:
        return Stepwise(source.model, constants, open_session)

    def run(names: list[str], feeds: Feeds) -> tuple[list[Any], list[Any]]:
        try:
            actual = result.run(names, feeds) if result is not None else None
            expected = early.outputs(origin.sha256, names, feeds) if early is not None else None
            if expected is None:
                expected = original().run(names, feeds)
            return expected, expected if actual is None else actual
        except stepwise_errors() as error:
            raise _NotInSteps from error

    return run


def _compare(
    model: Path | onnx.ModelProto,
    source: SourceModel,
    rewritten: RewrittenModel,
    run: RunBoth,
    options: RewriteOptions,
) -> Verdict:
    names = [info.name for info in source.model.graph.output]
    # Each of these walks the model, which is skipped where no op needs it.
    random = behind_random(source.model) if RANDOM.intersection(source.ops) else frozenset()
    steps = quantization_steps(source.model) if "DequantizeLinear" in source.ops else {}
    ports = model_ports(rewritten.model, {constant.proto.name for constant in rewritten.constants})
    tried: list[str] = []
    worst = 0.0
    refused = ""
    for sized in _sizes(ports, options.checks):
        feeds = feeds_of(source.model, sized, len(tried))
        try:
            expected, actual = run(names, feeds)
        except _Refused as error:
            refused = str(error)
            continue
        pairs = list(paired(names, actual, expected))
        outputs = compare_all(pairs, Tolerance(), random=random, steps=steps)
        checked = recheck(outputs, pairs, partial(_exact, model, feeds))
        hint = "atcpy passes bisect M.onnx finds the pass"
        problems = [problem for output in checked if (problem := output.problem(hint))]
        if problems:
            return Verdict(verified=False, error=group(problems))
        worst = max([worst, *(output.max_abs for output in outputs)])
        tried.append(describe(sized))
        if len(tried) == options.checks:
            break
    if not tried:
        hint = "; name sizes: --input_shape" if any(map(is_open, ports)) else ""
        return Verdict(verified=False, why=f"ONNX Runtime does not run the source: {refused}{hint}")
    return Verdict(verified=True, shapes=tuple(tried), max_abs=worst)


def _sizes(ports: Sequence[Port], checks: int) -> Iterator[list[Port]]:
    """The trials of `verify` for open dims; ports without open dims are fed `checks` times."""
    tried = list(trials(ports))
    yield from tried * checks if len(tried) == 1 else tried


def _exact(model: Path | onnx.ModelProto, feeds: Feeds) -> dict[str, Any] | None:
    try:
        return evaluate_in_float64(model, feeds)
    except AtcError:
        return None


# --------------------------------------------------------------------------------------------------------------------
# Inputs


def _not_fed(model: onnx.ModelProto) -> str:
    """Why no inputs can be generated for a model, or nothing."""
    for info in model.graph.input:
        if info.type.WhichOneof("value") != "tensor_type":
            return f'input "{info.name}" is no tensor'
    return ""
