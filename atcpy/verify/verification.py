"""Verifies a package: runs it and its model, by an oracle, on the same inputs, and compares each output."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from atcpy import InferenceSession
from atcpy.errors import AtcError, AtcWarning, Unsupported, UsageError, Where, group, raise_os_error
from atcpy.files import open_file
from atcpy.ir import DType, Source
from atcpy.ir.decisions import Precision
from atcpy.om.signature import PublicKeys
from atcpy.ops.custom import CustomOps
from atcpy.options import ParseOptions, default_threads, recorded_loop
from atcpy.parsers.onnx import read_model
from atcpy.parsers.onnx.reader import ModelFile
from atcpy.stages.parse import names_tensorflow
from atcpy.verify.compare import OutputReport, Tolerance, compare_all, paired
from atcpy.verify.float64 import evaluate_in_float64, recheck
from atcpy.verify.inputs import Array, Feeds, Fill, Port, integer_bounds, make_feeds, session_ports, value_dims
from atcpy.verify.iterated import iterated, require_loop
from atcpy.verify.labels import Classes, label_outputs, other_feeds
from atcpy.verify.oracle import (
    FindOracle,
    Oracle,
    OracleRequest,
    RememberingOracles,
    behind_random,
    find_oracle,
    missing_inputs,
)  # fmt: skip
from atcpy.verify.picture_feeds import PictureFeeds
from atcpy.verify.precision import coarsest, half_values_of_model
from atcpy.verify.quantization import quantization_steps
from atcpy.verify.sizes import TRIALS, describe, find_sums, is_open, more_trials, trials, with_known, with_sizes

if TYPE_CHECKING:  # most runs compare outputs only
    from atcpy.verify.layers import Culprit, LayerComparison, Layers, Location
    from atcpy.verify.suggestion import Conversion, Suggestion


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What was compared with what; the fields are those of `verify --json`."""

    passed: bool
    oracle: str
    against: str
    inputs: str
    same_source: bool
    outputs: tuple[OutputReport, ...]
    shapes: tuple[str, ...] = ()  # at which a package of open dims was run
    layers: "Layers | None" = None
    culprit: "Culprit | None" = None
    location: "Location | None" = None  # if a culprit was looked for
    of_one_class: tuple[str, ...] = ()  # outputs of which no random input reached a second class
    lowered: int = 0  # nodes of the model that compute in another type by the precision mode
    suggestion: "Suggestion | None" = None  # if nodes to keep were looked for

    @property
    def warnings(self) -> list[AtcWarning]:
        """What the comparison does not say."""
        return [
            AtcWarning("W0043", f'output "{name}" is of one class for all inputs: no other was compared')
            for name in self.of_one_class
        ]

    @property
    def error(self) -> AtcError | None:
        """One error for all outputs that failed."""
        found = (output.problem(self._hint) for output in self.outputs)
        problems = [problem for problem in found if problem is not None]
        return group(problems) if problems else None

    @property
    def _hint(self) -> str:
        """The commands that say more of a failure, without those that were asked for already."""
        if self.suggestion is not None and self.suggestion.path:
            return f"convert it with --keep_dtype={self.suggestion.path}"
        commands = []
        if self.location is None:
            commands.append(("atcpy verify F.om --locate", "the node that errs"))
        if self.lowered and self.suggestion is None:
            commands.append(("atcpy verify F.om --suggest KEEP.cfg", "the nodes to keep in float32"))
        if self.location is None or self.culprit is not None:
            commands.append(("atcpy passes bisect M.onnx", "the pass"))
        if not commands:
            return "--atol and --rtol set what is allowed"
        (command, finds), *others = commands
        return ", ".join([f"{command} finds {finds}", *map(" ".join, others)])


def verify(
    package: Path,
    against: Path | None = None,
    *,
    fill: Fill = Fill(),  # noqa: B008
    feeds: Mapping[str, object] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    tolerance: Tolerance = Tolerance(),  # noqa: B008
    oracle: str | None = None,
    threads: int | None = None,
    allow_hardlinks: bool = False,
    custom: CustomOps = CustomOps(),  # noqa: B008
    step: Callable[[str], None] = lambda text: None,
    find: FindOracle | None = None,
    require_signature: PublicKeys | None = None,
    layers: bool = False,
    locate: bool = False,
    suggest: Path | None = None,
    aipp: Mapping[str, object] | None = None,
) -> VerifyReport:
    """Compare `package` with the model `against`, by default the recorded one beside it. Dims that are open get the
    sizes of `shapes`, or those of three trials that the oracle accepts. Nodes of `custom` operators are computed by
    `forward` where ONNX Runtime cannot run the model. Callers that verify many packages of one model pass a
    `RememberingOracles` as `find`. `layers` compares at the borders of tasks as well, and `locate` finds the node that
    errs if an output fails: at the first sizes at which one does. `suggest` is a file to write: the lowered nodes that
    must keep their types for the outputs to pass. `aipp`: settings of dynamic AIPP by input.
    Inputs with AIPP are fed as pictures; the oracle gets what numpy makes of them by these settings.
    """
    step("loading the package")
    session = InferenceSession(package, threads=threads, require_signature=require_signature)
    common = {"threads": threads, "allow_hardlinks": allow_hardlinks}
    conversion = None if suggest is None else _conversion(session, suggest, common)
    pictures = PictureFeeds.of(session, aipp)
    recorded = session.model.source.sha256
    path = against if against is not None else find_model(package, session.model.source)
    step("reading the model")
    chosen_feeds: Feeds = dict(feeds) if feeds is not None else {}  # type: ignore[arg-type]
    ports = [
        port
        for port in with_sizes(pictures.ports(session_ports(session)), shapes or {})
        if port.name not in chosen_feeds
    ]
    names = [output.name for output in session.get_outputs()]
    if names_tensorflow(path, ParseOptions()):
        from atcpy.verify.tensorflow import find_tensorflow_oracle

        case = _Case(*find_tensorflow_oracle(path, session.model.cmdline, names, oracle))
    else:
        case = _onnx_case(session, path, names, oracle, threads or default_threads(), custom, find, allow_hardlinks)
    loop = recorded_loop(session.model.cmdline)
    if loop is not None:
        if pictures.inputs:
            what = "verify of a package with AIPP and a loop is not supported"
            raise Unsupported("E10055", what, hint="verify one that is converted without --insert_op_conf")
        require_loop(session, loop)
        case = replace(case, oracle=iterated(case.oracle, loop), file=None)
    lowered = session.model.graph.decisions.precision
    case = replace(case, precision=coarsest(case.precision, lowered.outputs))
    runs = _Trials(session, case, names, tolerance, lowered, pictures, step)
    refused = runs.run(ports, chosen_feeds, fill)
    if refused is not None and case.file is not None and oracle is None and case.oracle.name.startswith("onnxruntime"):
        # ONNX Runtime opens models that it cannot run.
        step("running the reference evaluator")
        request = OracleRequest(path, case.file.model, names, "ref", threads or default_threads(), case.custom)
        by_reference = replace(case, oracle=(find or find_oracle)(request))
        runs = _Trials(session, by_reference, names, tolerance, lowered, pictures, step)
        if runs.run(ports, chosen_feeds, fill) is None:
            case, refused = by_reference, None
    if refused is not None:
        if any(map(is_open, ports)) and refused.code == "V0003":
            refused.hint = f"say which sizes it takes: {' '.join(map(_shape_option, filter(is_open, ports)))}"
        raise refused
    worst = tuple(max(column, key=_badness) for column in _by_output(runs.reports))
    how = (
        "given"
        if feeds is not None and not ports
        else f"{fill.kind}:{fill.seed}"
        if fill.kind == "random"
        else fill.kind
    )
    passed = all(output.passed for reports in runs.reports for output in reports)
    shown = tuple(runs.sizes) if any(map(is_open, ports)) else ()
    one_class = runs.classes.of_one if ports and fill.kind == "random" else ()
    report = VerifyReport(
        passed, case.oracle.name, str(path), how, case.sha256 == recorded, worst, shown, of_one_class=one_class,
        lowered=len(lowered.lowered),
    )  # fmt: skip
    if not layers and not locate and suggest is None:
        return report
    fed = next(
        (feeds for feeds, reports in zip(runs.feeds, runs.reports, strict=True) if not all(o.passed for o in reports)),
        runs.feeds[0],
    )
    comparison = _comparison(runs, fed, oracle)
    if layers or locate:
        report = replace(report, layers=comparison.layers)
    if locate and not passed:
        culprit, location = comparison.locate()
        report = replace(report, culprit=culprit, location=location)
    if conversion is not None and suggest is not None:
        again = partial(
            verify, against=path, fill=fill, feeds=feeds, shapes=shapes, tolerance=tolerance, oracle=oracle,
            threads=threads, allow_hardlinks=allow_hardlinks, custom=custom, find=find or RememberingOracles(),
        )  # fmt: skip
        report = replace(report, suggestion=_suggestion(report, comparison, conversion, again, suggest, step))
    return report


def _conversion(session: InferenceSession, target: Path, common: Mapping[str, object]) -> "Conversion":
    """How the package was converted, if nodes to keep can be looked for and written."""
    from atcpy.om.atomic import require_writable
    from atcpy.verify.suggestion import Conversion

    conversion = Conversion.of(session, common)
    require_writable(target)
    return conversion


def _suggestion(
    report: VerifyReport,
    comparison: "LayerComparison",
    conversion: "Conversion",
    again: Callable[[Path], VerifyReport],
    target: Path,
    step: Callable[[str], None],
) -> "Suggestion":
    from atcpy.verify.suggestion import not_needed, suggest_kept

    if report.passed:
        return not_needed(conversion, report.outputs)
    if not report.same_source:
        what = f"--suggest: {report.against} is not the file that the package was made from"
        raise UsageError("E10054", what, where=Where(option="suggest"), hint="--against its model")
    # Inner values are of another scale than the outputs that a bound of the user is for.
    layers = replace(comparison, tolerance=Tolerance()).own_errors()
    return suggest_kept(Path(report.against), conversion, layers, again, target, step)


@dataclass
class _Trials:
    """Runs a package and its oracle at several sizes, and compares the outputs. Callers of the package feed and get
    some values in other types than the model has: `lowered` has their names. Inputs with AIPP are fed as `pictures`.
    """

    session: InferenceSession
    case: "_Case"
    names: Sequence[str]
    tolerance: Tolerance
    lowered: Precision
    pictures: PictureFeeds
    step: Callable[[str], None]
    reports: list[tuple[OutputReport, ...]] = field(default_factory=list)
    feeds: list[Feeds] = field(default_factory=list)  # of each report
    sizes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.classes = Classes(self.case.labels)

    def run(self, ports: Sequence[Port], chosen_feeds: Feeds, fill: Fill) -> AtcError | None:
        """Run; return why the oracle runs at no sizes."""
        sums = self._sums(ports)
        refused = self._run_trials(trials(ports, sums), ports, chosen_feeds, fill)
        if not self.reports:
            self._run_trials(more_trials(ports, sums), ports, chosen_feeds, fill)
        return None if self.reports else refused

    def _sums(self, ports: Sequence[Port]) -> Mapping[str, Sequence[int | str]]:
        if self.case.file is None:
            return {}
        named = session_ports(self.session)
        in_model = {value.name: value_dims(value) for value in self.case.file.model.graph.output}
        sums = find_sums(named, in_model, {arg.name: arg.shape or () for arg in self.session.get_outputs()})
        return with_known(sums, named, ports)

    def _run_trials(
        self, sizes: Iterable[Sequence[Port]], ports: Sequence[Port], chosen_feeds: Feeds, fill: Fill
    ) -> AtcError | None:
        """Run at the first few of these sizes that the oracle takes; return why it refused the last that it did not."""
        refused: AtcError | None = None
        for sized in sizes:
            try:
                self._run_both(sized, {**chosen_feeds, **make_feeds(sized, fill, self.case.bounds)})
            except AtcError as error:
                refused = error
                continue
            self.sizes.append(describe(sized))
            if ports and fill.kind == "random":
                self._look_for_classes(sized, chosen_feeds, fill)
            if len(self.sizes) == TRIALS and not any(port.gears for port in ports):
                break
        return refused

    def _run_both(self, sized: Sequence[Port], fed: Feeds) -> None:
        """Compare the outputs for these inputs. Raises AtcError if the oracle cannot run them."""
        self.step(f"running the oracle {describe(sized)}")
        in_model = self.model_feeds(fed)
        expected = self.case.oracle.run(in_model, self.names)
        self.step("running the package")
        actual = self.session.run(self.names, self.pictures.package_feeds(fed))
        for name, array in zip(self.names, expected, strict=True):
            self.classes.note(name, array)
        self.reports.append(self._compare(in_model, actual, expected))
        self.feeds.append(fed)

    def _look_for_classes(self, sized: Sequence[Port], chosen_feeds: Feeds, fill: Fill) -> None:
        others = other_feeds(sized, fill, self.case.bounds)
        while self.classes.of_one and (inputs := next(others, None)) is not None:
            with suppress(AtcError):
                self._run_both(sized, {**chosen_feeds, **inputs})

    def model_feeds(self, fed: Feeds) -> Feeds:
        """What the model is fed: the same values in its types, and what AIPP makes of pictures."""
        return {
            name: np.asarray(value, np.float32) if name in self.lowered.float16_inputs else value
            for name, value in self.pictures.model_feeds(fed).items()
        }

    def _compare(self, fed: Feeds, actual: Sequence[object], expected: Sequence[object]) -> tuple[OutputReport, ...]:
        case = self.case
        pairs = [
            (name, a, e.astype(a.dtype) if name in self.lowered.cast_outputs else e)
            for name, a, e in paired(self.names, actual, expected)
        ]
        outputs = compare_all(pairs, self.tolerance, random=case.random, steps=case.steps, precision=case.precision)
        final = {
            output.name
            for output in outputs
            if self.tolerance.is_of_user(case.precision.get(output.name, DType.FLOAT32))
        }
        return recheck(outputs, pairs, partial(case.exact, fed), partial(case.oracle.run_optimised, fed), final=final)


def _comparison(runs: _Trials, fed: Feeds, oracle: str | None) -> "LayerComparison":
    from atcpy.verify.evaluation import ModelEvaluator
    from atcpy.verify.layers import LayerComparison
    from atcpy.verify.precision import values_of_package

    case = runs.case
    if case.file is None:
        what = "--layers, --locate and --suggest need the values of an ONNX model that a run of the package runs once"
        raise Unsupported("E10055", what, hint="verify without them")
    own = values_of_package(runs.session.model.graph)
    return LayerComparison(
        session=runs.session,
        evaluator=ModelEvaluator(case.file, oracle, case.custom),
        feeds=runs.pictures.package_feeds(fed),
        model_feeds=runs.model_feeds(fed),
        tolerance=runs.tolerance,
        skipped=case.random,
        precision={**own, **case.precision},
        steps=case.steps,
        step=runs.step,
    )


@dataclass(frozen=True, slots=True)
class _Case:
    """The oracle, the hash of the model, and what the model says about its values."""

    oracle: Oracle
    sha256: str
    bounds: Mapping[str, int] = field(default_factory=dict)
    random: frozenset[str] = frozenset()
    steps: Mapping[str, float] = field(default_factory=dict)
    custom: CustomOps = CustomOps()  # noqa: RUF009
    labels: frozenset[str] = frozenset()
    precision: Mapping[str, DType] = field(default_factory=dict)
    file: ModelFile | None = None  # of an ONNX model that a run of the package runs once

    def exact(self, feeds: Feeds) -> Mapping[str, Array] | None:
        """The outputs in float64, if they can be computed so."""
        if self.oracle.exact is not None:
            return self.oracle.exact(feeds)
        assert self.file is not None
        assert self.file.path is not None
        return evaluate_in_float64(self.file.path, feeds, custom=self.custom)


def _onnx_case(
    session: InferenceSession,
    path: Path,
    names: Sequence[str],
    oracle: str | None,
    threads: int,
    custom: CustomOps,
    find: FindOracle | None,
    allow_hardlinks: bool,
) -> _Case:
    file = read_model(path, allow_hardlinks=allow_hardlinks)
    if missing := missing_inputs(file.model, {port.name for port in session.get_inputs()}):
        what = f'{path} has an input "{missing[0]}" that the package has not'
        raise UsageError("E10404", what, where=Where(file=str(path)), hint="give the model it was made from")
    # The model's own functions are the reference; operators registered for them are what is verified.
    custom = custom.sparing((function.domain, function.name) for function in file.model.functions)
    found = (find or find_oracle)(OracleRequest(path, file.model, names, oracle, threads, custom))
    return _Case(
        found,
        file.source.sha256,
        integer_bounds(file.model),
        behind_random(file.model, custom),
        quantization_steps(file.model),
        custom,
        label_outputs(file.model),
        half_values_of_model(file, custom),
        file,
    )


def _shape_option(port: Port) -> str:
    sizes = ",".join(str(dim) if isinstance(dim, int) else "1" for dim in port.shape)
    return f'--shape "{port.name}={sizes}"'


def _badness(output: OutputReport) -> tuple[bool, float]:
    return not output.passed, output.max_abs / (output.atol or 1.0)


def _by_output(trial_reports: Sequence[tuple[OutputReport, ...]]) -> Iterator[list[OutputReport]]:
    """Group the reports of all trials by output; the number of elements of a sequence may vary."""
    by_name: dict[str, list[OutputReport]] = {}
    for reports in trial_reports:
        for output in reports:
            by_name.setdefault(output.name, []).append(output)
    yield from by_name.values()


def find_model(package: Path, source: Source) -> Path:
    """Find the model beside a package by the name of the package, if its hash is that of the source: `<stem>.onnx`; of
    TensorFlow `<stem>.pb`, `<stem>.pbtxt`, the folder `<stem>` or the checkpoint `<stem>.meta`.
    """
    is_onnx = source.framework == "onnx"
    paths = [package.with_suffix(end) for end in ((".onnx",) if is_onnx else (".pb", ".pbtxt", "", ".meta"))]
    there = [path for path in paths if path.exists()]
    for path in there:
        if (_digest if is_onnx else _tensorflow_digest)(path) == source.sha256:
            return path
    if there:
        what = f"{there[0]} is not the file that {package.name} was made from"
    else:
        names = [path.name for path in paths[:-1]]
        what = f"there is no {' or '.join(filter(None, (', '.join(names), paths[-1].name)))} beside {package}"
    hint = "name the model: --against " + ("MODEL.onnx" if is_onnx else "MODEL, its .pb, folder or checkpoint")
    raise UsageError("E10054", what, where=Where(file=str(package)), hint=hint)


def _digest(path: Path) -> str:
    try:
        with open_file(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise_os_error(error, str(path))


def _tensorflow_digest(path: Path) -> str:
    from atcpy.parsers.tensorflow import is_tensorflow
    from atcpy.parsers.tensorflow.reader import digest_of

    return digest_of(path) if is_tensorflow(path) else ""
