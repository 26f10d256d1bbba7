"""What streams save: a package beside the package of the same model that has none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from atcpy.bench.rounds import Measured, Ratio
from atcpy.errors import UsageError, Where
from atcpy.om.package import Package
from atcpy.options import repeated_options

if TYPE_CHECKING:
    from atcpy.stages.report import StreamCount

SINGLE_STREAM = "single-stream.om"  # the file of the other package, which is the name of its side


@dataclass(frozen=True, slots=True)
class StreamTimes:
    """The median seconds of a run with streams and without; `ratio` says how many times faster it is with them. The
    package has so many `sections`, whose branches run beside each other, and the widest has so many `streams`.
    """

    sections: int
    streams: int
    with_streams: float
    without_streams: float
    ratio: Ratio


def convert_without_streams(package: Package, model: Path, target: Path, common: Mapping[str, object]) -> StreamCount:
    """Convert the model of a package once more, with the options that the package records and --enable_single_stream.
    `common` are options that it does not record. Returns what streams the package has. Raises UsageError for a package
    that has none by that option, and for another model; Unsupported (E10055) if it cannot be converted anew.
    """
    # Imported here: the results of the Python API name this module.
    from atcpy.kernels.record import read_order
    from atcpy.om import reader, writer
    from atcpy.stages.pipeline import compile_model
    from atcpy.stages.report import count_streams

    packaged = reader.read_model(package)
    where = Where(option="streams")
    if "--enable_single_stream=" in packaged.cmdline:
        what = "--streams: the package was converted with --enable_single_stream"
        raise UsageError("E10057", what, where=where, hint="convert it without, and bench that package")
    options = repeated_options(packaged.cmdline, {**common, "enable_single_stream": True})
    compiled, report = compile_model(model, options)
    if report.source.sha256 != packaged.source.sha256:
        what = f"--streams: {model} is not the file that the package was made from"
        raise UsageError("E10054", what, where=where, hint="name its model: --vs_model MODEL.onnx")
    writer.write(target, compiled)
    return count_streams((task.kernel, read_order(task.record)[0]) for task in package.tasks)


def stream_times(measured: Measured, counts: StreamCount) -> StreamTimes:
    """The times of the package, which is the first side, and of that without streams."""
    other = next(side for side in measured.sides if side.engine == SINGLE_STREAM)
    assert other.ratio is not None, "the package is the first side"
    return StreamTimes(counts.sections, counts.streams, measured.sides[0].median, other.median, other.ratio)
