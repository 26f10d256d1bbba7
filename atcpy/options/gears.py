"""Gears: sizes that are listed for the dims that `--input_shape` leaves open."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from atcpy.errors import UsageError, Where, count_of
from atcpy.options.readers import mismatch, read_int, text_of
from atcpy.options.records import DimRange, Framework, InputDims
from atcpy.sizes import ANY_SIZE, MAX_DIM, GearKind, Gears

MAX_GEARS = 100


def _read_gears(option: str, value: object, separator: str) -> tuple[tuple[int, ...], ...]:
    """Rows of sizes: texts with a separator between rows and commas inside them, or a list of numbers or lists."""
    rows = [row for row in text_of(option, value).split(separator) if row.strip()] if isinstance(value, str) else value
    if isinstance(rows, bytes | Mapping) or not isinstance(rows, Iterable):
        raise mismatch(option, value, "a list of sizes", code="E10003")
    gears = tuple(tuple(_sizes_of_gear(option, row)) for row in rows)
    where = Where(option=option)
    if not 2 <= len(gears) <= MAX_GEARS:
        code = "E10035" if len(gears) < 2 else "E10036"
        hint = "fix the shape: --input_shape" if len(gears) < 2 else "list fewer, or keep the dims open"
        raise UsageError(
            code, f"--{option}: {count_of(len(gears), 'gear')}; 2 to {MAX_GEARS} are possible", where=where, hint=hint
        )
    first_with: dict[tuple[int, ...], int] = {}
    for index, gear in enumerate(gears):
        if len(gear) != len(gears[0]):
            what = f"--{option}: gear {index} has {count_of(len(gear), 'number')}, gear 0 has {len(gears[0])}"
            raise UsageError("E10037", what, where=where)
        if min(gear, default=0) <= 0:
            raise UsageError(
                "E10038", f"--{option}: gear {index} is {min(gear, default=0)}", where=where, hint="sizes begin at 1"
            )
        if first_with.setdefault(gear, index) != index:
            what = f"--{option}: gears {first_with[gear]} and {index} are the same"
            raise UsageError("E10039", what, where=where)
    return gears


def _sizes_of_gear(option: str, row: object) -> Iterator[int]:
    parts: object = [part for part in row.split(",") if part.strip()] if isinstance(row, str) else row
    for part in parts if isinstance(parts, Iterable) else (parts,):
        number = int(part) if hasattr(part, "__index__") and not isinstance(part, bool) else part  # of numpy, too
        yield read_int(option, number, -MAX_DIM, MAX_DIM)


def read_batches(option: str, value: object) -> tuple[tuple[int, ...], ...]:
    """`1,2,4`, or a list of numbers: gears of one number."""
    return _read_gears(option, value, ",")


def read_dims(option: str, value: object) -> tuple[tuple[int, ...], ...]:
    """`1,16;1,32`, or a list of lists."""
    return _read_gears(option, value, ";")


def read_images(option: str, value: object) -> tuple[tuple[int, ...], ...]:
    """`416,416;832,832`, or a list of pairs: height and width."""
    gears = read_dims(option, value)
    if len(gears[0]) != 2:
        what = f'--{option}: gear 0 "{",".join(map(str, gears[0]))}" has {count_of(len(gears[0]), "number")}, needs H,W'
        raise UsageError("E10020", what, where=Where(option=option))
    return gears


def batches_text(rows: Sequence[Sequence[int]]) -> str:
    """The canonical spelling of batch sizes."""
    return ",".join(str(row[0]) for row in rows)


def rows_text(rows: Sequence[Sequence[int]]) -> str:
    """The canonical spelling of gears."""
    return ";".join(",".join(map(str, row)) for row in rows)


GEAR_OPTIONS = {
    "dynamic_batch_size": GearKind.BATCH,
    "dynamic_image_size": GearKind.IMAGE,
    "dynamic_dims": GearKind.DIMS,
}
_ANY_DIMS = "--dynamic_dims lists sizes of any dims"


def gears_of(value: Mapping[str, Any]) -> Gears | None:
    """The gears of a conversion. Raises UsageError where --input_shape does not leave open what they list."""
    options = [option for option in GEAR_OPTIONS if value[option]]
    if not options:
        return None
    option, shapes = options[0], value["input_shape"]
    where = Where(option=option)
    if len(options) > 1:
        what = f"--{option} and --{options[1]} cannot be used together"
        raise UsageError("E10009", what, where=where, hint=_ANY_DIMS)
    if not shapes:
        hint = '--input_shape="name:-1,3,224,224": -1 where a size varies'
        raise UsageError("E10004", f"--{option} needs --input_shape", where=where, hint=hint)
    for name, dims in shapes.items():
        if ranges := [dim for dim in dims if isinstance(dim, DimRange)]:
            what = f'--{option}: {name} must have -1 where it varies, not "{ranges[0]}"'
            raise UsageError("E10040", what, where=where)
    gears = Gears(GEAR_OPTIONS[option], value[option])
    opened = {name: tuple(axis for axis, dim in enumerate(dims) if dim == ANY_SIZE) for name, dims in shapes.items()}
    opened = {name: axes for name, axes in opened.items() if axes}
    match gears.kind:
        case GearKind.BATCH:
            _check_batches(option, opened, shapes)
        case GearKind.IMAGE:
            framework = value["framework"]
            _check_images(
                option, opened, shapes, value["input_format"] or ("NHWC" if framework is Framework.TENSORFLOW else "")
            )
        case GearKind.DIMS:
            _check_dims(option, opened, len(gears.rows[0]))
    return gears


def _check_batches(option: str, opened: Mapping[str, Sequence[int]], shapes: Mapping[str, InputDims]) -> None:
    where = Where(option=option)
    if not opened:
        name, dims = next(iter(shapes.items()))
        hint = f'--input_shape="{name}:{",".join(("-1", *map(str, dims[1:])))}"'
        raise UsageError("E10031", f"--{option}: no input has -1 at dimension 0", where=where, hint=hint)
    for name, axes in opened.items():
        if axes != (0,):
            what = f"--{option}: {name} has -1 at dimension {axes[-1]}; only dimension 0 may vary"
            raise UsageError("E10018", what, where=where, hint=_ANY_DIMS)


_IMAGE_AXES = {"NCHW": ((2, 3),), "NHWC": ((1, 2),), "": ((2, 3), (1, 2))}


def _check_images(option: str, opened: Mapping[str, Sequence[int]], shapes: Mapping[str, InputDims], form: str) -> None:
    where = Where(option=option)
    if not opened:
        raise UsageError("E10019", f"--{option}: no input has -1 at H and W", where=where, hint=_ANY_DIMS)
    for name, axes in opened.items():
        if len(shapes[name]) != 4 or axes not in _IMAGE_AXES.get(form, ()):
            dims = ",".join(map(str, shapes[name]))
            what = f"--{option}: {name} {dims}: only H and W of {form or 'NCHW or NHWC'} may be -1, and both must"
            raise UsageError("E10019", what, where=where, hint=f"{_ANY_DIMS}; --input_format names the layout")


def _check_dims(option: str, opened: Mapping[str, Sequence[int]], numbers: int) -> None:
    count = sum(map(len, opened.values()))
    if count != numbers:
        listed = ", ".join(f"{name} {list(axes)}" for name, axes in opened.items()) or "none"
        what = f"--{option}: {count_of(numbers, 'number')} a gear, but {count} dims are -1 ({listed})"
        raise UsageError("E10045", what, where=Where(option=option))


def in_order_of_names(values: dict[str, Any]) -> None:
    """Sort the inputs of --input_shape and the numbers of --dynamic_dims alike, as the command line is recorded."""
    shapes: Mapping[str, InputDims] = values["input_shape"]
    owners = [name for name, dims in shapes.items() for dim in dims if dim == ANY_SIZE]
    order = sorted(range(len(owners)), key=owners.__getitem__)
    rows = values["dynamic_dims"]
    if len(rows[0]) == len(order):
        values["dynamic_dims"] = tuple(tuple(row[column] for column in order) for row in rows)
        values["input_shape"] = dict(sorted(shapes.items()))
