"""Benchmarks of before: reading what `bench --save` wrote, and comparing it with what was measured now."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from atcpy.bench.rounds import LAYER_NOISE, NOISE, Ratio, compare_medians
from atcpy.bench.sides import MODEL_ENGINES, OURS
from atcpy.errors import UsageError, Where, raise_os_error
from atcpy.files import parse_json, read_text

SCHEMA = "atcpy.bench/1"
_Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Timing:
    """The median seconds of a side or a task, and its confidence interval."""

    name: str
    version: str
    median: float
    ci: _Interval


@dataclass(frozen=True, slots=True)
class SavedRun:
    """What a comparison needs of the record of a benchmark with one number of threads. Tasks have no numbers that two
    packages of a model share: their key is the op and the model's nodes, and which of those with the same it is.
    """

    setting: Mapping[str, str]
    package: str
    threads: int
    sides: Mapping[str, Timing]
    layers: Mapping[tuple[str, tuple[str, ...], int], Timing]


@dataclass(frozen=True, slots=True)
class SavedBench:
    """A file of `bench --save`, the version of atcpy that wrote it, and its runs by their number of threads."""

    path: str
    version: str
    runs: Mapping[int, SavedRun]


@dataclass(frozen=True, slots=True)
class SideChange:
    """A side's median before and now; `ratio` says how many times faster it is now."""

    name: str
    before: float
    after: float
    ratio: Ratio


@dataclass(frozen=True, slots=True)
class LayerChange:
    """A task's median before and now; `ratio` says how many times faster it is now."""

    op: str
    nodes: tuple[str, ...]
    before: float
    after: float
    ratio: Ratio


@dataclass(frozen=True, slots=True)
class Comparison:
    """A benchmark beside a saved one. `differences` say why the times may not be comparable. `unmatched_layers` counts
    the tasks of either that the other does not have.
    """

    file: str
    version: str
    same_package: bool
    differences: tuple[str, ...]
    sides: tuple[SideChange, ...]
    layers: tuple[LayerChange, ...]
    unmatched_layers: int


def read_saved(path: str) -> SavedBench:
    """Read a file of `bench --save`. Raises UsageError for what is none: E13005, or what opening raises."""
    try:
        record = parse_json(read_text(path))
    except OSError as error:
        raise_os_error(error, path)
    except ValueError as error:
        _refuse(path, str(error), error)
    try:
        if record["schema"] != SCHEMA:
            _refuse(path, f"its schema is {record['schema']!r}, not {SCHEMA!r}")
        result = record["result"]
        runs = [decode_run(run) for run in result.get("runs", [result])]
        saved = SavedBench(path, _text(record["version"]), {run.threads: run for run in runs})
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        _refuse(path, f"{type(error).__name__} {error}", error)
    return saved


def _refuse(path: str, why: str, cause: Exception | None = None) -> NoReturn:
    what = f"--compare: {path} is not what bench --save writes: {why}"
    raise UsageError("E13005", what, where=Where(file=path, option="compare"), hint="atcpy bench --save J") from cause


def decode_run(record: Mapping[str, Any]) -> SavedRun:
    """The record of a benchmark with one number of threads. Raises what reading a record of another form does."""
    machine, package = record["machine"], record["package"]
    setting = {
        "CPU": _text(machine["cpu"]),
        "instruction set": _text(machine["isa"]),
        "model": _text(package["model_sha256"] or package["sha256"]),
        "inputs": " ".join(f"{_text(each['name'])}{list(map(_integer, each['shape']))}" for each in record["inputs"]),
    }
    sides = {_text(side["engine"]): _timing(_text(side["name"]), side) for side in record["sides"]}
    if OURS not in sides:
        raise ValueError(f"no side is {OURS}")
    layers = dict(_layers(record["layers"]))
    return SavedRun(setting, _text(package["sha256"]), _integer(record["threads"]), sides, layers)


def _layers(records: Sequence[Mapping[str, Any]]) -> Iterator[tuple[tuple[str, tuple[str, ...], int], Timing]]:
    counts: dict[tuple[str, tuple[str, ...]], int] = {}
    for record in records:
        key = (_text(record["op"]), tuple(map(_text, record["nodes"])))
        counts[key] = counts.get(key, -1) + 1
        yield (*key, counts[key]), _timing(key[0], record)


def _timing(name: str, record: Mapping[str, Any]) -> Timing:
    low, high = map(_seconds, record["ci"])
    return Timing(name, _text(record.get("version", "")), _seconds(record["median"]), (low, high))


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not (value > 0 and math.isfinite(value)):
        raise ValueError(f"{value!r} is no time")
    return float(value)


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r} is no integer")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value


def compare(saved: SavedBench, now: SavedRun) -> Comparison:
    """Compare a run with the saved one of as many threads, which there must be."""
    before = saved.runs[now.threads]
    shared = [key for key in now.layers if key in before.layers]
    sides = [(before.sides[engine], side) for engine, side in now.sides.items() if engine in before.sides]
    return Comparison(
        file=saved.path,
        version=saved.version,
        same_package=before.package == now.package,
        differences=(*_differences(before, now),),
        sides=tuple(SideChange(new.name, old.median, new.median, _ratio(old, new, NOISE)) for old, new in sides),
        layers=tuple(_layer_change(key, before.layers[key], now.layers[key]) for key in shared),
        unmatched_layers=len(before.layers.keys() ^ now.layers.keys()) if before.layers and now.layers else 0,
    )


def _layer_change(key: tuple[str, tuple[str, ...], int], old: Timing, new: Timing) -> LayerChange:
    return LayerChange(key[0], key[1], old.median, new.median, _ratio(old, new, LAYER_NOISE))


def _ratio(old: Timing, new: Timing, noise: float) -> Ratio:
    return compare_medians(new.median, new.ci, old.median, old.ci, noise)


def _differences(before: SavedRun, now: SavedRun) -> Iterator[str]:
    for what, value in now.setting.items():
        if before.setting[what] != value:
            yield f"another {what}: {before.setting[what]}, now {value}"
    for engine in MODEL_ENGINES:
        if engine in before.sides and engine in now.sides and before.sides[engine].version != now.sides[engine].version:
            yield f"another {engine}: {before.sides[engine].version}, now {now.sides[engine].version}"
