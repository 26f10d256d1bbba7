"""Verify a package: the same inputs through it and through an oracle that runs its model, each output compared."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from atcpy import InferenceSession
from atcpy.errors import AtcError, UsageError, Where, group, raise_os_error
from atcpy.om import reader
from atcpy.options import default_threads
from atcpy.parsers.onnx import read_model
from atcpy.verify.arbiter import evaluate_in_float64, is_as_right
from atcpy.verify.compare import Array, OutputReport, Tolerance, compare, compare_kind
from atcpy.verify.inputs import Feeds, Fill, Port, integer_bounds, make_feeds
from atcpy.verify.oracle import behind_random, find_oracle, missing_inputs
from atcpy.verify.quantization import quantization_steps


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What was compared with what; the fields are those of `verify --json`."""

    passed: bool
    oracle: str
    against: str
    inputs: str
    same_source: bool
    outputs: tuple[OutputReport, ...]

    @property
    def error(self) -> AtcError | None:
        """One error for all outputs that failed."""
        problems = [problem for output in self.outputs if (problem := output.problem()) is not None]
        return group(problems) if problems else None


def verify(
    package: Path,
    against: Path | None = None,
    *,
    fill: Fill = Fill(),  # noqa: B008
    feeds: Mapping[str, object] | None = None,
    tolerance: Tolerance = Tolerance(),  # noqa: B008
    oracle: str | None = None,
    threads: int | None = None,
    allow_hardlinks: bool = False,
    step: Callable[[str], None] = lambda text: None,
) -> VerifyReport:
    """Compare `package` with the model `against`, by default the recorded one beside it."""
    step("loading the package")
    session = InferenceSession(package, threads=threads)
    recorded = reader.read_model(reader.read_package(package)).source.sha256
    path = against if against is not None else find_model(package, recorded)
    step("reading the model")
    file = read_model(path, allow_hardlinks=allow_hardlinks)
    ports = session_ports(session)
    given: Feeds = dict(feeds) if feeds is not None else {}  # type: ignore[arg-type]
    made = make_feeds((port for port in ports if port.name not in given), fill, integer_bounds(file.model))
    given = {**given, **made}
    if missing := missing_inputs(file.model, given):
        what = f'{path} has an input "{missing[0]}" that the package has not'
        raise UsageError("E10404", what, where=Where(file=str(path)), hint="give the model it was made from")
    names = [output.name for output in session.get_outputs()]
    step("running the oracle")
    judge = find_oracle(path, file.model, names, oracle, threads or default_threads())
    expected = judge.run(given, names)
    step("running the package")
    actual = session.run(names, given)
    random, steps = behind_random(file.model), quantization_steps(file.model)
    outputs = tuple(
        compare_kind(name, a, e)
        if name in random
        else compare(name, a, e, replace(tolerance, step=steps.get(name, 0.0)))
        for name, a, e in zip(names, actual, expected, strict=True)
    )
    if tolerance == Tolerance():
        outputs = _arbitrate(outputs, actual, expected, path, given)
    how = (
        "given"
        if feeds is not None and not made
        else f"{fill.kind}:{fill.seed}"
        if fill.kind == "random"
        else fill.kind
    )
    passed = all(output.passed for output in outputs)
    return VerifyReport(passed, judge.name, str(path), how, file.source.sha256 == recorded, outputs)


def _arbitrate(
    outputs: tuple[OutputReport, ...], actual: Sequence[Array], expected: Sequence[Array], path: Path, feeds: Feeds
) -> tuple[OutputReport, ...]:
    """Outputs that differ too much from the oracle's, judged once more against float64."""
    doubtful = [output.name for output in outputs if not output.passed and output.code == "V0001" and output.is_float32]
    exact = evaluate_in_float64(path, feeds) if doubtful else None
    if exact is None:
        return outputs
    return tuple(
        replace(output, passed=True, arbitrated=True)
        if output.name in doubtful and is_as_right(ours, theirs, exact[output.name], output.atol)
        else output
        for output, ours, theirs in zip(outputs, actual, expected, strict=True)
    )


def find_model(package: Path, recorded: str) -> Path:
    """`<stem>.onnx` beside the package, if it is the file that the package was made from."""
    path = package.with_suffix(".onnx")
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise _no_model(package, f"there is no {path.name} beside {package}") from None
    except OSError as error:
        raise_os_error(error, str(path))
    if digest != recorded:
        raise _no_model(package, f"{path} is not the file that {package.name} was made from")
    return path


def _no_model(package: Path, what: str) -> UsageError:
    return UsageError("E10054", what, where=Where(file=str(package)), hint="name the model: --against MODEL.onnx")


def session_ports(session: InferenceSession) -> list[Port]:
    """The inputs of a loaded package."""
    return [Port(arg.name, arg.dtype, tuple(arg.shape or ())) for arg in session.get_inputs()]
