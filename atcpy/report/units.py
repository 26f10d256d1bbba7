"""Numbers as people read them: sizes, times, shapes, counts."""

from collections.abc import Mapping, Sequence

from atcpy.errors import count_of
from atcpy.options import IterationsPerLoop

_SIZES = (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10))


def size(count: int) -> str:
    """Bytes in units of 1024: `97.9 MB`."""
    for unit, factor in _SIZES:
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} B"


def largest_arena(nbytes: int | None) -> str:
    """The arena of plans for many sizes; None if runs place its blocks."""
    return "arena sized at run time" if nbytes is None else f"arena at most {size(nbytes)}"


def duration(seconds: float) -> str:
    """A time with three digits: `1.42 s`, `25.6 ms`, `3.10 µs`."""
    for unit, factor in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= factor:
            return f"{_three_digits(seconds / factor)} {unit}"
    return f"{_three_digits(seconds / 1e-6)} µs"


def _three_digits(number: float) -> str:
    return f"{number:.0f}" if number >= 99.95 else f"{number:.1f}" if number >= 9.995 else f"{number:.2f}"


def shape(dims: Sequence[object] | None) -> str:
    """Dimensions as a list without spaces: `[1,3,224,224]`; `?` where the rank is not known."""
    return "?" if dims is None else "[" + ",".join(str(dim) for dim in dims) + "]"


def counts(items: Mapping[str, int]) -> str:
    """Names with their counts: `Conv 53 · Gemm 1`."""
    return " · ".join(f"{name} {count}" for name, count in items.items())


def planned(unknown_shapes: bool, tasks: int, plans: Sequence[Sequence[int]], gears: int, *, guards: int) -> str:
    """What became of a model: its tasks, or how its open dims are dealt with; `plans` are the tasks of each variant of
    each cluster, `guards` the inequalities that sizes must keep for the first.
    """
    if gears:
        return f"{count_of(tasks, 'task')} in {gears} gears"
    if plans:
        total = sum(variants[0] for variants in plans)
        clusters = f" in {len(plans)} clusters" if len(plans) > 1 else ""
        others = sum(len(variants) - 1 for variants in plans)
        more = f", {count_of(others, 'plan')} more for other sizes" if others else ""
        kept = f" that keep {count_of(guards, 'guard')}" if guards else ""
        return f"{count_of(total, 'task')}{clusters}, planned for all sizes{kept}{more}"
    return "compiled for the shapes that it meets" if unknown_shapes else count_of(tasks, "task")


def states(inputs: Mapping[str, str]) -> str:
    """Which outputs a session may keep as which inputs of the next run; of many the first."""
    output, name = next(iter(inputs.items()))
    more = f" and {len(inputs) - 1} more" if len(inputs) > 1 else ""
    return f"{output} of {name}{more}   (caches that may stay in the session: bind_state)"


def iterations(loop: IterationsPerLoop) -> str:
    """What one run of a package repeats: `1000 of the model in one run, states h2=h, steps of x`."""
    states = f", states {' '.join(f'{new}={old}' for new, old in loop.states.items())}" if loop.states else ""
    steps = f", steps of {' '.join(loop.stepped)}" if loop.stepped else ""
    return f"{loop.count} of the model in one run{states}{steps}"


def streams(sections: int, streams: int) -> str:
    """Branches that may run beside each other: `4 in 2 sections`."""
    return f"at most {streams} beside each other, in {count_of(sections, 'section')}"


def weight_files(count: int, bytes: int) -> str:
    """What stands beside a package."""
    return f"{size(bytes)} in {count_of(count, 'file')} of the folder weight, beside the package"


def rate(value: float | None) -> str:
    """Billions a second with three digits: `3.1`, `211`; `-` where the number is not known."""
    return "-" if value is None else f"{value:.3g}" if value < 100 else f"{value:.0f}"
