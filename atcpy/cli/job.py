"""What `atcpy run` does on each rank: feeds the inputs, runs the package, reports and writes the outputs."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from atcpy.cli import custom_ops
from atcpy.cli.outcome import Outcome
from atcpy.errors import AtcWarning, UsageError, Where, raise_os_error
from atcpy.files import read_text
from atcpy.options import default_threads
from atcpy.report.units import duration

if TYPE_CHECKING:
    from atcpy import InferenceSession
    from atcpy.cli.profile import ProfiledRuns
    from atcpy.runtime.distributed.world import World
    from atcpy.runtime.profile import Profile
    from atcpy.verify.inputs import Array, Feeds


DEFAULT_CAPACITY = 2048


@dataclass(frozen=True)
class InputSources:
    """Where the inputs come from, in the words of the command line."""

    inputs: Sequence[str]
    npz: Sequence[str]
    fill: str | None
    shapes: Sequence[str]
    images: Sequence[str]
    mean: str | None
    std: str | None
    layout: str
    aipp: Sequence[str] = ()  # files of settings of dynamic AIPP

    def feeds(
        self,
        session: "InferenceSession",
        world: "World",
        states: "Mapping[str, str]" = MappingProxyType({}),
        warn: Callable[[AtcWarning], object] = lambda warning: None,
    ) -> "list[Feeds]":
        """Load or create the arrays for a package's inputs on this rank, but for those that are states: of one run, or
        where there are several archives of one each.
        """
        from atcpy.cli.arrays import (
            aipp_settings,
            load_npz,
            read_bytes_of_image,
            read_image,
            read_input,
            read_shapes,
            split_assignment,
        )
        from atcpy.cli.pictures import read_aipp_settings
        from atcpy.verify.inputs import Fill, make_feeds, session_ports
        from atcpy.verify.picture_feeds import PictureFeeds
        from atcpy.verify.sizes import first_gear, with_sizes

        settings = read_aipp_settings(self.aipp, session)
        pictures = PictureFeeds.of(session, settings, use_defaults=False) if settings else PictureFeeds({}, {})
        ports = [port for port in session_ports(session) if port.name not in states.values()]
        ports = pictures.ports(first_gear(with_sizes(ports, read_shapes(self.shapes, ports))))
        feeds: Feeds = {}
        for text in inputs_of_rank(self.inputs, [port.name for port in ports], world.rank, world.ranks):
            port, value = split_assignment("input", text, ports)
            feeds[port.name] = read_input(port, value)
        for text in self.images:
            port, path = split_assignment("image", text, ports)
            if port.name in feeds:
                what = f'--image: input "{port.name}" has a value already'
                raise UsageError("E10056", what, where=Where(option="image", value=port.name), hint="give it once")
            aipp = pictures.picture_settings(port.name) or aipp_settings(session, port.name)
            if aipp is not None:
                feeds[port.name] = read_bytes_of_image(port, path, aipp, mean=self.mean, std=self.std, warn=warn)
                continue
            feeds[port.name] = read_image(port, path, mean=self.mean, std=self.std, layout=self.layout, warn=warn)
        archives = [load_npz(of_rank(path, world.rank, world.ranks)) for path in self.npz]
        if len(archives) > 1 and not states:
            what = f"--npz: {len(archives)} files are as many runs, which nothing connects"
            raise UsageError("E10001", what, where=Where(option="npz"), hint="--state OUT=IN, or one file")
        filled = {} if self.fill is None else make_feeds(ports, Fill.read(self.fill))
        return [pictures.package_feeds(filled | archive | feeds) for archive in archives or [{}]]


@dataclass(frozen=True)
class OutputRequest:
    """What is reported and written of the outputs."""

    outputs: str | None
    output_dir: str | None
    npz_out: str | None
    labels: str | None
    top_k: int
    check_finite: bool

    def names(self, session: "InferenceSession", states: Mapping[str, str]) -> list[str]:
        """The names of the outputs to compute, states only if they are asked for."""
        if self.outputs:
            return [name.strip() for name in self.outputs.split(",")]
        return [arg.name for arg in session.get_outputs() if arg.name not in states]

    def outcome(self, arrays: "dict[str, Array]", ran: str, seconds: float, world: "World") -> Outcome:
        """Write the files, and return what the command reports; `ran` says what took the time."""
        from atcpy.cli.outputs import best_classes, describe, lines, not_finite

        paths = self._save(arrays, world)
        records = [describe(name, array, paths.get(name)) for name, array in arrays.items()]
        warnings = []
        if self.labels is not None:
            classes = read_labels(self.labels)
            for record, array in zip(records, arrays.values(), strict=True):
                if array.ndim and array.shape[-1] == len(classes):
                    record["top"] = best_classes(array, classes, self.top_k)
            if not any("top" in record for record in records):
                shapes = ", ".join(f"{record['name']} {record['shape']}" for record in records)
                what = f"{self.labels} has {len(classes)} lines, and no output as many classes: {shapes}"
                warnings.append(AtcWarning("W0070", what, Where(file=self.labels, option="labels")))
        on = f" on {world.ranks} ranks" if world.ranks > 1 else ""
        report = [*lines(records, arrays), f"{ran} in {duration(seconds)}{on}"]
        error = not_finite(records) if self.check_finite else None
        return Outcome({"outputs": records, "seconds": seconds, "ranks": []}, report, error, warnings)

    def _save(self, arrays: "dict[str, Array]", world: "World") -> dict[str, str]:
        """Write the outputs; return their paths in the folder. Each rank has its own folder; rank 0 writes the
        archive.
        """
        from atcpy.cli.arrays import save_folder
        from atcpy.runtime.array_files import save_npz

        if (npz := self.npz_out) and (world.rank == 0 or "{rank}" in npz):
            save_npz(Path(of_rank(npz, world.rank, world.ranks)), arrays)
        if not self.output_dir:
            return {}
        folder = Path(self.output_dir)
        return save_folder(folder / f"rank{world.rank}" if world.ranks > 1 else folder, arrays)


@dataclass(frozen=True)
class Computed:
    """What came of a run: the outputs by name, what ran, and how long it took."""

    arrays: "dict[str, Array]"
    ran: str
    seconds: float
    profiled: "ProfiledRuns | None" = None
    warnings: Sequence[AtcWarning] = ()


@dataclass(frozen=True)
class Job:
    """One run of a package."""

    package: str
    inputs: InputSources
    outputs: OutputRequest
    states: Sequence[str]  # OUT=IN, with a `*` for any text
    capacity: int  # rows that the states have room for
    iterations: int | None  # how many runs are one call, whose states keep their shapes
    collect: Sequence[str]  # outputs of which each of them counts
    custom_ops: Sequence[str] | None
    threads: int | None
    memory_limit: int | None
    require_signature: Sequence[str] | None
    profile: str | None = None  # where the trace of the runs goes

    def prepare(self) -> None:
        """Do what a process does once, however many ranks it runs."""
        custom_ops.load(self.custom_ops)
        if self.outputs.labels is not None:
            read_labels(self.outputs.labels)  # report a bad file before anything runs

    def on(self, world: "World") -> Outcome:
        """Run the package as one rank."""
        return self.report(self.compute(world), world)

    def report(self, computed: "Computed", world: "World") -> Outcome:
        """Write the outputs, and say what came of the run."""
        outcome = self.outputs.outcome(computed.arrays, computed.ran, computed.seconds, world)
        outcome = replace(outcome, warnings=[*computed.warnings, *outcome.warnings])
        if self.profile is None or computed.profiled is None:
            return outcome
        from atcpy.cli.profile import add_profile

        return add_profile(outcome, computed.profiled, self.profile, world)

    def compute(self, world: "World", *, before_run: Callable[[], object] = lambda: None) -> "Computed":
        """Load the package, read the inputs and run it; `before_run` is called when nothing more is read."""
        from atcpy import InferenceSession

        threads = self.threads or max(1, default_threads() // world.ranks)
        session = InferenceSession(
            self.package,
            threads=threads,
            world=world,
            memory_limit=self.memory_limit,
            require_signature=self.require_signature,
        )
        states = read_states(self.states, session)
        bound = {} if self.iterations else states
        session.bind_state(bound, capacity=self.capacity)
        warnings: list[AtcWarning] = []
        runs = self.inputs.feeds(session, world, bound, warnings.append)
        names = self.outputs.names(session, bound)
        session.agree()  # late starters are not part of the time
        before_run()
        run_all = partial(self._run_all, session, names, states, runs)
        profiled = None
        if self.profile is None:
            results, seconds = run_all(None)
        else:
            from atcpy.cli.profile import profile_runs

            run_all(None)  # tasks wait for memory to be mapped when they run first, and plans for their sizes
            if bound:
                session.reset_state()
            (results, seconds), profiled = profile_runs(run_all, world, threads)
        arrays: dict[str, Any] = dict(zip(names, results, strict=True))
        ran = f"{len(runs)} runs, states of {session.state_length} rows," if bound else "ran"
        ran = f"{self.iterations} iterations" if self.iterations else ran
        return Computed(arrays, ran, seconds, profiled, warnings)

    def _run_all(
        self,
        session: "InferenceSession",
        names: Sequence[str],
        states: Mapping[str, str],
        runs: "Sequence[Feeds]",
        profile: "Profile | None",
    ) -> tuple[list[Any], float]:
        """Run for each of `runs`; return the results of the last, and the seconds of all."""
        started = time.perf_counter()
        for feeds in runs:
            if self.iterations:
                results = session.run_iterations(
                    feeds, self.iterations, state=states, output_names=names, collect=self.collect
                )
            else:
                results = session.run(names, feeds, profile=profile)
        return results, time.perf_counter() - started

    def on_single_rank(self) -> Outcome:
        """Run the package as the only rank."""
        from atcpy.runtime.distributed.world import SingleRank

        return self.on(SingleRank())

    def on_rank(self, world: "World") -> Outcome:
        """Run the package in a process of MPI; raises the error of a run that fails."""
        self.prepare()
        return raise_failed(self.on(world))

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """The inverse of `dataclasses.asdict`."""
        fields = dict(record)
        inputs, outputs = InputSources(**fields.pop("inputs")), OutputRequest(**fields.pop("outputs"))
        return cls(inputs=inputs, outputs=outputs, **fields)


def check_iterations(iterations: int | None, collect: str | None, capacity: int | None, archives: int) -> None:
    """Raise UsageError (E10001) for options that do not go with a number of iterations, or without one."""
    if iterations is None:
        if collect is not None:
            what = "--collect: one run has one result"
            raise UsageError("E10001", what, where=Where(option="collect"), hint="--iterations N")
        return
    if capacity is not None:
        what = "--capacity: states of --iterations keep their shapes"
        raise UsageError("E10001", what, where=Where(option="capacity"), hint="without --capacity")
    if archives > 1:
        what = f"--npz: {archives} files, where --iterations takes one"
        hint = "one file, whose arrays may have the values of all iterations"
        raise UsageError("E10001", what, where=Where(option="npz"), hint=hint)


def read_states(texts: Sequence[str], session: "InferenceSession") -> dict[str, str]:
    """The inputs that outputs are bound to, by the names of the outputs; `present.*=past.*` stands for all that fit."""
    states: dict[str, str] = {}
    for text in texts:
        output, equals, name = text.partition("=")
        if not equals or output.count("*") != name.count("*") or name.count("*") > 1:
            what = f'--state: "{text}" is no pair of an output and an input'
            hint = "--state present=past, or with one * in each: --state present.*=past.*"
            raise UsageError("E10001", what, where=Where(option="state"), hint=hint)
        before, star, after = output.partition("*")
        if not star:
            _bind(states, output, name)
            continue
        names = [port.name for port in session.get_outputs()]
        fitting = [each for each in names if re.fullmatch(f"{re.escape(before)}.*{re.escape(after)}", each, re.DOTALL)]
        if not fitting:
            what = f'--state: no output fits "{output}"'
            raise UsageError("E10001", what, where=Where(option="state"), hint=f"the outputs are {', '.join(names)}")
        for each in fitting:
            _bind(states, each, name.replace("*", each[len(before) : len(each) - len(after)]))
    return states


def _bind(states: dict[str, str], output: str, name: str) -> None:
    if states.setdefault(output, name) != name:
        what = f'--state: output "{output}" is bound to "{states[output]}" and to "{name}"'
        raise UsageError("E10001", what, where=Where(option="state"))


def raise_failed(outcome: Outcome) -> Outcome:
    """Return an outcome, or raise the error of one that failed."""
    if outcome.error is not None:
        raise outcome.error
    return outcome


_OF_RANK = re.compile(r"(.+)@(\d+)=(.*)", re.DOTALL)


def inputs_of_rank(texts: Sequence[str], names: Sequence[str], rank: int, ranks: int) -> list[str]:
    """The inputs of a rank: those of all, then its own, which are written NAME@RANK=V; `{rank}` is its number."""
    common: list[str] = []
    own: list[str] = []
    for text in texts:
        match = _OF_RANK.fullmatch(text)
        if match is None or match[1] not in names or text.startswith(tuple(name + "=" for name in names)):
            common.append(text)
        elif int(match[2]) >= ranks:
            what = f"--input {match[1]}@{match[2]}: there are ranks 0 to {ranks - 1}"
            raise UsageError("E10013", what, where=Where(option="input"))
        elif int(match[2]) == rank:
            own.append(f"{match[1]}={match[3]}")
    return [of_rank(text, rank, ranks) for text in (*common, *own)]


def of_rank(text: str, rank: int, ranks: int) -> str:
    """A value of the command line on one of several ranks: `{rank}` is its number."""
    return text.replace("{rank}", str(rank)) if ranks > 1 else text


def read_labels(path: str) -> list[str]:
    """The lines of a file; line i is the name of class i."""
    try:
        return read_text(path).splitlines()
    except UnicodeDecodeError as error:
        raise UsageError("E13005", f"{path} is not UTF-8 text", where=Where(file=path)) from error
    except OSError as error:
        raise_os_error(error, path)
