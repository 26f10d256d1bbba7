"""How allreduces are joined, and the network that they are joined for."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict

from atcpy.errors import UsageError, Where
from atcpy.options.readers import mismatch, read_float, read_int, text_of
from atcpy.options.records import Network


def read_splits(option: str, value: object) -> Mapping[str, tuple[float, ...]]:
    """`20,80`, or `group:20,80;other:100`; a list of numbers, or a mapping of groups to those."""
    parts: Iterable[tuple[object, object]]
    if isinstance(value, Mapping):
        parts = value.items()
    elif isinstance(value, str):
        texts = (part.rpartition(":") for part in text_of(option, value).split(";") if part.strip())
        parts = ((group.strip(), numbers) for group, _, numbers in texts)
    else:
        parts = (("", value),)
    return {str(group): _read_numbers(option, numbers) for group, numbers in parts}


def _read_numbers(option: str, value: object) -> tuple[float, ...]:
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, Iterable):
        raise UsageError("E10014", f'--{option}: "{value}" is no list of numbers', where=Where(option=option))
    return tuple(read_float(option, item, -1e9, 1e9) for item in items)


def splits_text(table: Mapping[str, tuple[float, ...]]) -> str:
    """The canonical spelling of a table of splits."""
    parts = (",".join(f"{number:g}" for number in numbers) for numbers in table.values())
    return ";".join(f"{group}:{part}" if group else part for group, part in zip(table, parts, strict=True))


_MAX_RANKS = 1_000_000


def read_network(option: str, value: object) -> Network:
    """`alpha=16e-6,ranks=8`, or a mapping; what is not given stays as it is."""
    if isinstance(value, Network):
        return value
    if isinstance(value, Mapping):
        fields = dict(value)
    else:
        parts = filter(None, map(str.strip, text_of(option, value).split(",")))
        fields = {name.strip(): number.strip() for name, _, number in (part.partition("=") for part in parts)}
    for name, number in fields.items():
        if name == "ranks":
            fields[name] = read_int(option, number, 1, _MAX_RANKS)
        elif name in ("alpha", "beta", "gamma"):
            fields[name] = read_float(option, number, 0, 1e3)
        elif name == "speed":
            fields[name] = read_float(option, number, 1, 1e18)
        else:
            raise mismatch(option, name, "alpha, beta, gamma, ranks or speed", "as alpha=16e-6,beta=3e-10,ranks=8")
    return Network(**fields)


def network_text(network: Network) -> str:
    """The canonical spelling of a network."""
    return ",".join(f"{name}={number!r}" for name, number in asdict(network).items())
