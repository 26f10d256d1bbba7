"""States: caches that a session keeps from run to run, with room for more rows than they hold.

The plans of the package for bound states read them where they lie and write the new rows behind them. What these do not
serve runs as if nothing were bound, mostly the first run, when the caches are empty; its outputs are copied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from atcpy.errors import ModelInvalid, PackageCorrupt, ResourceLimit, UsageError
from atcpy.ir import DType, PlannedCluster, State
from atcpy.ir.shape import StaticShape, format_shape
from atcpy.ir.tensor import Array
from atcpy.om.task_record import TaskRecords
from atcpy.runtime.memory import readable
from atcpy.runtime.plan import ExecutionPlan
from atcpy.runtime.planned_model import is_variable
from atcpy.runtime.ports import find_port
from atcpy.runtime.symbolic import Instances, PlanContext, PlanTemplate
from atcpy.sizes import MAX_DIM

if TYPE_CHECKING:
    from atcpy.ir import Node
    from atcpy.om.package import Package
    from atcpy.runtime.profile import Profile
    from atcpy.runtime.session import NodeArg


@dataclass(frozen=True, slots=True)
class _Instance:
    """A plan for certain sizes: the shapes of the outputs that are no states, and how many rows the states have after
    a run.
    """

    plan: ExecutionPlan
    shapes: tuple[StaticShape, ...]
    rows: int


def load_states(context: PlanContext, find_nodes: Callable[[], Sequence[Node]]) -> StatePlans | None:
    """Return the plans for bound states, if the package has some. Raises PackageCorrupt (P0005) for malformed ones."""
    records = [record for record in context.package.clusters if record.states]
    if not records:
        return None
    if len(records) > 1 or not _has_ports(records[0], context.package):
        raise context.corrupt("it has plans with states that are not those of its model")
    return StatePlans(records[0], context, find_nodes)


def _has_ports(record: PlannedCluster[TaskRecords], package: Package) -> bool:
    """Do plans have the inputs of a model and the capacity, and the outputs that are no states, then the condition if
    there is one, then the states?
    """
    first, ports = len(record.inputs), sum(state.parts for state in record.states)
    others = len(package.open_outputs) - len(record.states)
    return (
        first == len(package.open_inputs) + 1
        and all(map(is_variable, record.inputs, package.open_inputs))
        and all(
            [len(plan.outputs) for plan in variant.plans] == [others + (variant.condition is not None) + ports]
            and variant.outputs == tuple(range(first, first + others))
            and variant.condition in (None, first + others)
            and all(len(port.dims) == 1 for port in variant.plans[0].outputs[-ports:])
            and not variant.plans[0].counted
            for variant in record.variants
        )
    )


class StatePlans:
    """The plans of a package for its states."""

    def __init__(
        self, record: PlannedCluster[TaskRecords], context: PlanContext, find_nodes: Callable[[], Sequence[Node]]
    ) -> None:
        """Raises PackageCorrupt (P0005) for what is malformed."""
        self.states = record.states
        self._context, self._find_nodes = context, find_nodes
        self._inputs = record.inputs
        self._has_condition = [variant.condition is not None for variant in record.variants]
        self._plans = [PlanTemplate(variant.plans[0], record.inputs, context, None) for variant in record.variants]
        context.check_first([plan] for plan in self._plans)
        self._instances = Instances[_Instance]()
        self._last = 0  # the variant that served last
        symbols = (symbol for plan in self._plans for symbol in plan.record.symbols)
        self.sized = frozenset(symbol.variable for symbol in symbols)  # the inputs whose shapes count

    def run(
        self, values: Sequence[Any], states: Sequence[Array], profile: Profile | None
    ) -> tuple[list[Array], int] | None:
        """The outputs that are no states, and how many rows the states have then; None if no variant serves. `values`
        are the inputs, which need no more than a shape where they are states, and an array as long as the capacity.
        """
        others = (number for number in range(len(self._plans)) if number != self._last)
        for number in (self._last, *others):
            plan = self._plans[number]
            arrays = [readable(values[index], self._inputs[index].dtype) for index in plan.record.inputs]
            found = self._find(number, values, [*arrays, *states], len(states))
            if found is not None:
                self._last = number
                variables = plan.record.outputs
                results = [
                    np.zeros(shape, variable.dtype.numpy)
                    for variable, shape in zip(variables, found.shapes, strict=False)
                ]
                outputs = [*results, *states]
                try:
                    if profile is None:
                        found.plan.run_in(arrays, outputs)
                    else:
                        profile.run_plan_in(found.plan, arrays, outputs)
                except ModelInvalid:
                    if self._has_condition[number]:
                        return None  # a rule may be broken for that alone
                    raise
                if self._has_condition[number] and results.pop().any():
                    return None
                return results, found.rows
        return None

    def _find(self, number: int, values: Sequence[Any], arrays: Sequence[Array], states: int) -> _Instance | None:
        plan = self._plans[number]
        sizes = plan.sizes(values)
        if sizes is None:
            return None
        return self._instances.find((number, *sizes), lambda: self._complete(plan, sizes, arrays, states))

    def _complete(
        self, plan: PlanTemplate, sizes: tuple[int, ...], arrays: Sequence[Array], states: int
    ) -> _Instance | None:
        """The plan for these sizes, or None if it serves others. `arrays` are the inputs and the states."""
        completed = plan.instantiate(sizes)
        if completed is None:
            return None
        (_, port_bytes, shapes, _), variables = completed, plan.record.outputs
        if len(shapes) != len(variables) or len(shapes[-1]) != 1:
            raise self._context.corrupt("its plan has other outputs")
        results = tuple(shapes[: len(shapes) - states])
        result_bytes = [variable.dtype.nbytes(prod(shape)) for variable, shape in zip(variables, results, strict=False)]
        inputs = len(arrays) - states
        expected = [array.nbytes for array in arrays]
        if port_bytes != [*expected[:inputs], *result_bytes, *expected[inputs:]]:
            raise self._context.corrupt("its plan has inputs, outputs or states of another size")
        return _Instance(plan.execution_plan(completed, self._find_nodes), results, shapes[-1][0])


class BoundStates:
    """The caches of a session. One run at a time may use them."""

    def __init__(
        self,
        inputs: Sequence[NodeArg],
        outputs: Sequence[NodeArg],
        states: Mapping[str, str],
        capacity: int,
        plans: StatePlans | None,
    ) -> None:
        """`states` maps outputs to inputs, by name. `plans` are those of the package for its states, if it has some.
        Raises UsageError for what cannot be bound.
        """
        if not 1 <= capacity <= MAX_DIM:
            raise UsageError("E10013", f"bind_state: a capacity of {capacity} is outside 1..{MAX_DIM}")
        self._inputs, self._outputs, self._capacity = inputs, outputs, capacity
        self._states = [self._state(output, input_) for output, input_ in states.items()]
        self._names = {inputs[state.input].name: state.input for state in self._states}
        if len(self._names) < len(self._states):
            raise UsageError("E13025", "bind_state: two outputs are bound to one input")
        self.outputs = frozenset(state.output for state in self._states)
        self.others = [index for index in range(len(outputs)) if index not in self.outputs]
        self._arrays: list[Array] = []
        self._ports: list[Array] = []  # their parts, as plans have them
        self._sizes: dict[str, int] = {}  # of dims that the caches have
        self._growing = frozenset(_dim(inputs[state.input], state.axis) for state in self._states)
        self.length = 0
        self._size = np.broadcast_to(np.uint8(0), (capacity,))  # tells plans the capacity
        self._lock = Lock()
        self._plans = plans if plans is not None and _serves(plans, self._states) else None
        if self._plans is not None:
            self._states = list(self._plans.states)
        # The states that runs need more of than that they are there.
        self._shown = frozenset(self._names.values()) if self._plans is None else self._plans.sized

    def _state(self, output: str, input_: str) -> State:
        past = find_port(self._inputs, input_, "bind_state", "input")
        present = find_port(self._outputs, output, "bind_state", "output")
        old, new = self._inputs[past], self._outputs[present]
        if old.dtype is not new.dtype or old.dtype is DType.UNDEFINED or old.dtype.bits < 8:
            raise _no_state(old, new, f"their types are {old.type} and {new.type}")
        if old.shape is None or new.shape is None or len(old.shape) != len(new.shape):
            raise _no_state(old, new, "they have other ranks")
        axes = [axis for axis, (a, b) in enumerate(zip(old.shape, new.shape, strict=True)) if a != b]
        if len(axes) != 1 or isinstance(old.shape[axes[0]], int):
            raise _no_state(
                old,
                new,
                f"{format_shape(old.shape)} does not become {format_shape(new.shape)} by rows along one open axis",
            )
        return State(past, present, axes[0], parts=1)

    def run(
        self,
        feeds: Mapping[str, Any],
        check: Callable[[Mapping[str, Any], Mapping[int, Array | None], dict[str, int]], list[Any]],
        compute: Callable[[Sequence[Any], Mapping[str, Any], Profile | None], list[Any]],
        profile: Profile | None = None,
    ) -> list[Any]:
        """The outputs, without those that are states. Rows are added only by a run that succeeds. Raises what `check`
        and `compute` do, and UsageError for states that are fed, full, or in use.
        """
        fed = sorted(self._names.keys() & feeds.keys())
        if fed:
            raise UsageError("E13025", f'run: input "{fed[0]}" is a state of the session, it cannot be fed')
        if not self._lock.acquire(blocking=False):
            raise UsageError("E13025", "run: the states are in use by another run", hint="take a session a thread")
        try:
            if self.length == 0:
                self._allocate(feeds)
            views = {
                state.input: self._rows(number) if state.input in self._shown else None
                for number, state in enumerate(self._states)
            }
            values = check(feeds, views, {**self._sizes, **dict.fromkeys(self._growing, self.length)})
            results = self._extend(values, profile)
            if results is None:
                for number, state in enumerate(self._states):
                    values[state.input] = self._rows(number)
                results = compute(values, feeds, profile)
                self._take(results)
            return results
        finally:
            self._lock.release()

    def reset(self, length: int) -> None:
        """Forget all rows but the first ones."""
        if not 0 <= length <= self.length:
            raise UsageError("E10013", f"reset_state: {length} rows of {self.length}")
        self.length = length

    def rows_of(self, output: int) -> Array:
        """A copy of the rows of a state."""
        return self._rows(next(number for number, state in enumerate(self._states) if state.output == output)).copy()

    def _rows(self, number: int) -> Array:
        """The rows of a state that are in use, not copied."""
        return _rows(self._arrays[number], self._states[number].axis, self.length)

    def _allocate(self, feeds: Mapping[str, Any]) -> None:
        """Make caches for the sizes that the other inputs have."""
        sizes: dict[int | str, int] = {}
        for port in self._inputs:
            if port.name in feeds and port.shape is not None:
                sizes.update(zip(port.shape, np.shape(feeds[port.name]), strict=False))
        shapes = [self._shape(state, sizes) for state in self._states]
        ports = [self._inputs[state.input].shape or () for state in self._states]
        dims = (item for port, shape in zip(ports, shapes, strict=True) for item in zip(port, shape, strict=True))
        self._sizes = {dim: size for dim, size in dims if isinstance(dim, str)}
        if shapes == [array.shape for array in self._arrays]:
            return
        dtypes = [self._inputs[state.input].dtype.numpy for state in self._states]
        try:
            self._arrays = [np.zeros(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
        except (MemoryError, ValueError) as error:
            raise ResourceLimit("R0001", f"no memory for states of {self._capacity} rows") from error
        both = zip(self._states, self._arrays, strict=True)
        self._ports = [part for state, array in both for part in (array if state.parts > 1 else [array])]

    def _shape(self, state: State, sizes: Mapping[int | str, int]) -> StaticShape:
        port, shape = self._inputs[state.input], []
        assert port.shape is not None
        for axis, dim in enumerate(port.shape):
            if axis != state.axis and isinstance(dim, str) and dim not in sizes:
                hint = "fix it by --input_shape when the model is converted"
                raise UsageError("E13025", f'run: no input tells the size {dim} of the state "{port.name}"', hint=hint)
            shape.append(self._capacity if axis == state.axis else dim if isinstance(dim, int) else sizes[dim])
        return tuple(shape)

    def _extend(self, values: Sequence[Any], profile: Profile | None) -> list[Any] | None:
        """Run by a plan that writes new rows into the caches; None if none serves."""
        extended = None if self._plans is None else self._plans.run([*values, self._size], self._ports, profile)
        if extended is None:
            return None
        computed, rows = extended
        if not self.length <= rows <= self._capacity:
            raise PackageCorrupt("P0005", f"a plan says that states of {self.length} rows have {rows} after it")
        self.length = rows
        others = iter(computed)
        return [None if index in self.outputs else next(others) for index in range(len(self._outputs))]

    def _take(self, results: Sequence[Any]) -> None:
        """Copy states that were computed without room for more rows."""
        rows = results[self._states[0].output].shape[self._states[0].axis] if self._states else 0
        for state, array in zip(self._states, self._arrays, strict=True):
            shape = _rows(array, state.axis, rows).shape
            name, found = self._outputs[state.output].name, results[state.output].shape
            if rows > self._capacity:
                what = f'run: the state "{name}" has room for {self._capacity} rows, not for {rows}'
                raise UsageError("E10406", what, hint="a larger capacity (bind_state, run --capacity), or reset_state")
            if found != shape or rows < self.length:
                what = (
                    f'run: output "{name}" is {format_shape(found)}, no state of {self.length} rows with more of them'
                )
                raise UsageError("E13031", what)
        for state, array in zip(self._states, self._arrays, strict=True):
            _rows(array, state.axis, rows)[...] = results[state.output]
        self.length = rows


def _dim(port: NodeArg, axis: int) -> str:
    dim = (port.shape or ())[axis]
    assert isinstance(dim, str)
    return dim


def _serves(plans: StatePlans, states: Sequence[State]) -> bool:
    """Are the states of these plans those that are bound?"""
    return {replace(state, parts=1) for state in plans.states} == set(states)


def _rows(array: Array, axis: int, rows: int) -> Array:
    """The first rows of a cache, not copied."""
    return array[(slice(None),) * axis + (slice(rows),)]


def _no_state(old: NodeArg, new: NodeArg, reason: str) -> UsageError:
    return UsageError("E13031", f'bind_state: "{new.name}" is not "{old.name}" with new rows: {reason}')
