"""How a package records its gears: sizes and outputs' shapes in MODEL_INOUT_INFO, as GE does; tasks in TASK_INFO.

`atcpy_gears` of TASK_INFO is JSON: `dims`, the names of the dims of inputs and outputs that vary, in order, and
`plans`, tasks and bytes of arena of each gear. The tasks of all gears follow each other.
"""

import json
from collections.abc import Iterator, Sequence

from atcpy.ir import CompiledModel, Gear, Sym
from atcpy.ir.gears import dynamic_output_dims
from atcpy.ir.shape import StaticShape
from atcpy.om.inout import GearInfo, ModelInfo, TensorInfo
from atcpy.options import MAX_DIM, Gears


def gear_info(compiled: CompiledModel) -> GearInfo | None:
    """The gears as MODEL_INOUT_INFO has them."""
    if compiled.gear_kind is None:
        return None
    gears = Gears(compiled.gear_kind, tuple(gear.sizes for gear in compiled.gears))
    return GearInfo(gears, dynamic_output_dims(compiled.gears), tuple(port.name for port in compiled.inputs))


def gears_text(compiled: CompiledModel) -> str:
    """The gears as TASK_INFO has them."""
    shapes = [port.desc.shape or () for port in (*compiled.inputs, *compiled.outputs)]
    names = [dim.name for shape in shapes for dim in shape if isinstance(dim, Sym)]
    plans = [(gear.task_count, gear.arena_bytes) for gear in compiled.gears]
    return json.dumps({"dims": names, "plans": plans}, ensure_ascii=False, separators=(",", ":"))


def read_gears(info: ModelInfo, text: str, task_count: int) -> tuple[tuple[Gear, ...], tuple[str, ...]]:
    """The gears of a package, and the names of the dims that vary. Raises ValueError, TypeError or KeyError for records
    that are malformed, or do not fit the inputs, the outputs or the number of tasks.
    """
    listed = info.gears
    if listed is None:
        raise ValueError("it has no list of gears")
    dims = [port.dims for port in info.inputs]
    count = sum(dim < 0 for shape in dims for dim in shape)
    if count == 0 or count % len(listed.gears.rows[0]):
        raise ValueError(f"{len(listed.gears.rows[0])} sizes of a gear for {count} open dims")
    record = json.loads(text)
    names = tuple(map(_name, record["dims"]))
    plans = [(_count(tasks), _count(arena)) for tasks, arena in record["plans"]]
    if sum(tasks for tasks, _ in plans) != task_count:
        raise ValueError("its gears have more tasks than there are, or fewer")
    if len(names) != count + sum(dim < 0 for port in info.outputs for dim in port.dims):
        raise ValueError("its open dims are not named one by one")
    outputs = list(_output_shapes(listed.output_shapes, info.outputs, len(plans)))
    rows = zip(listed.gears.rows, listed.gears.shapes(dims), outputs, plans, strict=True)
    return tuple(Gear(sizes, inputs, shapes, *plan) for sizes, inputs, shapes, plan in rows), names


def _output_shapes(texts: Sequence[str], ports: Sequence[TensorInfo], gears: int) -> Iterator[tuple[StaticShape, ...]]:
    """The shapes of the outputs of each gear: of `number,output,dims…`, by output and then by gear."""
    shapes: list[StaticShape] = []
    for position, text in enumerate(texts):
        numbers = tuple(map(int, text.split(",")))
        output, number = divmod(position, gears)
        if numbers[:2] != (number, output) or output >= len(ports):
            raise ValueError(f'the shape "{text}" is of no gear and output')
        shape = numbers[2:]
        if any(not 0 <= size <= MAX_DIM or dim not in (size, -1) for size, dim in _paired(shape, ports[output].dims)):
            raise ValueError(f'the shape "{text}" does not fit the output {ports[output].name}')
        shapes.append(shape)
    if len(shapes) != gears * len(ports):
        raise ValueError("shapes of outputs are missing")
    for number in range(gears):
        yield tuple(shapes[number::gears])


def _paired(shape: StaticShape, dims: Sequence[int]) -> Iterator[tuple[int, int]]:
    return zip(shape, dims, strict=True)


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.80} is no name")
    return value


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**47:
        raise ValueError(f"{value!r:.80} is no count")
    return value
