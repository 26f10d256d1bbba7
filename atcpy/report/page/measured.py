"""Times of tasks, read out of the files that `run --profile` and `bench --layers --json` write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from atcpy.errors import UsageError, Where, raise_os_error
from atcpy.files import parse_json, read_text
from atcpy.runtime.roofline import Bandwidth, Roofline


@dataclass(frozen=True, slots=True)
class MeasuredTask:
    """A task of a run: its node, if that is known, the model's nodes that it stands for, and what it took in a run.
    `floor`: the seconds that the peaks of the machine allow, None if that is not known.
    """

    op: str
    node: str
    sources: tuple[str, ...]
    kernel: str
    seconds: float
    floor: float | None
    nbytes: int
    flops: int | None


@dataclass(frozen=True, slots=True)
class Measured:
    """The tasks of a run, and the peaks that were measured with them."""

    origin: str
    tasks: tuple[MeasuredTask, ...]
    roofline: Roofline | None = None


def read_profile(path: str) -> Measured:
    """Read a trace of `run --profile`: the mean of its runs. Raises UsageError (E13005, or what opening raises)."""
    return _read(path, "a trace of run --profile", _profile)


def read_bench(path: str) -> Measured:
    """Read what `bench --layers --json` printed. Raises UsageError (E13005, or what opening raises)."""
    return _read(path, "a result of bench --layers --json", _bench)


def read_record(path: str, kind: str) -> Any:
    """Read a file of JSON, which should be `kind`. Raises UsageError (E13005, or what opening raises)."""
    try:
        return parse_json(read_text(path))
    except OSError as error:
        raise_os_error(error, path)
    except ValueError as error:
        raise UsageError("E13005", f"{path} is not {kind}: {error}", where=Where(file=path)) from error


def _read(path: str, kind: str, decode: Callable[[str, Any], Measured]) -> Measured:
    record = read_record(path, kind)
    try:
        measured = decode(path, record)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError) as error:
        what = f"{path} is not {kind}: {type(error).__name__} {error}"
        raise UsageError("E13005", what, where=Where(file=path)) from error
    if not measured.tasks:
        raise UsageError("E13005", f"{path} is not {kind}: it has no tasks", where=Where(file=path))
    return measured


def _profile(path: str, trace: Mapping[str, Any]) -> Measured:
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    runs = max(sum(event["cat"] == "run" for event in events), 1)
    tasks: dict[str, MeasuredTask] = {}
    for event in events:
        if event["cat"] == "run":
            continue
        launch = _launch(event)
        sofar = tasks.get(event["name"])
        tasks[event["name"]] = launch if sofar is None else _add(sofar, launch)
    means = tuple(_divide(task, runs) for task in tasks.values())
    peaks = trace["otherData"]["peaks"]
    return Measured(Path(path).name, means, None if peaks is None else _roofline(peaks))


def _launch(event: Mapping[str, Any]) -> MeasuredTask:
    arguments = event["args"]
    op, name = _str(event["cat"]), _str(event["name"])
    seconds = _number(event["dur"]) * 1e-6
    share = arguments.get("roofline")
    return MeasuredTask(
        op=op,
        node=name.removeprefix(op).removeprefix(" "),
        sources=tuple(map(_str, arguments["sources"])),
        kernel=_str(arguments["kernel"]),
        seconds=seconds,
        floor=None if share is None else _number(share) * seconds,
        nbytes=int(_number(arguments["read_bytes"]) + _number(arguments["written_bytes"])),
        flops=_optional_int(arguments["flops"]),
    )


def _add(one: MeasuredTask, other: MeasuredTask) -> MeasuredTask:
    return replace(
        one,
        seconds=one.seconds + other.seconds,
        floor=None if one.floor is None or other.floor is None else one.floor + other.floor,
        nbytes=one.nbytes + other.nbytes,
        flops=None if one.flops is None or other.flops is None else one.flops + other.flops,
    )


def _divide(task: MeasuredTask, runs: int) -> MeasuredTask:
    return replace(
        task,
        seconds=task.seconds / runs,
        floor=None if task.floor is None else task.floor / runs,
        nbytes=task.nbytes // runs,
        flops=None if task.flops is None else task.flops // runs,
    )


def _roofline(peaks: Mapping[str, Any]) -> Roofline:
    bandwidths = tuple(
        Bandwidth(int(each["bytes"]), _positive(each["bytes_per_second"])) for each in peaks["bandwidths"]
    )
    if not bandwidths:
        raise ValueError("no bandwidths")
    other_types = {str(name): _positive(peak) for name, peak in peaks.get("other_types", {}).items()}
    return Roofline(int(peaks["threads"]), _positive(peaks["flops_per_second"]), bandwidths, other_types)


def _bench(path: str, printed: Mapping[str, Any]) -> Measured:
    result = printed["result"]
    record = result["runs"][0] if "runs" in result else result
    peaks = record.get("peaks")
    return Measured(Path(path).name, tuple(map(_layer, record["layers"])), None if peaks is None else _roofline(peaks))


def _layer(layer: Mapping[str, Any]) -> MeasuredTask:
    floor = layer["floor"]
    return MeasuredTask(
        op=_str(layer["op"]),
        node="",
        sources=tuple(map(_str, layer["nodes"])),
        kernel=_str(layer["kernel"]),
        seconds=_number(layer["median"]),
        floor=None if floor is None else _number(floor),
        nbytes=int(_number(layer["read_bytes"]) + _number(layer["written_bytes"])),
        flops=_optional_int(layer["flops"]),
    )


def _str(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ValueError(f"{value!r:.40} is no time, size or share")
    return float(value)


def _positive(value: object) -> float:
    number = _number(value)
    if not number:
        raise ValueError("a peak of 0")
    return number


def _optional_int(value: object) -> int | None:
    return None if value is None else int(_number(value))
