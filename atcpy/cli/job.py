"""What `atcpy run` does on each rank: inputs through the package, outputs told and written."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atcpy.cli import custom_ops
from atcpy.cli.outcome import Outcome
from atcpy.errors import UsageError, Where, raise_os_error
from atcpy.options import default_threads
from atcpy.report.units import duration

if TYPE_CHECKING:
    from atcpy import InferenceSession
    from atcpy.runtime.collectives import World
    from atcpy.verify.inputs import Array, Feeds


@dataclass(frozen=True)
class Given:
    """Where the inputs come from, as the command line says it."""

    inputs: Sequence[str]
    npz: str | None
    fill: str | None
    shapes: Sequence[str]
    images: Sequence[str]
    mean: str | None
    std: str | None
    layout: str

    def feeds(self, session: "InferenceSession", world: "World") -> "Feeds":
        """The arrays for a package's inputs, on this rank."""
        from atcpy.cli.arrays import load_npz, read_image, read_input, read_shapes, split_assignment
        from atcpy.cli.launch import for_rank
        from atcpy.verify.inputs import Fill, make_feeds, session_ports
        from atcpy.verify.sizes import with_sizes

        ports = session_ports(session)
        ports = with_sizes(ports, read_shapes(self.shapes, ports))
        feeds = {} if self.npz is None else load_npz(self.npz)
        for text in for_rank(self.inputs, [port.name for port in ports], world.rank, world.ranks):
            port, value = split_assignment("input", text, ports)
            feeds[port.name] = read_input(port, value)
        if self.fill is not None:
            feeds = make_feeds(ports, Fill.read(self.fill)) | feeds
        for text in self.images:
            port, path = split_assignment("image", text, ports)
            feeds[port.name] = read_image(port, path, mean=self.mean, std=self.std, layout=self.layout)
        return feeds


@dataclass(frozen=True)
class Wanted:
    """What is told and written of the outputs."""

    outputs: str | None
    output_dir: str | None
    npz_out: str | None
    labels: str | None
    top_k: int
    check_finite: bool

    def names(self, session: "InferenceSession") -> list[str]:
        """The outputs."""
        if self.outputs:
            return [name.strip() for name in self.outputs.split(",")]
        return [arg.name for arg in session.get_outputs()]

    def outcome(self, arrays: "dict[str, Array]", seconds: float, world: "World") -> Outcome:
        """What the command says, once the files are written."""
        from atcpy.cli.outputs import best_classes, describe, lines, not_finite

        paths = self._save(arrays, world)
        records = [describe(name, array, paths.get(name)) for name, array in arrays.items()]
        if self.labels is not None:
            classes = read_labels(self.labels)
            for record, array in zip(records, arrays.values(), strict=True):
                if array.ndim and array.shape[-1] == len(classes):
                    record["top"] = best_classes(array, classes, self.top_k)
        on = f" on {world.ranks} ranks" if world.ranks > 1 else ""
        told = [*lines(records, arrays), f"ran in {duration(seconds)}{on}"]
        error = not_finite(records) if self.check_finite else None
        return Outcome({"outputs": records, "seconds": seconds, "ranks": []}, told, error)

    def _save(self, arrays: "dict[str, Array]", world: "World") -> dict[str, str]:
        """The paths in the folder by name. Each rank has a folder in it; rank 0 writes the one file."""
        from atcpy.cli.arrays import save_folder, save_npz

        if (npz := self.npz_out) and (world.rank == 0 or "{rank}" in npz):
            save_npz(Path(npz.replace("{rank}", str(world.rank)) if world.ranks > 1 else npz), arrays)
        if not self.output_dir:
            return {}
        folder = Path(self.output_dir)
        return save_folder(folder / f"rank{world.rank}" if world.ranks > 1 else folder, arrays)


@dataclass(frozen=True)
class Job:
    """One run of a package."""

    package: str
    given: Given
    wanted: Wanted
    custom_ops: Sequence[str] | None
    threads: int | None

    def prepare(self) -> None:
        """What a process does once, however many ranks it runs."""
        custom_ops.load(self.custom_ops)
        if self.wanted.labels is not None:
            read_labels(self.wanted.labels)  # what is wrong with it is said before anything runs

    def on(self, world: "World") -> Outcome:
        """What one rank does."""
        from atcpy import InferenceSession

        threads = self.threads or max(1, default_threads() // world.ranks)
        session = InferenceSession(self.package, threads=threads, world=world)
        feeds = self.given.feeds(session, world)
        names = self.wanted.names(session)
        session.agree()  # whoever starts late is not part of what is timed
        started = time.perf_counter()
        arrays: dict[str, Any] = dict(zip(names, session.run(names, feeds), strict=True))
        return self.wanted.outcome(arrays, time.perf_counter() - started, world)

    def alone(self) -> Outcome:
        """The run of the only rank."""
        from atcpy.runtime.collectives import Alone

        return self.on(Alone())


def read_labels(path: str) -> list[str]:
    """The lines of a file; line i is the name of class i."""
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise UsageError("E13005", f"{path} is not UTF-8 text", where=Where(file=path)) from error
    except OSError as error:
        raise_os_error(error, path)
