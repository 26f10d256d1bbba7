"""The trials of `passes bisect`: compile a model with some passes off, and check the package."""

from __future__ import annotations

import hashlib
import json
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from atcpy import __version__
from atcpy.debug.bisect import Applied, Outcome, Trial, applied_in
from atcpy.errors import AtcError, ResourceLimit, UsageError, Where, as_known_error
from atcpy.files import parse_json, read_text
from atcpy.ir import Decisions, Graph
from atcpy.ir.decisions import Moment
from atcpy.ir.tensor import Array
from atcpy.om import writer
from atcpy.om.atomic import atomic_write
from atcpy.options import OPTIONS, convert_options
from atcpy.stages.pipeline import Observer, compile_model

_STATE = "bisect.json"
_STDERR = 2
_FEW_NODES, _FEW_BYTES = 32, 8 << 20  # a part beyond both is large

Feeds = Mapping[str, Array]


class PackageCheck(Protocol):
    """Describes what is wrong with a package; an empty text if nothing is."""

    def whole(self, package: Path) -> str:
        """Check a package of the model."""

    def part(self, package: Path, model: Path, feeds: Any, *, is_large: bool) -> str:
        """Check a package of a part of the model; `feeds` are the part's inputs."""


@dataclass(frozen=True, slots=True)
class CommandCheck:
    """Runs the user's command on a package, its output on our stderr; its exit code is the answer."""

    command: str
    model: Path

    def whole(self, package: Path) -> str:
        """Run the command on a package of the model."""
        return self._run(package, self.model)

    def part(self, package: Path, model: Path, feeds: Any, *, is_large: bool) -> str:
        """Run the command on a package of a part."""
        return self._run(package, model)

    def _run(self, package: Path, model: Path) -> str:
        words = shlex.split(self.command)
        if not any("{}" in word for word in words):
            words.append("{}")
        words = [word.replace("{model}", str(model)).replace("{}", str(package)) for word in words]
        try:
            code = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=_STDERR, check=False).returncode
        except OSError as error:
            raise UsageError("E13001", f"--check: {words[0]} cannot be run: {error.strerror}") from error
        return f"{words[0]} ended with {code}" if code else ""


class _PassWatch(Observer):
    """Observes what the passes did, and which one is running, in a conversion that may fail."""

    def __init__(self) -> None:
        self.decisions = Decisions()
        self.running = ""

    def passing(self, name: str, graph: Graph, moment: Moment) -> None:
        """Keep the decisions of the graph."""
        self.decisions = graph.decisions
        self.running = name if moment is Moment.BEFORE else ""


@dataclass
class Trials:
    """Compiles `model` with some passes off, and checks the package. `refusal` is the error of the last trial, if a
    user can mend it.
    """

    model: Path
    options: Mapping[str, Any]
    check: PackageCheck
    memory: TrialMemory
    package: Path
    refusal: AtcError | None = field(default=None, init=False)

    def __call__(self, trial: Trial) -> Outcome:
        known = self.memory.find(trial)
        return known if known is not None else self.memory.keep(trial, self._run(trial))

    def _run(self, trial: Trial) -> Outcome:
        self.refusal = None
        options = dict(self.options)
        skipped = OPTIONS["skip_pass"].read("skip_pass", options.get("skip_pass") or ())
        options["skip_pass"] = [*skipped, *trial.off]
        limits = OPTIONS["pass_limit"].read("pass_limit", options.get("pass_limit") or {})
        options["pass_limit"] = {**limits, **trial.limits}
        watch = _PassWatch()
        try:
            compiled, report = compile_model(self.model, convert_options(options), watch)
        except ResourceLimit:
            raise
        except Exception as error:  # noqa: BLE001  a pass may raise anything: such passes are searched for
            self.refusal = error if isinstance(error, AtcError) else None
            before = applied_in(watch.decisions, watch.running)
            return Outcome(False, _refused(error), before)
        writer.write(self.package, compiled)
        why = self.check.whole(self.package)
        applied = None if report.unknown_shapes else applied_in(compiled.graph.decisions)
        return Outcome(not why, why, applied)


def fault_of_part(
    part: Path, options: Mapping[str, Any], feeds: Feeds, node_count: int, check: PackageCheck, package: Path
) -> str:
    """Compile the model `part`, and describe what is wrong with the package, if anything."""
    try:
        compiled, _ = compile_model(part, convert_options(options))
    except ResourceLimit:
        raise
    except Exception as error:  # noqa: BLE001  as in Trials
        return _refused(error)
    writer.write(package, compiled)
    is_large = node_count > _FEW_NODES and part.stat().st_size > _FEW_BYTES
    return check.part(package, part, feeds, is_large=is_large)


def _refused(error: Exception) -> str:
    known = as_known_error(error)
    return f"{known.code}: {known.what}"


class TrialMemory:
    """The outcomes of the trials so far, in `bisect.json`: `--resume` continues from there. `identity` is all that an
    outcome depends on.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any], *, resume: bool) -> None:
        self._path = folder / _STATE
        self._identity = {"atcpy": __version__, **identity}
        self._outcomes: dict[str, Outcome] = {}
        if resume:
            self._load()

    def _load(self) -> None:
        try:
            state = parse_json(read_text(self._path))
        except FileNotFoundError:
            what = f"--resume: there is no {self._path}"
            raise UsageError("E10410", what, where=Where(file=str(self._path)), hint="start without it") from None
        except (OSError, ValueError) as error:
            raise UsageError("E13005", f"--resume: {self._path} cannot be read", hint="start without it") from error
        if (
            not isinstance(state, dict)
            or state.get("of") != self._identity
            or not isinstance(state.get("outcomes"), dict)
        ):
            what = f"--resume: {self._path} is of another model, other options or another version"
            raise UsageError("E10032", what, where=Where(file=str(self._path)), hint="start without it")
        try:
            self._outcomes = {key: _outcome(record) for key, record in state["outcomes"].items()}
        except (KeyError, TypeError, AttributeError) as error:
            what = f"--resume: {self._path} is damaged"
            raise UsageError("E13005", what, where=Where(file=str(self._path)), hint="start without it") from error

    def find(self, trial: Trial) -> Outcome | None:
        """The outcome of this trial, if it ran before."""
        return self._outcomes.get(_key(trial))

    def keep(self, trial: Trial, outcome: Outcome) -> Outcome:
        """Store an outcome, and return it."""
        self._outcomes[_key(trial)] = outcome
        records = {key: asdict(each) for key, each in self._outcomes.items()}
        atomic_write(self._path, [json.dumps({"of": self._identity, "outcomes": records}).encode()])
        return outcome


def _outcome(record: Mapping[str, Any]) -> Outcome:
    """Return a stored outcome. Raises KeyError, TypeError or AttributeError for what nobody stored."""
    applied = record["applied"]
    passes = None if applied is None else {name: _applied(entry) for name, entry in applied.items()}
    return Outcome(bool(record["good"]), str(record["why"]), passes)


def _applied(entry: Mapping[str, Any]) -> Applied:
    fired = tuple(tuple(tuple(node) for node in match) for match in entry["fired"])
    return Applied(entry["count"], entry["numbered"], fired)


def _key(trial: Trial) -> str:
    return json.dumps(asdict(trial))


def digest_of(feeds: Feeds) -> str:
    """A hash of inputs by name."""
    digest = hashlib.sha256()
    for name, array in sorted(feeds.items()):
        digest.update(f"{name} {array.dtype} {array.shape} ".encode() + array.tobytes())
    return digest.hexdigest()
