"""Samples of a model's inputs: checked, thinned out, and divided into those to calibrate with and those to judge by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from atcpy.errors import UsageError, Where, did_you_mean, raise_all
from atcpy.report.units import shape as shape_text
from atcpy.verify.inputs import Feeds, Port

_FIFTH = 5


@dataclass(frozen=True, slots=True)
class Sample:
    """One set of inputs, read when it is needed; `name` is the file that it comes from."""

    name: str
    load: Callable[[], Feeds]


@dataclass(frozen=True, slots=True)
class SampleSets:
    """The samples that ranges are measured on, and those that errors are; the same ones if there is only one."""

    calibration: Sequence[Sample]
    held_out: Sequence[Sample]

    @property
    def all(self) -> list[Sample]:
        """Each sample once."""
        return [*self.calibration, *(sample for sample in self.held_out if sample not in self.calibration)]


def samples_of(feeds: Sequence[Feeds], ports: Sequence[Port]) -> list[Sample]:
    """Samples that are in memory already, for the inputs of any model."""
    return [Sample(f"sample {number}", partial(dict, each)) for number, each in enumerate(feeds)]


def divide(samples: Sequence[Sample], limit: int | None) -> SampleSets:
    """Hold out every fifth sample, at least one of several; of more than `limit` samples, take that many at equal
    distances.
    """
    if limit is not None and len(samples) > limit:
        samples = [samples[index * len(samples) // limit] for index in range(limit)]
    if len(samples) == 1:
        return SampleSets(samples, samples)
    held = samples[_FIFTH - 1 :: _FIFTH] or samples[-1:]
    return SampleSets([sample for sample in samples if sample not in held], held)


def check_samples(samples: Sequence[Sample], ports: Sequence[Port]) -> None:
    """Raise UsageError for samples that the inputs of the model do not take, and where there is none."""
    if not samples:
        what = "there are no samples to calibrate with"
        raise UsageError(
            "E10054", what, where=Where(option="calibrate"), hint="give a folder of .npz, .npy or pictures"
        )
    raise_all([problem for sample in samples for problem in problems_of(sample.load(), ports, sample.name)])


def problems_of(feeds: Mapping[str, object], ports: Sequence[Port], file: str) -> Iterable[UsageError]:
    """Yield what is wrong with the inputs of one sample."""
    where, names = Where(file=file), [port.name for port in ports]
    for name in feeds.keys() - set(names):
        hint = did_you_mean(name, names) or "the inputs are " + ", ".join(names)
        yield UsageError("E10404", f'the model has no input "{name}"', where=where, hint=hint)
    sizes: dict[str, int] = {}
    for port in ports:
        if port.name not in feeds:
            held = ", ".join(sorted(feeds)) or "nothing"
            what = f'the sample has no value for input "{port.name}"'
            yield UsageError("E10401", what, where=where, why=f"it holds {held}", hint=f"add an array {port.name}")
        else:
            yield from _problems_of_array(feeds[port.name], port, where, sizes)


def _problems_of_array(value: object, port: Port, where: Where, sizes: dict[str, int]) -> Iterable[UsageError]:
    array, name = np.asarray(value), port.name
    expected = f"the model's is {port.dtype.long} {shape_text(port.shape)}"
    if array.dtype != port.dtype.numpy:
        what, hint = f'input "{name}" is {array.dtype}', f"convert it to {port.dtype.long}"
        yield UsageError("E10403", what, where=where, why=expected, hint=hint)
    elif array.ndim != len(port.shape):
        hint = f"save it with {len(port.shape)} dimensions, or {len(port.shape) + 1} with an axis of samples in front"
        what = f'input "{name}" has {array.ndim} dimensions'
        yield UsageError("E10402", what, where=where, why=expected, hint=hint)
    elif not all(
        size == (sizes.setdefault(dim, size) if isinstance(dim, str) else size if dim is None else dim)
        for dim, size in zip(port.shape, array.shape, strict=True)
    ):
        what, hint = f'input "{name}" has the shape {shape_text(array.shape)}', "save it with the model's sizes"
        yield UsageError("E10405", what, where=where, why=expected, hint=hint)
    elif port.dtype.is_float and not np.isfinite(array.astype(np.float64)).all():
        what = f'input "{name}" has NaN or infinity'
        yield UsageError("E13025", what, where=where, why="no range covers them", hint="leave the sample out")
