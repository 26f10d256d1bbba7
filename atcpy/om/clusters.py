"""How a package lists the plans of its clusters: JSON beside the tasks and programs, which follow in the same order."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from atcpy.ir import (
    ClusterVariant,
    CompiledCluster,
    CountedOutput,
    DType,
    PlannedCluster,
    State,
    Symbol,
    SymbolicPlan,
    Task,
    Variable,
)
from atcpy.om.task_record import TaskRecords
from atcpy.sizes import MAX_DIM

MAX_RANK = 64

# While a package is read: the variants of a cluster mostly have the same variables and symbols. `typed`: true and 1.0
# are no index 1.
_cached = lru_cache(maxsize=256, typed=True)


def encode(clusters: Sequence[CompiledCluster]) -> list[object]:
    """Return everything but tasks and programs, for JSON."""
    return [
        {
            "graph": cluster.graph,
            "step": cluster.step,
            "whole": cluster.is_whole,
            "inputs": [_encode_variable(variable) for variable in cluster.inputs],
            "variants": [
                {
                    "plans": [_encode_plan(plan) for plan in variant.plans],
                    "outputs": list(variant.outputs),
                    "condition": variant.condition,
                }
                for variant in cluster.variants
            ],
            "states": [[state.input, state.output, state.axis, state.parts] for state in cluster.states],
        }
        for cluster in clusters
    ]


def _encode_variable(variable: Variable) -> list[object]:
    return [variable.name, variable.dtype.name, list(variable.dims)]


def _encode_plan(plan: SymbolicPlan[tuple[Task, ...]]) -> dict[str, object]:
    return {
        "symbols": [[symbol.name, symbol.variable, symbol.index, symbol.is_element] for symbol in plan.symbols],
        "inputs": list(plan.inputs),
        "outputs": [_encode_variable(variable) for variable in plan.outputs],
        "counted": [[counted.output, counted.count, list(counted.axes)] for counted in plan.counted],
    }


def decode(
    text: str, programs: Sequence[tuple[TaskRecords, bytes]], outputs: int
) -> tuple[PlannedCluster[TaskRecords], ...]:
    """Return the clusters that `encode` described, of a model with so many outputs. Raises ValueError, TypeError,
    KeyError or RecursionError for what it cannot have written: each index is checked here.
    """
    remaining = iter(programs)
    try:
        clusters = tuple([_cluster(item, remaining, outputs) for item in _list(json.loads(text))])
    finally:  # nothing of a package stays when it is closed
        _checked_variable.cache_clear()
        _checked_symbol.cache_clear()
    if next(remaining, None) is not None:
        raise ValueError("there are more programs than plans")
    return clusters


def _cluster(item: Any, programs: Iterator[tuple[TaskRecords, bytes]], outputs: int) -> PlannedCluster[TaskRecords]:
    inputs = tuple([_variable(variable) for variable in _list(item["inputs"])])
    variants = tuple([_variant(variant, inputs, programs) for variant in _list(item["variants"])])
    if not variants:
        raise ValueError("a cluster has no plan")
    states = tuple([_state(state, inputs, outputs) for state in _list(item["states"])])
    if any(len(set(numbers)) < len(states) for numbers in zip(*((s.input, s.output) for s in states), strict=True)):
        raise ValueError("two states are the same input or output")
    graph, step = _index(item["graph"], MAX_DIM), _index(item["step"], MAX_DIM)
    return PlannedCluster(graph, step, inputs, variants, _is_whole(item["whole"], graph, step), states)


def _is_whole(item: Any, graph: int, step: int) -> bool:
    if not isinstance(item, bool) or (item and (graph, step) != (0, 0)):
        raise ValueError(f"step {step} of graph {graph} is not all of the model")
    return item


def _state(item: Any, inputs: Sequence[Variable], outputs: int) -> State:
    source, output, axis, parts = item
    dims = inputs[_index(source, len(inputs))].dims
    state = State(source, _index(output, outputs), _index(axis, len(dims)), _index(parts, MAX_DIM))
    if dims[axis] != -1 or parts < 1 or (parts > 1 and (axis == 0 or dims[0] != parts)):
        raise ValueError(f"input {source} is no state of {parts} parts that grows along axis {axis}")
    return state


def _variant(
    item: Any, inputs: Sequence[Variable], programs: Iterator[tuple[TaskRecords, bytes]]
) -> ClusterVariant[TaskRecords]:
    variables = list(inputs)
    plans: list[SymbolicPlan[TaskRecords]] = []
    for plan in _list(item["plans"]):
        plans.append(_plan(plan, variables, programs))
        variables += plans[-1].outputs
    outputs, condition = _list(item["outputs"]), item["condition"]
    if condition is not None and not variables[_index(condition, len(variables))].dtype.is_int:
        raise ValueError(f"variable {condition} is no condition")
    return ClusterVariant(tuple(plans), tuple([_index(output, len(variables)) for output in outputs]), condition)


def _plan(
    item: Any, variables: Sequence[Variable], programs: Iterator[tuple[TaskRecords, bytes]]
) -> SymbolicPlan[TaskRecords]:
    outputs = tuple([_variable(variable) for variable in _list(item["outputs"])])
    symbols = [_symbol(symbol, variables) for symbol in _list(item["symbols"])]
    inputs = [_index(number, len(variables)) for number in _list(item["inputs"])]
    counted = [_counted(entry, outputs) for entry in _list(item["counted"])]
    found = next(programs, None)
    if found is None:
        raise ValueError("there are fewer programs than plans")
    return SymbolicPlan(tuple(symbols), *found, tuple(inputs), outputs, tuple(counted))


def _symbol(item: Any, variables: Sequence[Variable]) -> Symbol:
    name, variable, index, is_element = item
    source = variables[_index(variable, len(variables))]
    return _checked_symbol(name, variable, index, is_element, source.dtype, len(source.dims))


@_cached
def _checked_symbol(name: Any, variable: int, index: Any, is_element: Any, dtype: DType, rank: int) -> Symbol:
    if not isinstance(name, str) or not isinstance(is_element, bool):
        raise ValueError(f"{name!r:.80} is no symbol")
    if is_element and not ((dtype.is_int and dtype.bits >= 8) or dtype is DType.BOOL):
        raise ValueError(f"elements of variable {variable} are no sizes")
    return Symbol(name, variable, _index(index, MAX_DIM if is_element else rank), is_element)


def _counted(item: Any, outputs: Sequence[Variable]) -> CountedOutput:
    output, count, axes = item
    source, counter = outputs[_index(output, len(outputs))], outputs[_index(count, len(outputs))]
    if (counter.dtype, counter.dims) != (DType.INT64, (1,)):
        raise ValueError(f"output {count} is no count")
    return CountedOutput(output, count, tuple([_index(axis, len(source.dims)) for axis in _list(axes)]))


def _variable(item: Any) -> Variable:
    name, dtype, dims = item
    return _checked_variable(name, dtype, *_list(dims))


@_cached
def _checked_variable(name: Any, dtype: Any, *dims: Any) -> Variable:
    if not isinstance(name, str) or dtype not in DType.__members__ or len(dims) > MAX_RANK:
        raise ValueError(f"{name!r:.80} is no tensor")
    return Variable(name, DType[dtype], tuple([_index(dim + 1, MAX_DIM + 2) - 1 for dim in dims]))


def _list(item: Any) -> list[Any]:
    if not isinstance(item, list):
        raise ValueError(f"{item!r:.80} is no list")
    return item


def _index(item: Any, end: int) -> int:
    if type(item) is not int or not 0 <= item < end:
        raise ValueError(f"{item!r:.80} is no number below {end}")
    return item
