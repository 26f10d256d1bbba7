"""How a package records its gears: sizes and outputs' shapes in MODEL_INOUT_INFO, as GE does; tasks in TASK_INFO.

`atcpy_gears` of TASK_INFO is JSON: tasks and bytes of arena of each gear. The tasks of all gears follow each other.
"""

import json
from collections.abc import Iterator, Sequence

from atcpy.ir import CompiledModel, Gear
from atcpy.ir.gears import dynamic_output_dims
from atcpy.ir.shape import StaticShape
from atcpy.om.inout import GearInfo, ModelInfo
from atcpy.sizes import ANY_SIZE, MAX_DIM, Gears


def gear_info(compiled: CompiledModel) -> GearInfo | None:
    """The gears as MODEL_INOUT_INFO has them."""
    if compiled.gear_kind is None:
        return None
    gears = Gears(compiled.gear_kind, tuple(gear.sizes for gear in compiled.gears))
    return GearInfo(gears, dynamic_output_dims(compiled.gears), tuple(port.name for port in compiled.inputs))


def gears_text(compiled: CompiledModel) -> str:
    """The gears as TASK_INFO has them."""
    return json.dumps([(gear.task_count, gear.arena_bytes) for gear in compiled.gears], separators=(",", ":"))


def read_gears(info: ModelInfo, text: str, task_count: int) -> tuple[Gear, ...]:
    """The gears of a package. Raises ValueError or TypeError for records that are malformed, or do not fit the inputs,
    the outputs or the number of tasks.
    """
    listed = info.gears
    if listed is None:
        raise ValueError("it has no list of gears")
    dims = [port.dims for port in info.inputs]
    outputs = [port.dims for port in info.outputs]
    if any(not ANY_SIZE <= dim <= MAX_DIM for shape in (*dims, *outputs) for dim in shape):
        raise ValueError(f"a dim is outside -1..{MAX_DIM}")
    count = _open_dims(dims)
    if count == 0 or count % len(listed.gears.rows[0]):
        raise ValueError(f"{len(listed.gears.rows[0])} sizes of a gear for {count} open dims")
    plans = [(_count(tasks), _count(arena)) for tasks, arena in json.loads(text)]
    if sum(tasks for tasks, _ in plans) != task_count:
        raise ValueError("its gears have more tasks than there are, or fewer")
    shapes = list(_output_shapes(listed.output_shapes, outputs, len(plans)))
    rows = zip(listed.gears.rows, listed.gears.shapes(dims), shapes, plans, strict=True)
    return tuple(Gear(sizes, inputs, results, *plan) for sizes, inputs, results, plan in rows)


def _open_dims(shapes: Sequence[Sequence[int]]) -> int:
    return sum(dim == ANY_SIZE for shape in shapes for dim in shape)


def _output_shapes(
    texts: Sequence[str], ports: Sequence[Sequence[int]], gears: int
) -> Iterator[tuple[StaticShape, ...]]:
    """The shapes of the outputs of each gear: of `number,output,dims…`, by output and then by gear."""
    shapes: list[StaticShape] = []
    for position, text in enumerate(texts):
        number, output, *shape = map(int, text.split(","))
        if (output, number) != divmod(position, gears) or output >= len(ports):
            raise ValueError(f'the shape "{text}" is of no gear and output')
        pairs = zip(shape, ports[output], strict=True)
        if any(not 0 <= size <= MAX_DIM or dim not in (size, ANY_SIZE) for size, dim in pairs):
            raise ValueError(f'the shape "{text}" does not fit the output {output}')
        shapes.append(tuple(shape))
    if len(shapes) != gears * len(ports):
        raise ValueError("shapes of outputs are missing")
    for number in range(gears):
        yield tuple(shapes[number::gears])


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**47:
        raise ValueError(f"{value!r:.80} is no count")
    return value
