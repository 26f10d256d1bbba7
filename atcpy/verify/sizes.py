"""Sizes for the open dims of a package: those that the user names, else a few to try.

A model does not say which sizes it accepts: windows must fit, strides must divide. So several are tried, small and
large, first dims as batches; the oracle refuses those that do not fit. It may read beyond a mask that is too short, and
not refuse it: so dims that the compiler knows to be sums are computed.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from types import MappingProxyType

from atcpy.errors import UsageError, Where
from atcpy.verify.inputs import Port

TRIALS = 3  # shapes that a package is verified at, if it takes any
_BATCHES = (1, 2, 3)
_SIZES = (64, 32, 96, 8, 13, 1, 224, 256, 512, 1024, 2048, 4096)

_MAX_REGROUPED = 4  # dims behind the first that may depend on others
Sums = Mapping[str, Sequence[int | str]]


def is_open(port: Port) -> bool:
    """Whether a dim has no size."""
    return any(not isinstance(dim, int) for dim in port.shape)


def with_sizes(ports: Sequence[Port], shapes: Mapping[str, Sequence[int]]) -> list[Port]:
    """The ports with the shapes that the user names; the size of a named dim applies to all ports."""
    sizes: dict[str, int] = {}
    for port in ports:
        chosen = shapes.get(port.name)
        if chosen is None:
            continue
        if len(chosen) != len(port.shape) and port.shape:
            what = f"--shape: {port.name} has rank {len(port.shape)}, {len(chosen)} sizes given"
            raise UsageError("E10049", what, where=Where(option="shape", value=port.name))
        sizes.update((dim, size) for dim, size in zip(port.shape, chosen, strict=False) if isinstance(dim, str))
    return [
        replace(port, shape=tuple(shapes[port.name]))
        if port.name in shapes
        else replace(port, shape=tuple(sizes.get(dim, dim) if isinstance(dim, str) else dim for dim in port.shape))
        for port in ports
    ]


def in_gears(ports: Sequence[Port]) -> Iterator[list[Port]]:
    """The ports with the shapes of each gear that has the sizes which are known."""
    for shapes in zip(*(port.gears for port in ports), strict=True):
        if all(map(_fits, ports, shapes)):
            yield [replace(port, shape=shape) for port, shape in zip(ports, shapes, strict=True)]


def _fits(port: Port, shape: Sequence[int]) -> bool:
    if len(port.shape) != len(shape):
        return False
    return all(dim in (size, None) or isinstance(dim, str) for dim, size in zip(port.shape, shape, strict=True))


def first_gear(ports: Sequence[Port]) -> list[Port]:
    """The ports with the shapes of the first gear that has the known sizes; as they are if none has."""
    return next(in_gears(ports), list(ports))


def trials(ports: Sequence[Port], sums: Sums = MappingProxyType({})) -> Iterator[list[Port]]:
    """The ports with a size for every dim; each trial has other sizes, or is another gear. Dims that are `sums` of
    others are computed of these.
    """
    if any(port.gears for port in ports):
        yield from in_gears(ports)
        return
    if not any(is_open(port) for port in ports):
        yield list(ports)
        return
    yield from _sized(ports, {port.shape[0] for port in ports if port.shape}, sums)


def more_trials(ports: Sequence[Port], sums: Sums = MappingProxyType({})) -> Iterator[list[Port]]:
    """Further ones for models that run at none of `trials`: dims behind the first may be batches as well, and one of
    them the sum of two others.
    """
    batches = {port.shape[0] for port in ports if port.shape}
    others = dict.fromkeys(dim for port in ports for dim in port.shape if isinstance(dim, str) and dim not in batches)
    names = [name for name in others if name not in sums][:_MAX_REGROUPED]
    if any(port.gears for port in ports):
        return
    for count in range(1, len(names) + 1):
        for chosen in combinations(names, count):
            yield from _sized(ports, batches.union(chosen), sums)
    for name in names:
        for pair in combinations([other for other in names if other != name], 2):
            yield from _sized(ports, batches, {**sums, name: pair})


def _sized(ports: Sequence[Port], batches: Collection[int | str | None], sums: Sums) -> Iterator[list[Port]]:
    """The ports with one size after the other for their open dims, but for those that are batches, or sums."""
    for number, size in enumerate(_SIZES):
        batch = _BATCHES[number % len(_BATCHES)]

        def size_of(dim: int | str | None, batch: int = batch, size: int = size) -> int:
            if isinstance(dim, int):
                return dim
            if dim in sums:
                return sum(size_of(part) for part in sums[str(dim)])
            return batch if dim in batches else size

        yield [replace(port, shape=tuple(map(size_of, port.shape))) for port in ports]


def find_sums(
    ports: Sequence[Port],
    in_model: Mapping[str, Sequence[int | str | None]],
    in_package: Mapping[str, Sequence[int | str]],
) -> dict[str, tuple[int | str, ...]]:
    """The dims of inputs that are sums of others: those by whose name the model calls a dim of an output that the
    compiler has found to be a sum. Both have the shapes of outputs by name.
    """
    names = {dim for port in ports for dim in port.shape if isinstance(dim, str)}
    found: dict[str, tuple[int | str, ...]] = {}
    for output, dims in in_package.items():
        for dim, name in zip(dims, in_model.get(output, ()), strict=False):
            parts = dim.strip("()").split("+") if isinstance(dim, str) else []
            free = names - found.keys() - {name}
            used = {part for others in found.values() for part in others}
            if len(parts) > 1 and name in names - used and all(part in free or part.isdecimal() for part in parts):
                found[str(name)] = tuple(int(part) if part.isdecimal() else part for part in parts)
    return found


def with_known(sums: Sums, ports: Sequence[Port], sized: Sequence[Port]) -> Sums:
    """The sums with the sizes that the ports have by now in place of names."""
    shapes = {port.name: port.shape for port in sized}
    known = {
        name: size
        for port in ports
        for name, size in zip(port.shape, shapes.get(port.name, ()), strict=False)
        if isinstance(name, str) and isinstance(size, int)
    }
    return {name: tuple(known.get(str(part), part) for part in parts) for name, parts in sums.items()}


def describe(ports: Sequence[Port]) -> str:
    """`x:2,8;y:2`, as `--input_shape` would have it."""
    return ";".join(f"{port.name}:{','.join(map(str, port.shape))}" for port in ports)
