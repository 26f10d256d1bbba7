"""Packages with gears: a plan for each listed set of input shapes; a run takes that of its shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from atcpy.errors import UsageError, Where
from atcpy.ir import Graph
from atcpy.ir.tensor import Array
from atcpy.om.package import Package
from atcpy.runtime.distributed.world import World
from atcpy.runtime.loader import bind_gears
from atcpy.runtime.plan import DirectRun
from atcpy.runtime.workers import Workers


class GearPlans:
    """The plans of a package's gears. Threads may share it."""

    def __init__(self, package: Package, find_graph: Callable[[], Graph], *, workers: Workers, world: World) -> None:
        """Bind all plans. Raises PackageCorrupt (P0005) for one that is malformed."""
        plans = bind_gears(package, find_graph, workers=workers, world=world)
        self.plans = tuple(plans.values())
        self._by_shapes = {shapes: DirectRun(plan) for shapes, plan in plans.items()}
        self._sizes = [gear.text for gear in package.gears]

    def choose(self, values: Sequence[Array]) -> DirectRun:
        """The run for inputs of these shapes. Raises UsageError (E10405) if they are those of no gear."""
        shapes = tuple([value.shape for value in values])
        run = self._by_shapes.get(shapes)
        if run is None:
            raise self._no_gear(shapes)
        return run

    def _no_gear(self, shapes: tuple[tuple[int, ...], ...]) -> UsageError:
        """Name the first input that has such a shape in no gear, or all inputs if only together they fit none."""
        names = [port.name for port in self.plans[0].inputs]
        listed = [{gear[index] for gear in self._by_shapes} for index in range(len(names))]
        alone = [index for index, shape in enumerate(shapes) if shape not in listed[index]]
        what = (
            f'input "{names[alone[0]]}" has no gear of the shape {list(shapes[alone[0]])}'
            if alone
            else "there is no gear of the shapes "
            + ", ".join(f"{n} {list(s)}" for n, s in zip(names, shapes, strict=True))
        )
        hint = f"the gears are {'; '.join(self._sizes)}"
        return UsageError("E10405", f"run: {what}", where=Where(value=names[alone[0]] if alone else ""), hint=hint)
