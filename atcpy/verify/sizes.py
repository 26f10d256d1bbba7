"""Sizes for the open dims of a package: those that the user names, else a few to try.

A model does not say which sizes it accepts: windows must fit, strides must divide. So several are tried, small and
large, first dims as batches; the oracle refuses those that do not fit.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from atcpy.errors import UsageError, Where
from atcpy.verify.inputs import Port

TRIALS = 3  # shapes that a package is verified at, if it takes any
_BATCHES = (1, 2, 3)
_SIZES = (64, 32, 96, 8, 13, 1, 224, 256, 512, 1024, 2048, 4096)


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


def trials(ports: Sequence[Port]) -> Iterator[list[Port]]:
    """The ports with a size for every dim; each trial has other sizes, or is another gear."""
    if any(port.gears for port in ports):
        yield from in_gears(ports)
        return
    if not any(is_open(port) for port in ports):
        yield list(ports)
        return
    batches = {port.shape[0] for port in ports if port.shape}
    for number, size in enumerate(_SIZES):
        batch = _BATCHES[number % len(_BATCHES)]
        yield [
            replace(
                port,
                shape=tuple(dim if isinstance(dim, int) else batch if dim in batches else size for dim in port.shape),
            )
            for port in ports
        ]


def describe(ports: Sequence[Port]) -> str:
    """`x:2,8;y:2`, as `--input_shape` would have it."""
    return ";".join(f"{port.name}:{','.join(map(str, port.shape))}" for port in ports)
