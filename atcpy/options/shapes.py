"""`--input_shape`: names, sizes, and ranges of sizes."""

import re
from collections.abc import Iterable, Mapping

from atcpy.errors import UsageError, Where
from atcpy.options.readers import mismatch, text_of
from atcpy.options.records import DimRange, InputDim, InputDims
from atcpy.sizes import ANY_SIZE, MAX_DIM, MAX_RANK


def read_input_shape(option: str, value: object) -> dict[str, InputDims]:
    """`name:dim,dim;name:dim` or a mapping; a dim is a size, -1 (any) or `lo~hi`; no dims is a scalar.

    The name ends at the last colon, so `x:0:1,3` names `x:0`.
    """
    if isinstance(value, Mapping):
        return {str(name): _read_dims(option, name, dims) for name, dims in value.items()}
    text = value if isinstance(value, str) else ""
    if not isinstance(value, str) or not text.strip():
        text_of(option, value)
    shapes: dict[str, InputDims] = {}
    start = 0
    for item in text.split(";"):
        if item.strip():
            name, colon, dims = item.rpartition(":")
            if not colon or not name.strip():
                hint = f'--{option}="x:1,3,224,224;y:1"'
                raise _unreadable(option, item.strip(), start + 1, "an item is name:sizes", hint)
            if name.strip() in shapes:
                raise _unreadable(option, item.strip(), start + 1, f'"{name.strip()}" is given twice')
            shapes[name.strip()] = _parse_dims(option, name.strip(), dims, start + len(name) + 2)
        start += len(item) + 1
    if not shapes:
        raise UsageError("E10004", f"--{option} needs a value", where=Where(option=option))
    return shapes


def _unreadable(option: str, part: str, column: int, why: str, hint: str = "") -> UsageError:
    what = f'--{option}: cannot read "{part}" at character {column}: {why}'
    return UsageError("E10002", what, where=Where(option=option, column=column), hint=hint)


def _parse_dims(option: str, name: str, text: str, column: int) -> InputDims:
    """The sizes of one input; `column` is the 1-based position of `text` in the option's value."""
    if not text.strip():
        return ()
    dims: list[InputDim] = []
    for i, part in enumerate(text.split(",")):
        match = re.fullmatch(r"\s*(-?\d{1,19})\s*(?:~\s*(-?\d{1,19})\s*)?", part)
        if match is None:
            raise _unreadable(option, part.strip(), column, "a size is a whole number, -1 or lo~hi")
        lo, hi = int(match[1]), None if match[2] is None else int(match[2])
        if match[2] is not None and hi is not None and (lo < 0 or (hi != ANY_SIZE and hi < lo)):
            raise _unreadable(option, part.strip(), column, "a range goes from its smaller to its larger end")
        dims.append(_checked_dim(option, name, i, lo if hi is None else DimRange(lo, None if hi == ANY_SIZE else hi)))
        column += len(part) + 1
    return _checked_rank(option, name, dims)


def _read_dims(option: str, name: object, dims: object) -> InputDims:
    if not isinstance(name, str) or not name:
        raise mismatch(option, name, "the name of an input", code="E10003")
    if isinstance(dims, str):
        return _parse_dims(option, name, dims, 1)
    if isinstance(dims, int | DimRange) or not isinstance(dims, Iterable):
        raise mismatch(option, dims, f'a list of sizes for "{name}"', code="E10003")
    sizes: list[InputDim] = []
    for i, dim in enumerate(dims):
        if isinstance(dim, str):
            sizes += _parse_dims(option, name, dim, 1)
        elif dim is None:
            sizes.append(ANY_SIZE)
        elif isinstance(dim, DimRange):
            sizes.append(_checked_dim(option, name, i, dim))
        elif isinstance(dim, bool) or not hasattr(dim, "__index__"):  # numpy integers are sizes too
            raise mismatch(option, dim, f'a size for "{name}"', code="E10003")
        else:
            sizes.append(_checked_dim(option, name, i, int(dim)))
    return _checked_rank(option, name, sizes)


def _checked_dim(option: str, name: str, index: int, dim: InputDim) -> InputDim:
    if isinstance(dim, int) and dim <= 0 and dim != ANY_SIZE:
        hint = "give its size, -1 for any, or a range such as 1~8"
        what = f"--{option}: {name} dimension {index} is {dim}"
        raise UsageError("E10011", what, where=Where(option=option, value=name), hint=hint)
    largest = dim if isinstance(dim, int) else dim.hi or dim.lo
    if largest > MAX_DIM:
        what = f"--{option}: {name} dimension {index}: {largest} is outside 1..{MAX_DIM}"
        raise UsageError("E10013", what, where=Where(option=option, value=name))
    return dim


def _checked_rank(option: str, name: str, dims: list[InputDim]) -> InputDims:
    if len(dims) > MAX_RANK:
        what = f"--{option}: {name} has {len(dims)} dimensions, outside 0..{MAX_RANK}"
        raise UsageError("E10013", what, where=Where(option=option, value=name))
    return tuple(dims)


def shape_text(shapes: Mapping[str, InputDims]) -> str:
    """The canonical spelling of `--input_shape`."""
    return ";".join(f"{name}:{','.join(str(dim) for dim in dims)}" for name, dims in sorted(shapes.items()))
