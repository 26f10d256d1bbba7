"""The runs of `passes bisect`: compile with some passes off, and ask whether the package is right."""

from __future__ import annotations

import hashlib
import json
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atcpy import __version__
from atcpy.cli import custom_ops
from atcpy.cli.arrays import load_npz
from atcpy.cli.invocation import Invocation
from atcpy.debug import bisect as search
from atcpy.errors import (
    AtcError,
    InternalError,
    PackageCorrupt,
    ResourceLimit,
    Unsupported,
    UsageError,
    Where,
    as_known_error,
)
from atcpy.ir import CompiledModel, Decisions, Graph
from atcpy.ir.decisions import Moment
from atcpy.om import writer
from atcpy.om.atomic import atomic_write
from atcpy.ops.custom import CustomOps
from atcpy.options import OPTIONS, Stage, convert_options
from atcpy.report.record import dumps, to_json
from atcpy.stages.pipeline import compile_model
from atcpy.verify.inputs import Feeds, Fill
from atcpy.verify.oracle import FindOracle, Oracle, RememberingOracles, find_oracle
from atcpy.verify.verification import verify

if TYPE_CHECKING:
    import onnx

_STATE = "bisect.json"
_STDERR = 2
_FEW_NODES, _FEW_BYTES = 32, 8 << 20  # parts beyond both are judged without float64


@dataclass(frozen=True, kw_only=True)
class Request:
    """What `passes bisect` was asked."""

    model: Path
    check: str | None
    reduce: bool
    resume: bool
    directory: Path
    oracle: str | None
    seed: int
    feeds: Feeds
    custom: CustomOps
    given: Mapping[str, Any]


def request(
    run: Invocation,
    model: str,
    *,
    check: str | None,
    verify: bool,
    reduce: bool,
    resume: bool,
    output: str,
    oracle: str | None,
    seed: int,
    input_data: str | None,
    options: Mapping[str, Any],
) -> Request:
    """The arguments, checked."""
    if check is not None and verify:
        raise UsageError("E10056", "--check and --verify: one of them decides", where=Where(option="check"))
    if check is not None and not shlex.split(check):
        raise UsageError("E10004", "--check needs a value", where=Where(option="check"))
    given = {name: value for name, value in ({**options} | run.common).items() if value not in (None, False)}
    convert_options(given)
    return Request(
        model=Path(model),
        check=check,
        reduce=reduce,
        resume=resume,
        directory=Path(output),
        oracle=oracle,
        seed=seed,
        feeds={} if input_data is None else load_npz(input_data),
        custom=custom_ops.load(given.get("custom_ops")),
        given=given,
    )


def _without_float64(
    path: Path, model: onnx.ModelProto, outputs: Sequence[str], choice: str | None, threads: int, custom: CustomOps
) -> Oracle:
    """For large parts: float64 takes long, and the smaller ones that come after them are judged by it."""
    return replace(find_oracle(path, model, outputs, choice, threads, custom), exact=lambda feeds: None)


class Judge:
    """Compiles a model and says what is wrong with its package, if anything."""

    def __init__(self, run: Invocation, asked: Request, folder: Path) -> None:
        self._run = run
        self._asked = asked
        self._package = folder / "trial.om"
        self.part = folder / "part.onnx"
        self._oracles: FindOracle = RememberingOracles()

    def whole(self, package: CompiledModel) -> str:
        """What is wrong with a package of the model."""
        return self._fault(package, self._asked.model, self._asked.feeds, self._oracles)

    def of_part(self, options: Mapping[str, Any], feeds: Feeds, nodes: int) -> str:
        """What is wrong with the model `part` of so many nodes."""
        try:
            compiled, _ = compile_model(self.part, convert_options(options))
        except ResourceLimit:
            raise
        except Exception as error:  # noqa: BLE001  as in Trials
            return _refused(as_known_error(error))
        is_large = nodes > _FEW_NODES and self.part.stat().st_size > _FEW_BYTES
        return self._fault(compiled, self.part, feeds, _without_float64 if is_large else find_oracle)

    def _fault(self, compiled: CompiledModel, model: Path, feeds: Feeds, find: FindOracle) -> str:
        writer.write(self._package, compiled)
        if self._asked.check is not None:
            return _ask_command(self._asked.check, self._package, model)
        try:
            report = verify(
                self._package,
                model,
                fill=Fill("random", self._asked.seed),
                feeds=feeds or None,
                oracle=self._asked.oracle,
                threads=self._run.option("threads"),
                allow_hardlinks=self._run.option("allow_hardlinks"),
                custom=self._asked.custom,
                find=find,
            )
        except (InternalError, PackageCorrupt, Unsupported) as error:
            return _refused(error)
        return "" if report.error is None else report.error.what


def _refused(error: AtcError | InternalError) -> str:
    return f"{error.code}: {error.what}"


def _ask_command(check: str, package: Path, model: Path) -> str:
    """Runs the user's command on a package, its output on our stderr; it says by its exit code whether all is well."""
    words = shlex.split(check)
    if not any("{}" in word for word in words):
        words.append("{}")
    words = [word.replace("{model}", str(model)).replace("{}", str(package)) for word in words]
    try:
        code = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=_STDERR, check=False).returncode
    except OSError as error:
        raise UsageError("E13001", f"--check: {words[0]} cannot be run: {error.strerror}") from error
    return f"{words[0]} ended with {code}" if code else ""


class _Watch:
    """What the passes did, and the one at work, of a conversion that may break off."""

    def __init__(self) -> None:
        self.decisions = Decisions()
        self.at_work = ""

    def stage(self, stage: Stage) -> None:
        """Nothing to do at a stage's begin."""

    def stage_done(self, stage: Stage, seconds: float, graphs: Sequence[Graph]) -> None:
        """Nothing to do at a stage's end."""

    def passing(self, name: str, graph: Graph, moment: Moment) -> None:
        """Keeps the books of the graph."""
        self.decisions = graph.decisions
        self.at_work = name if moment is Moment.BEFORE else ""


@dataclass
class Trials:
    """Compiles the whole model with some passes off, and asks."""

    asked: Request
    judge: Judge
    memory: Memory
    refusal: AtcError | None = field(default=None, init=False)

    def __call__(self, trial: search.Trial) -> search.Outcome:
        known = self.memory.find(trial)
        return known if known is not None else self.memory.keep(trial, self._run(trial))

    def _run(self, trial: search.Trial) -> search.Outcome:
        self.refusal = None
        given = dict(self.asked.given)
        skipped = OPTIONS["skip_pass"].read("skip_pass", given.get("skip_pass") or ())
        given["skip_pass"] = [*skipped, *trial.off]
        limits = OPTIONS["pass_limit"].read("pass_limit", given.get("pass_limit") or {})
        given["pass_limit"] = {**limits, **trial.limits}
        watch = _Watch()
        try:
            compiled, report = compile_model(self.asked.model, convert_options(given), watch)
        except ResourceLimit:
            raise
        except Exception as error:  # noqa: BLE001  a pass that raises is what is looked for
            self.refusal = error if isinstance(error, AtcError) else None
            before = search.applied_in(watch.decisions, watch.at_work)
            return search.Outcome(False, _refused(as_known_error(error)), before)
        why = self.judge.whole(compiled)
        done = None if report.unknown_shapes else search.applied_in(compiled.graph.decisions)
        return search.Outcome(not why, why, done)


class Memory:
    """The outcomes so far, in `bisect.json`: `--resume` goes on from there."""

    def __init__(self, asked: Request, sha256: str) -> None:
        self._path = asked.directory / _STATE
        options = convert_options({k: v for k, v in asked.given.items() if k not in ("debug", "threads")})
        self._of = {
            "atcpy": __version__,
            "model": sha256,
            "options": options.atc_cmdline,
            "check": asked.check,
            "inputs": _digest(asked.feeds) if asked.feeds else asked.seed,
        }
        self._outcomes: dict[str, Any] = {}
        if asked.resume:
            self._load()

    def _load(self) -> None:
        try:
            state = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            what = f"--resume: there is no {self._path}"
            raise UsageError("E10410", what, where=Where(file=str(self._path)), hint="start without it") from None
        except (OSError, ValueError) as error:
            raise UsageError("E13005", f"--resume: {self._path} cannot be read", hint="start without it") from error
        if not isinstance(state, dict) or state.get("of") != self._of or not isinstance(state.get("outcomes"), dict):
            what = f"--resume: {self._path} is of another model, other options or another version"
            raise UsageError("E10032", what, where=Where(file=str(self._path)), hint="start without it")
        self._outcomes = state["outcomes"]

    def find(self, trial: search.Trial) -> search.Outcome | None:
        """What came of this trial before."""
        kept = self._outcomes.get(_key(trial))
        if kept is None:
            return None
        done = kept["applied"]
        applied = None if done is None else {name: _applied(entry) for name, entry in done.items()}
        return search.Outcome(kept["good"], kept["why"], applied)

    def keep(self, trial: search.Trial, outcome: search.Outcome) -> search.Outcome:
        """Notes an outcome."""
        self._outcomes[_key(trial)] = to_json(outcome)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(self._path, [dumps({"of": self._of, "outcomes": self._outcomes}).encode()])
        return outcome


def _applied(entry: Mapping[str, Any]) -> search.Applied:
    fired = tuple(tuple(tuple(node) for node in match) for match in entry["fired"])
    return search.Applied(entry["count"], entry["numbered"], fired)


def _key(trial: search.Trial) -> str:
    return dumps(trial)


def _digest(feeds: Feeds) -> str:
    digest = hashlib.sha256()
    for name, array in sorted(feeds.items()):
        digest.update(f"{name} {array.dtype} {array.shape} ".encode() + array.tobytes())
    return digest.hexdigest()
