"""Clusters that no plan of the package serves, compiled at run time (GE's hybrid executor).

A graph is compiled when it first gets inputs of new types, as far as these determine the shapes. Then it runs: the
plan, the nodes that follow one by one, and the rest, which is compiled for the results and continues in the same way.
The most recently used variants are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from atcpy.errors import InternalError, PackageCorrupt, ResourceLimit, Where
from atcpy.ir import DType, Graph, Node, Tensor, TensorDesc
from atcpy.ir.desc import UNKNOWN
from atcpy.ir.shape import Shape, element_count
from atcpy.ir.specialization import Specialization
from atcpy.ir.tensor import Array
from atcpy.ops.core.opdef import Bound
from atcpy.ops.core.reference import EVALUATION_ERRORS
from atcpy.runtime.host import RuntimeValue
from atcpy.runtime.iterations import BodyOutput, BodyPlan, Origin
from atcpy.runtime.on_demand import ShapeCache
from atcpy.runtime.plan import ExecutionPlan
from atcpy.runtime.profile import Profile, run_alone

_DEFAULT = "default"  # stands for an input that is not fed in the key of a variant


@dataclass(frozen=True, slots=True)
class _Variant:
    """A graph compiled for one set of input types."""

    steps: Specialization
    constants: Mapping[str, Array]
    plan: ExecutionPlan | None
    rest: HybridGraph | None


class HybridGraph:
    """A graph that is compiled for the inputs that it gets. Threads may share it."""

    def __init__(self, graph: Graph, cache: ShapeCache, by_value: frozenset[str] = frozenset()) -> None:
        self.graph = graph
        self.inputs = tuple(node.output.name for node in graph.inputs)
        self._output_count = len(graph.outputs)
        self._cache = cache
        self._by_value = by_value
        # A default that nothing replaces is a constant to the variant: weights are packed, sizes known.
        self._defaults = {
            node.output.name: default.array
            for node in graph.inputs
            if isinstance(default := node.attrs.get("default"), Tensor)
        }
        self._variants: OrderedDict[Hashable, _Variant] = OrderedDict()

    def run(self, values: Sequence[RuntimeValue], profile: Profile | None = None) -> list[RuntimeValue]:
        """Compute the outputs for inputs in order. Raises the errors of a session's `run`, and PackageCorrupt (P0005)
        for a graph that the compiler cannot have written.
        """
        try:
            return self._run(values, profile)
        except (InternalError, *EVALUATION_ERRORS) as error:
            raise broken_package(error, self.graph.name) from error
        except MemoryError as error:
            raise ResourceLimit("R0001", "no memory for the values of the graph", where=self.graph.name) from error

    def _run(self, values: Sequence[RuntimeValue], profile: Profile | None) -> list[RuntimeValue]:
        results: list[RuntimeValue] = [None] * self._output_count
        output_indices: Sequence[int] = range(self._output_count)
        graph: HybridGraph | None = self
        while graph is not None:
            variant = graph._variant(values)
            steps = variant.steps
            named: dict[str, RuntimeValue] = dict(zip(graph.inputs, values, strict=True))
            named.update(variant.constants)
            if variant.plan is not None:
                arrays = [named[port.name] for port in variant.plan.inputs]
                computed = variant.plan.run(arrays) if profile is None else profile.run_plan(variant.plan, arrays)
                named.update(zip((port.name for port in variant.plan.outputs), computed, strict=True))
                for name, counted in steps.counted.items():
                    if name in named:
                        named[name] = _cut(named[name], counted.shape, int(named[counted.count][0]))
            for node in steps.eager:
                operands = [None if value is None else named[value.name] for value in node.inputs]
                computed = run_alone(node, operands, profile)
                named.update(zip((value.name for value in node.outputs), computed, strict=True))
            for index, name in steps.outputs:
                results[output_indices[index]] = named[name]
            graph = variant.rest
            if graph is not None and steps.rest is not None:
                values = [named[name] for name in graph.inputs]
                output_indices = [output_indices[index] for index in steps.rest.outputs]
        return results

    def plans(self) -> Iterator[ExecutionPlan]:
        """The plans compiled so far, including those of the rests after data-dependent ops."""
        return (variant.plan for variant in self._compiled() if variant.plan is not None)

    def eager_nodes(self) -> Iterator[Node]:
        """The nodes that run one by one after these plans."""
        return (node for variant in self._compiled() for node in variant.steps.eager)

    def _compiled(self) -> Iterator[_Variant]:
        pending: list[HybridGraph] = [self]
        while pending:
            with self._cache.lock:
                variants = list(pending.pop()._variants.values())
            for variant in variants:
                yield variant
                if variant.rest is not None:
                    pending.append(variant.rest)

    def body_plan(self, values: Sequence[RuntimeValue]) -> BodyPlan | None:
        """The plan of the graph for these inputs; None if it takes several, or nodes that run one by one."""
        if not all(isinstance(value, np.ndarray) for value in values):
            return None
        variant = self._variant(values)
        steps = variant.steps
        if variant.plan is None or steps.eager or steps.counted or steps.rest is not None or steps.constants:
            return None
        computed = {port.name: BodyOutput(Origin.PLAN_OUTPUT, index) for index, port in enumerate(variant.plan.outputs)}
        passed = {name: BodyOutput(Origin.BODY_INPUT, index) for index, name in enumerate(self.inputs)}
        sources = passed | computed
        return BodyPlan(
            variant.plan,
            tuple(self.inputs.index(port.name) for port in variant.plan.inputs),
            tuple(sources[name] for _, name in sorted(steps.outputs)),
        )

    def _variant(self, values: Sequence[RuntimeValue]) -> _Variant:
        key = tuple(
            _DEFAULT if self._is_default(name, value) else _signature(value, name in self._by_value)
            for name, value in zip(self.inputs, values, strict=True)
        )
        cache = self._cache
        with cache.lock:
            found = self._variants.get(key)
            if found is not None:
                self._variants.move_to_end(key)
                cache.hits += 1
                return found
            cache.misses += 1
        variant = self._compile(values)
        with cache.lock:
            self._variants[key] = variant
            while len(self._variants) > cache.size:
                self._variants.popitem(last=False)
        return variant

    def _is_default(self, name: str, value: RuntimeValue) -> bool:
        return name in self._defaults and value is self._defaults[name]

    def _compile(self, values: Sequence[RuntimeValue]) -> _Variant:
        cache = self._cache
        types = [
            np.asarray(value) if name in self._by_value or self._is_default(name, value) else _desc(value)
            for name, value in zip(self.inputs, values, strict=True)
        ]
        steps = cache.specialize(self.graph, types)
        plan = None if steps.known is None else cache.bind(steps.known)
        rest = None if steps.rest is None else HybridGraph(steps.rest.graph, cache, steps.rest.by_value)
        constants = {name: _read_only(tensor.array) for name, tensor in steps.constants.items()}
        return _Variant(steps, constants, plan, rest)


def _cut(buffer: Array, shape: Shape, count: int) -> Array:
    """Copy the result out of a larger buffer, at whose beginning it is."""
    true = Bound.cut(shape, count)
    return buffer.reshape(-1)[: element_count(true)].reshape(true).copy()


def broken_package(error: Exception, graph: str) -> PackageCorrupt:
    """The error for a graph that the stages cannot handle; for a package of ours its cause is our bug."""
    where = error.where if isinstance(error, InternalError) else Where(graph=graph)
    what = f"its graph cannot be compiled or run: {type(error).__name__}: {error}"
    return PackageCorrupt("P0005", what.partition("\n")[0], where=where)


def _read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view


def _signature(value: RuntimeValue, by_value: bool) -> Hashable:
    if isinstance(value, np.ndarray):
        key = (value.dtype, value.shape)
        return (*key, value.tobytes()) if by_value else key
    return type(value).__name__


def _desc(value: RuntimeValue) -> TensorDesc:
    if not isinstance(value, np.ndarray):
        return UNKNOWN
    return TensorDesc.plain(DType.from_numpy(value.dtype), value.shape)
