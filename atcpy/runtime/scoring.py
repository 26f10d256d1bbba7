"""Scoring of data sets by workers of other engines: a package as a function of batches; shards that are done once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from atcpy.errors import UsageError, Where
from atcpy.files import read_file
from atcpy.om.atomic import atomic_write
from atcpy.runtime.array_files import save_npz
from atcpy.runtime.session import InferenceSession, NodeArg

if TYPE_CHECKING:
    from atcpy.ir.tensor import Array
    from atcpy.om.signature import PublicKeys

DEFAULT_BATCH = 32
_RECORD = "scoring.json"
_SESSIONS = 4  # packages that a worker keeps open
_NO_LIMIT = 1 << 62


@dataclass(frozen=True, slots=True)
class BatchSizes:
    """The numbers of samples that a package takes in one run: those listed, or all from `low` to `high`."""

    listed: tuple[int, ...] = ()
    low: int = 1
    high: int = _NO_LIMIT

    def split(self, samples: int) -> Iterator[tuple[int, int, int]]:
        """Runs that take all samples: (first sample, samples, size of the batch). Where the size is larger, the batch
        is to be filled up. No samples are one run of nothing but filling.
        """
        first = 0
        while first < samples or first == samples == 0:
            size = self._size_for(samples - first)
            taken = min(size, samples - first)
            yield first, taken, size
            first += max(taken, 1)

    def _size_for(self, remaining: int) -> int:
        """The largest size that needs no filling, unless the next one would not be half empty."""
        if not self.listed:
            return max(self.low, min(remaining, self.high))
        enough = min((size for size in self.listed if size >= remaining), default=0)
        below = max((size for size in self.listed if size <= remaining), default=0)
        return enough if enough and (not below or enough < 2 * remaining) else below


class Scorer:
    """A package as a function of batches of any size: `scorer({"image": images})` returns the outputs by name, with a
    row for each sample. Axis 0 of each input and output counts samples.

    The samples are split by the batch sizes that the package has: its own if it is fixed, its gears, or up to
    `batch_size` at a time. What is left over is filled up with its last sample, whose results are dropped.

    It can be pickled. In each process that unpickles it, all copies share one session, which is opened when the first
    of them is called. That makes it what Dask's `map_partitions` and Ray Data's `map_batches` call.

    source: path of a `.om` that each worker can read. outputs: those to return, by default all. fixed: inputs that
    are the same for each batch. The other arguments are those of `InferenceSession`; a worker has one thread unless
    `threads` says otherwise.

    Raises UsageError, where a batch does not fit the package or the package has no axis of samples, and what
    `InferenceSession` raises.
    """

    def __init__(
        self,
        source: str | os.PathLike[str],
        outputs: Sequence[str] | None = None,
        *,
        fixed: Mapping[str, Any] | None = None,
        batch_size: int = DEFAULT_BATCH,
        threads: int = 1,
        require_signature: PublicKeys | None = None,
        custom_ops: object = (),
        memory_limit: int | None = None,
    ) -> None:
        if batch_size < 1:
            raise UsageError("E10013", f"batch_size: {batch_size} is less than 1")
        self.outputs = None if outputs is None else tuple(outputs)
        self.fixed = dict(fixed or {})
        self.batch_size = batch_size
        self._open = partial(
            InferenceSession,
            os.path.abspath(source),
            threads=threads,
            require_signature=require_signature,
            custom_ops=custom_ops,
            memory_limit=memory_limit,
        )

    @property
    def session(self) -> InferenceSession:
        """The session that copies share in this process; a package that was replaced is opened anew."""
        path = self._open.args[0]
        try:
            status = os.stat(path)
        except OSError:
            return self._open()  # which says why
        arguments = tuple(sorted((name, repr(value)) for name, value in self._open.keywords.items()))
        key = (path, arguments, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        return _session_of(_Opening(key, self._open))

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Array]:
        """Return the outputs for a batch, by name."""
        session = self.session
        rows = {name: np.asarray(array) for name, array in batch.items()}
        samples = _number_of_samples(rows)
        sizes = self._sizes(session, rows)
        names = self.outputs or tuple(port.name for port in session.get_outputs())
        parts: dict[str, list[Array]] = {name: [] for name in names}
        for first, taken, size in sizes.split(samples):
            fed = {name: _filled(array[first : first + taken], size) for name, array in rows.items()}
            for name, result in zip(names, session.run(names, {**fed, **self.fixed}), strict=True):
                parts[name].append(_rows_of(name, result, size)[:taken])
        return {name: found[0] if len(found) == 1 else np.concatenate(found) for name, found in parts.items()}

    def _sizes(self, session: InferenceSession, rows: Mapping[str, Array]) -> BatchSizes:
        """The sizes that every input takes, which `session.run` compares again."""
        ports = {port.name: port for port in session.get_inputs()}
        found = [_sizes_of(ports[name], array) for name, array in rows.items() if name in ports]
        listed = [set(sizes.listed) for sizes in found if sizes.listed]
        if listed:
            common = set.intersection(*listed)
            return BatchSizes(tuple(sorted(common or listed[0])))
        low = max((sizes.low for sizes in found), default=1)
        high = min((sizes.high for sizes in found), default=self.batch_size)
        return BatchSizes(low=low, high=max(low, min(high, self.batch_size)))


@dataclass(frozen=True)
class ShardResult:
    """What became of a shard: how many samples were scored now, none if its file was there already."""

    shard: str
    samples: int
    was_done: bool


@dataclass(frozen=True)
class ScoreShard:
    """Scores one shard and writes `folder/SHARD.npz`, or leaves it if it is there: a run that ended early is continued.

    A file is whole or not there, however a worker ends, so an engine may do a shard again. The folder belongs to one
    package and its outputs. `load` returns the inputs of a shard by name, and can be pickled as this can.

    Raises UsageError: E10001 for a name that is no file name, E10047 for a folder with results of another package.
    """

    scorer: Scorer
    load: Callable[[str], Mapping[str, Any]] = field(repr=False)
    folder: str

    def __call__(self, shard: str) -> ShardResult:
        """Score a shard, unless it is done."""
        target = self._target(shard)
        self._claim_folder()
        if target.exists():
            return ShardResult(shard, 0, was_done=True)
        results = self.scorer(self.load(shard))
        save_npz(target, results)
        return ShardResult(shard, len(next(iter(results.values()), ())), was_done=False)

    def missing(self, shards: Iterable[str]) -> list[str]:
        """The shards that are still to be done, in their order."""
        return [shard for shard in shards if not self._target(shard).exists()]

    def _target(self, shard: str) -> Path:
        if not shard or shard in (".", "..") or "/" in shard or "\0" in shard:
            raise UsageError("E10001", f'shard: "{shard}" is no name of a file')
        return Path(self.folder) / f"{shard}.npz"

    def _claim_folder(self) -> None:
        """Note whose results are in the folder, or compare."""
        session = self.scorer.session
        names = self.scorer.outputs or tuple(port.name for port in session.get_outputs())
        record = {"package": session.package_sha256, "outputs": list(names)}
        path = Path(self.folder) / _RECORD
        if not path.exists():
            Path(self.folder).mkdir(parents=True, exist_ok=True)
            atomic_write(path, [json.dumps(record).encode()])
            return
        if json.loads(read_file(path)) != record:
            what = f"{self.folder} has results of another package, or of other outputs"
            raise UsageError("E10047", what, where=Where(file=str(path)), hint="name another folder")


@dataclass(frozen=True, slots=True)
class _Opening:
    """How a session is opened; equal where `key` is."""

    key: tuple[Any, ...]
    make: Callable[[], InferenceSession] = field(compare=False)


@lru_cache(maxsize=_SESSIONS)
def _session_of(opening: _Opening) -> InferenceSession:
    return opening.make()


def _number_of_samples(rows: Mapping[str, Array]) -> int:
    counts = {name: len(array) if array.ndim else -1 for name, array in rows.items()}
    if not counts:
        raise UsageError("E10401", "a batch has no input", hint="feed a mapping of inputs by name")
    if len(set(counts.values())) > 1 or -1 in counts.values():
        listed = ", ".join(f'"{name}" {"is a scalar" if n < 0 else f"has {n}"}' for name, n in counts.items())
        raise UsageError(
            "E10405", f"inputs have different numbers of samples: {listed}", hint="fixed={…} for the others"
        )
    return next(iter(counts.values()))


def _sizes_of(port: NodeArg, array: Array) -> BatchSizes:
    """The batch sizes of an input, by axis 0 of its shapes that fit a sample."""
    if port.gears:
        return BatchSizes(tuple(sorted({gear[0] for gear in port.gears if gear and gear[1:] == array.shape[1:]})))
    if not port.shape:
        return BatchSizes()
    if isinstance(port.shape[0], int):
        return BatchSizes((port.shape[0],))
    low, high = port.ranges[0] if port.ranges else (1, -1)
    return BatchSizes(low=max(low, 1), high=high if high >= 0 else _NO_LIMIT)


def _filled(array: Array, size: int) -> Array:
    """An array with `size` rows, the last one repeated; zeros if there is none."""
    missing = size - len(array)
    if not missing:
        return array
    last = array[-1:] if len(array) else np.zeros((1, *array.shape[1:]), array.dtype)
    return np.concatenate([array, np.repeat(last, missing, axis=0)])


def _rows_of(name: str, result: Any, size: int) -> Array:
    if isinstance(result, np.ndarray) and result.ndim and len(result) == size:
        return result
    shape = list(result.shape) if isinstance(result, np.ndarray) else type(result).__name__
    what = f'output "{name}" has no row for each of {size} samples: {shape}'
    raise UsageError("E13031", what, where=Where(value=name), hint="outputs=[…] chooses others")
