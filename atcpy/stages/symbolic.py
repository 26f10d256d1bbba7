"""Planning ahead for all sizes of open dims: the stages from prepare to compile, on symbols instead of numbers.

`ir/symbolic.py` lets the stages run as they are. What they decide by comparing sizes becomes a guard of the
plan, unless it holds for all sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest

from atcpy.errors import AtcError, InternalError, ModelInvalid
from atcpy.ir import (
    ClusterVariant,
    CompiledCluster,
    CompiledModel,
    CountedOutput,
    DType,
    Engine,
    Graph,
    Node,
    PlannedCluster,
    State,
    StaticShape,
    Sym,
    Symbol,
    SymbolicPlan,
    Task,
    Tensor,
    TensorDesc,
    Variable,
    nodes_with_bodies,
    with_bodies,
)
from atcpy.ir.clone import clone, extract
from atcpy.ir.specialization import Counted, Rest
from atcpy.ir.symbolic import Guard, NoSizesLeft, Question, SizesMustAgree, Tracer, is_symbolic
from atcpy.kernels.record import HOST_FAMILY
from atcpy.kernels.symbolic_program import encode_program
from atcpy.ops.core.plan_loop import flattened_graphs
from atcpy.ops.core.reference import EVALUATION_ERRORS
from atcpy.ops.core.steps import IN_PLAN, cluster_graph, find_steps
from atcpy.options import Limits
from atcpy.passes.compile.bind_states import NoStates, bind_states
from atcpy.passes.compile.emit_tasks import Identity, WeightLayout, emit_symbolic, keep_unknown, output_names
from atcpy.passes.compile.plan_largest import plan_largest
from atcpy.passes.full_caches import FullCaches
from atcpy.passes.pass_manager import PassManager
from atcpy.passes.split.known_shapes import cut_known, has_memory
from atcpy.passes.split.plan_control_flow import use_plan_form
from atcpy.passes.split.shape_arithmetic import find_decisive_inputs
from atcpy.stages.cases import Cases
from atcpy.stages.optimize import optimize
from atcpy.stages.prepare import prepare, prepare_bodies, set_precision
from atcpy.stages.split import split
from atcpy.stages.symbols import OTHER_SIZE_EXAMPLES, SIZE_EXAMPLES, Case, Symbols, Untraceable

_CAPACITY = Variable("capacity", DType.UINT8, (-1,))  # of states; only its size is read
_MAX_EQUATIONS = 8
_MAX_SPECIAL_NODES = 8000  # of all that a graph is traced for beside the general plan
_MIN_ATTEMPTS, _MAX_ATTEMPTS = 4, 48  # to find variants
_MAX_FAILURES = 16  # one after the other: what is tried last is the least frequent
MAX_VARIANTS = 16


def plan_unknown(graph: Graph, full: FullCaches | None, identity: Identity, manager: PassManager) -> CompiledModel:
    """Keep a graph with unknown shapes, with plans for those of its clusters that can have some. Where there is a graph
    with `full` caches, not prepared, its plans come before those of the graph, and it has those for bound states.
    """
    weights = WeightLayout()
    quiet = PassManager(manager.options, manager.passes, manager.deadline)
    planned: list[CompiledCluster] = []
    reasons: list[str] = []
    in_plans: set[Graph] = set()  # bodies that are part of the plans of graphs around them
    for number, owner in enumerate(with_bodies(graph)):
        if owner not in in_plans:
            nodes = nodes_with_bodies(owner)
            order = (*range(len(owner), len(nodes)), *range(len(owner)))  # the graph's own names come last, and stay
            kept = {name: index for index in order for name in (nodes[index].name, *nodes[index].sources)}
            found = _plan_graph(number, owner, _Context(quiet, weights, kept, full))
            planned += found.clusters
            reasons += found.reasons
        in_plans.update(
            body for node in owner.nodes if owner in in_plans or node.attrs.get(IN_PLAN) for body in node.subgraphs
        )
    return replace(keep_unknown(graph, identity, weights, planned), unplanned=next(iter(reasons), ""))


@dataclass(frozen=True, slots=True)
class _Planned:
    """The plans of a graph's clusters, and why some have none."""

    clusters: list[CompiledCluster]
    reasons: list[str]


def _plan_graph(number: int, owner: Graph, context: _Context) -> _Planned:
    """Plan the clusters of a graph, with as much of its control flow in them as can be."""
    control = list(owner.nodes_of("If", "Loop", "Scan"))
    before = context.weights.size()
    for nodes in (control, None, []) if control else ([],):
        # If not all of it fits into the plans, what does on its own is tried.
        chosen = [node for node in control if _can_be_planned(node, context)] if nodes is None else nodes
        if nodes is None and (not chosen or len(chosen) == len(control)):
            continue
        for node in control:
            node.attrs.pop(IN_PLAN, None)
        for node in chosen:
            node.attrs[IN_PLAN] = 1
        planned = _plan_clusters(number, owner, context, is_strict=bool(chosen))
        if planned is not None:
            return planned
        context.weights.shrink(before)
    raise InternalError("a graph without control flow in its plans has none at all")


def _can_be_planned(node: Node, context: _Context) -> bool:
    """Whether there is a plan of a node of control flow alone."""
    assert node.graph is not None
    before = context.weights.size()
    node.attrs[IN_PLAN] = 1
    try:
        part = extract(node.graph, [node], node.outputs)
        _first_that_fits(partial(_trace, part, context=context, use=_Use(dims_agree=False)), OTHER_SIZE_EXAMPLES)
    except Untraceable:
        return False
    finally:
        context.weights.shrink(before)
    return True


def _plan_clusters(number: int, owner: Graph, context: _Context, *, is_strict: bool) -> _Planned | None:
    """Plan the clusters of a graph; None if it `is_strict` and one with control flow has no plan."""
    planned: list[CompiledCluster] = []
    reasons: list[str] = []
    for step, cluster in enumerate(find_steps(owner)):
        if isinstance(cluster, Node):
            continue
        before = context.weights.size()
        try:
            # The session compares the inputs of the model with each other; nobody does for other tensors.
            is_whole = number == 0 and cluster.is_whole
            traces = _plan_variants(cluster_graph(owner, cluster), context, _Use(dims_agree=is_whole))
            inputs = tuple(_variable(value.name, value.desc) for value in cluster.inputs)
        except Untraceable as untraceable:
            if is_strict and any(node.attrs.get(IN_PLAN) for node in cluster.nodes):
                return None
            context.weights.shrink(before)
            reasons.append(untraceable.reason)
            continue
        if is_whole:
            traces = [*_plan_full(context), *traces, *_plan_fed(owner, context)]
        _check_memory(traces, context.manager.options.limits)
        variants = tuple(trace.variant() for trace in traces)
        planned.append(PlannedCluster(number, step, inputs, variants, is_whole))
        if is_whole and _may_have_states(owner):
            planned += _plan_states(owner, inputs, context)
    return _Planned(planned, reasons)


def _plan_full(context: _Context) -> list[_Trace]:
    """Plan the model for caches that are full; nothing if that cannot be."""
    before, full = context.weights.size(), context.full
    try:
        if full is not None:
            prepare(full.graph, context.manager)
            set_precision(full.graph, context.manager)
            prepare_bodies(full.graph, context.manager)
            for node in full.graph.nodes_of("If", "Loop", "Scan"):
                node.attrs[IN_PLAN] = 1
            return _plan_variants(full.graph, context, _Use(dims_agree=True, has_condition=True))
    except (Untraceable, AtcError):
        context.weights.shrink(before)
    return []


def _plan_fed(graph: Graph, context: _Context) -> list[_Trace]:
    """Plan the model for runs that feed inputs that have defaults, which are constants to other plans; nothing if there
    are none, or that cannot be.
    """
    before = context.weights.size()
    try:
        if any("default" in data.attrs for data in graph.inputs):
            return _plan_variants(graph, context, _Use(dims_agree=True, feeds_defaults=True))
    except Untraceable:
        context.weights.shrink(before)
    return []


def _plan_states(graph: Graph, inputs: tuple[Variable, ...], context: _Context) -> Iterator[CompiledCluster]:
    """Plan a model once more, with its states bound; nothing if it has none, or they are not only extended."""
    before, full = context.weights.size(), context.full
    use = _Use(dims_agree=True, has_states=True, has_condition=full is not None)
    try:
        traces = _plan_variants(graph if full is None else full.graph, context, use)
        if full is not None and not full.inputs <= {state.input for state in traces[0].states}:
            raise Untraceable("a cache whose length is a value is no state")
    except Untraceable:
        context.weights.shrink(before)
        return
    _check_memory(traces, context.manager.options.limits)
    variants = tuple(trace.variant() for trace in traces if trace.states == traces[0].states)
    yield PlannedCluster(0, 0, (*inputs, _CAPACITY), variants, states=traces[0].states)


@dataclass(frozen=True, slots=True)
class _Use:
    """What a graph is planned for. Dims of one name `agree` if the session sees to it; the last output may be a
    condition (`ClusterVariant`); inputs that have defaults are constants unless they are fed.
    """

    dims_agree: bool
    has_states: bool = False
    has_condition: bool = False
    feeds_defaults: bool = False


def _check_memory(traces: Sequence[_Trace], limits: Limits) -> None:
    """Raise R0001 if the largest sizes of bounded dims need more memory than the user allows."""
    if limits.memory_bytes is not None:
        limits.memory().check(max(trace.max_arena_bytes for trace in traces), "the arena for the largest sizes")


@dataclass(frozen=True, slots=True)
class _Context:
    """What all traces of a graph share. `kept` has the nodes of the graph that the package keeps, by name; `full` is
    the model with full caches.
    """

    manager: PassManager
    weights: WeightLayout
    kept: Mapping[str, int]
    full: FullCaches | None


def _plan_variants(graph: Graph, context: _Context, use: _Use) -> list[_Trace]:
    """Plan a cluster for all sizes of its inputs' open dims; its constants are added to the weights. Sizes that a guard
    leaves out get plans of their own: first 1 and 0, then those on the other side of each guard, and of theirs.

    Raises Untraceable if something runs on the host, or shapes follow neither from the inputs' nor from a few integers.
    """
    trace = partial(_trace, graph, context=context, use=use)
    general = _first_that_fits(trace, OTHER_SIZE_EXAMPLES if len(graph) <= _MAX_SPECIAL_NODES else ())
    traces = [general]
    cases = Cases(general.symbols)
    attempts = max(min(_MAX_SPECIAL_NODES // max(len(graph), 1), _MAX_ATTEMPTS), _MIN_ATTEMPTS)
    failures = 0
    for question, case in cases:
        if not attempts or failures == _MAX_FAILURES or len(traces) >= MAX_VARIANTS:
            break
        if use.has_states and 0 in case.fixed.values():
            continue
        if any(other.symbols.serve(case.sizes) for other in traces):
            continue
        attempts, failures = attempts - 1, failures + 1
        before = context.weights.size()
        try:
            special = trace(case, broken=question)
            if question is None or special.symbols.serve(case.sizes):
                traces.append(special)
                cases.add_beyond(special.symbols)
                failures = 0
            else:
                context.weights.shrink(before)
        except Untraceable as untraceable:
            context.weights.shrink(before)  # such sizes are compiled when they are met
            cases.refuse(question, case, untraceable)
    return traces


def _first_that_fits(trace: Callable[..., _Trace], examples: Iterable[tuple[int, ...]]) -> _Trace:
    """Trace a graph with the first examples of sizes for which the model has results; failing that, with what has to be
    so for it to have some.
    """
    misfit: Untraceable | None = None
    for sizes in (SIZE_EXAMPLES, *examples):
        try:
            return trace(Case(size_examples=sizes), adapts=False)
        except Untraceable as untraceable:
            if not untraceable.is_misfit:
                raise misfit or untraceable from None
            misfit = misfit or untraceable
    try:
        return trace(Case())
    except Untraceable:
        assert misfit is not None
        raise misfit from None


def _trace(
    graph: Graph,
    case: Case,
    *,
    context: _Context,
    use: _Use,
    broken: Question | None = None,
    adapts: bool = True,
) -> _Trace:
    """Plan a graph for a case. What turns out to depend on other sizes is written by these, or is a guard. Where the
    examples break a rule of the model, the trace `adapts`: other examples are taken, or the opposite of what was last
    decided by them is stated; but not of what the case is meant to have `broken`.
    """
    symbols = Symbols(case, {}, Tracer())
    before = context.weights.size()
    for _ in range(_MAX_EQUATIONS):
        tracer = symbols.tracer
        try:
            trace = _Trace(graph, symbols, context, use)
            trace.plan()
            return trace
        except SizesMustAgree as unequal:
            equation = symbols.solve(unequal.difference)
            other = None
            if equation is None and symbols.is_clamped(unequal.difference):  # such as s and the least of s and 512
                other = symbols.other_examples(Guard(unequal.difference, "==", False, ""))
            if other is not None:
                symbols = Symbols(other, symbols.equations, Tracer(tracer.assumed, tracer.stated))
            elif equation is None:
                assumed = tracer.assumed | {unequal.difference}
                symbols = Symbols(symbols.case, symbols.equations, Tracer(assumed, tracer.stated))
            else:
                equations = {**symbols.equations, equation.name: equation}
                symbols = Symbols(symbols.case, equations, Tracer(tracer.assumed, tracer.stated))
        except Untraceable as untraceable:
            raise replace(untraceable, tracer=tracer) from untraceable
        except NoSizesLeft as error:
            raise Untraceable(str(error)) from error
        except AtcError as error:
            last = tracer.last
            breaks_rule = last is not None and last.question == broken
            is_chosen = broken is not None and last is not None and last.relation == "<"  # the examples are the case
            if not adapts or last is None or not tracer.is_exampled(last) or breaks_rule or is_chosen:
                is_misfit = isinstance(error, ModelInvalid)
                raise Untraceable(str(error).partition("\n")[0], is_misfit, breaks_rule, tracer) from error
            # Sizes that must be equal are not made so by examples, which would have chance values.
            other, stated = symbols.other_examples(last) if last.relation == "<" else None, tracer.stated
            if other is None:
                stated = {**stated, last.question: not last.answer}
            symbols = Symbols(other or symbols.case, symbols.equations, Tracer(tracer.assumed, stated))
        except (InternalError, *EVALUATION_ERRORS) as error:  # something that is written for numbers alone
            if not isinstance(error, InternalError):
                raise Untraceable(f"{type(error).__name__}: {error}") from error
            if not isinstance(error.__cause__, EVALUATION_ERRORS):
                raise
            raise Untraceable(str(error).partition("\n")[0]) from error
        context.weights.shrink(before)
    raise Untraceable("too many dims depend on each other")


@dataclass(slots=True)
class _Trace:
    """Plans that run one after the other. Where a shape depends on values, a plan ends with these; they, or the sizes
    of its results, are symbols of the next.
    """

    graph: Graph
    symbols: Symbols
    context: _Context
    use: _Use
    states: tuple[State, ...] = ()
    plans: list[SymbolicPlan[tuple[Task, ...]]] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    max_arena_bytes: int = 0  # of the plans whose block sizes are bounded, at the largest sizes
    _variables: dict[str, int] = field(default_factory=dict)
    _elements: dict[str, list[str]] = field(default_factory=dict)  # symbols of values that decide shapes, by its name
    _count: int = 0
    _capacity: int = 0

    def variant(self) -> ClusterVariant[tuple[Task, ...]]:
        """The plans, and which variables the outputs are that are no states."""
        bound = {state.output for state in self.states}
        outputs = [number for index, number in enumerate(self.outputs) if index not in bound]
        condition = outputs.pop() if self.use.has_condition else None
        return ClusterVariant(tuple(self.plans), tuple(outputs), condition)

    def plan(self) -> None:
        """Plan the graph."""
        rest = self._first()
        self.outputs = [0] * len(self.graph.outputs)
        pending = list(range(len(self.outputs)))
        while True:
            prepare(rest, self.context.manager)
            if any(node.has_subgraphs for node in rest.nodes):
                use_plan_form(rest)
                prepare_bodies(rest, self.context.manager)
            cut = cut_known(rest, ahead=self.symbols.tracer)
            if cut.eager:
                raise Untraceable(f"{cut.eager[0].op_type} needs types that are known only when it runs")
            if self._decide_by_inputs(rest, cut.rest):
                continue
            if cut.rest is None and not cut.counted:
                numbers = self._emit(rest, {})  # those of states come last
                bound = {state.output for state in self.states}
                for index, number in zip((index for index in pending if index not in bound), numbers, strict=False):
                    self.outputs[index] = number
                return
            if self.use.has_states:
                raise Untraceable("a shape depends on values")
            if cut.known is not None:
                names = output_names(cut.known)
                self._variables.update(zip(names, self._emit(cut.known, cut.counted), strict=True))
            for index, name in cut.outputs:
                if name not in self._variables:
                    raise Untraceable("an output beside such whose sizes depend on values is a constant")
                self.outputs[pending[index]] = self._variables[name]
            if cut.rest is None:
                return
            if not cut.counted and not cut.rest.by_value:
                raise Untraceable("a shape needs elements as numbers")
            pending = [pending[index] for index in cut.rest.outputs]
            rest = self._next(cut.rest)

    def _first(self) -> Graph:
        """A copy of the graph with symbols for the open dims of its inputs. Defaults of inputs are constants of it."""
        copy = clone(self.graph)
        inputs = copy.inputs
        self._count = len(inputs) + self.use.has_states
        self._variables = {data.output.name: number for number, data in enumerate(inputs)}
        for data in inputs:
            desc, default = data.output.desc, data.attrs.get("default")
            if isinstance(default, Tensor) and not self.use.feeds_defaults:
                copy.replace_uses(data.output, copy.add_const(default, data.output.name))
                copy.erase(data)
                continue
            if desc.shape is None:
                raise Untraceable(f'the rank of "{data.output.name}" is not known')
            bounds = data.attrs.get("shape_range", ())
            assert isinstance(bounds, tuple)
            self.symbols.add_dims(self._variables[data.output.name], desc, bounds, agree=self.use.dims_agree)
        if self.use.has_states:
            name = f"{_CAPACITY.name} of {len(inputs)}.0"  # dims may have any name, but hardly this
            self._capacity = self.symbols.add_capacity(Symbol(name, len(inputs), 0))
        self._use_elements(copy, find_decisive_inputs(copy, self.symbols.tracer))
        return copy

    def _decide_by_inputs(self, graph: Graph, rest: Rest | None) -> bool:
        """Let symbols stand for the elements on which the shapes of the rest of a graph depend, if all of them are
        those of its inputs. Then no plan has to end before it.
        """
        names = frozenset() if rest is None else rest.by_value
        inputs = [data for data in graph.inputs if data.output.name in names]
        if not inputs or len(inputs) < len(names):
            return False
        self._use_elements(graph, inputs)
        return True

    def _next(self, rest: Rest) -> Graph:
        """What follows a plan, with symbols for sizes that are known only then."""
        for data in rest.graph.inputs:
            if data.output.name not in rest.by_value:
                self.symbols.add_dims(self._variables[data.output.name], data.output.desc)
        self._use_elements(rest.graph, [data for data in rest.graph.inputs if data.output.name in rest.by_value])
        return rest.graph

    def _use_elements(self, graph: Graph, inputs: Sequence[Node]) -> None:
        """Write open dims as symbols, and so the elements of these inputs."""
        for data in inputs:
            self._add_elements(data)
        self._use_symbols(graph)
        for data in inputs:
            self._insert_shape_value(graph, data)

    def _add_elements(self, data: Node) -> None:
        """Add symbols for the elements of an input."""
        value, number = data.output, self._variables[data.output.name]
        if value.name in self._elements:
            raise Untraceable(f'a shape needs the elements of "{value.name}" as numbers')
        if is_symbolic(value.desc.elements):
            raise Untraceable(f'"{value.name}" may be a shape of any rank')
        self._elements[value.name] = [f"{value.name}[{index}]" for index in range(value.desc.elements)]
        for index, name in enumerate(self._elements[value.name]):
            self.symbols.add_element(Symbol(name, number, index, is_element=True), value.desc.dtype)

    def _insert_shape_value(self, graph: Graph, data: Node) -> None:
        """Replace an input by its elements, which are symbols."""
        desc = data.output.desc
        elements = tuple(self.symbols.sizes[name] for name in self._elements[data.output.name])
        attrs = {"elements": elements, "dtype": desc.dtype.name, "is_scalar": int(desc.shape == ())}
        node = graph.append("ShapeValue", (), attrs, name=data.name, before=next(graph.nodes))
        graph.replace_uses(data.output, node.output)
        graph.erase(data)

    def _use_symbols(self, graph: Graph) -> None:
        self.symbols.apply_equations()
        for data in graph.inputs:
            desc = data.output.desc
            if desc.shape is not None:
                data.output.desc = replace(desc, shape=self.symbols.shape(desc))

    def _emit(self, graph: Graph, counted: Mapping[str, Counted]) -> range:
        """Add the plan of a graph whose shapes are known but for symbols; return the variables that its outputs are."""
        context, symbols = self.context, self.symbols
        for value in (*(data.output for data in graph.inputs), *graph.outputs):
            if not has_memory(value.desc):
                raise Untraceable(f'the type of "{value.name}" is not known')
        whole = _optimize(graph, context.manager)
        shapes = (
            self._bind_states(whole) if self.use.has_states else [value.desc.static_shape for value in whole.outputs]
        )
        names = output_names(whole)
        inputs = tuple(self._variables[data.output.name] for data in whole.inputs)
        for node in (node for part in flattened_graphs(whole) for node in part.nodes):
            if node.engine in (Engine.HOST_CPU, Engine.HCCL):
                raise Untraceable(f"{node.op_type} runs on {node.engine.value}")
        emitted = emit_symbolic(whole, context.kept, context.weights, context.manager)
        if any(task.kernel == HOST_FAMILY for task in emitted.tasks):
            raise Untraceable("an operator of yours runs on the host")
        largest = plan_largest(
            emitted.blocks,
            symbols.upper_bounds(block.nbytes for block in emitted.blocks),
            reuse=context.manager.options.compile.reuse_memory,
        )
        self.max_arena_bytes = max(self.max_arena_bytes, largest.arena_bytes)
        program = encode_program(
            symbols.tracer,
            symbols.symbols,
            symbols.ranges,
            symbols.take_guards(),
            emitted.tasks,
            emitted.blocks,
            largest.placements,
            [node.output.desc.nbytes for node in whole.inputs],
            [(value.desc.nbytes, shape) for value, shape in zip(whole.outputs, shapes, strict=True)],
        )
        outputs = tuple(
            _variable(name, replace(value.desc, shape=shape))
            for name, value, shape in zip(names, whole.outputs, shapes, strict=True)
        )
        counts = tuple(_cut(names, name, entry) for name, entry in counted.items() if name in names)
        self.plans.append(SymbolicPlan(tuple(symbols.sources), emitted.tasks, program, inputs, outputs, counts))
        first, self._count = self._count, self._count + len(outputs)
        return range(first, self._count)

    def _bind_states(self, whole: Graph) -> list[StaticShape]:
        """Keep the states in outputs. Returns what the program computes of each output: its shape, or of a state the
        number of rows after the run.
        """
        descs = [data.output.desc for data in self.graph.inputs]
        open_axes = [
            frozenset(axis for axis, dim in enumerate(desc.shape or ()) if isinstance(dim, Sym)) for desc in descs
        ]
        try:
            bound = bind_states(whole, self._capacity, open_axes)
        except NoStates as error:
            raise Untraceable(str(error)) from error
        self.states = bound.states
        shapes = [value.desc.static_shape for value in whole.outputs]
        ports = sum(state.parts for state in self.states)
        shapes[-ports:] = [(bound.rows,)] * ports
        return shapes


def _optimize(graph: Graph, manager: PassManager) -> Graph:
    """Take a graph and its bodies through the stages split and optimize."""
    whole = optimize(split(graph, manager), manager)
    for node in whole.nodes_of("If", "Loop"):
        for name, body in node.attrs.items():
            if isinstance(body, Graph):
                node.attrs[name] = _optimize(body, manager)
    return whole


def _may_have_states(graph: Graph) -> bool:
    """Whether an output has the type of an input but for one open dim."""
    types = [node.output.desc for node in graph.inputs]
    return any(_may_grow(past, value.desc) for value in graph.outputs for past in types)


def _may_grow(past: TensorDesc, present: TensorDesc) -> bool:
    if past.dtype is not present.dtype or past.shape is None or present.shape is None:
        return False
    pairs = [(old, new) for old, new in zip_longest(past.shape, present.shape) if old != new]
    return len(pairs) == 1 and all(isinstance(dim, Sym) for dim in pairs[0])


def _variable(name: str, desc: TensorDesc) -> Variable:
    if desc.shape is None:
        raise Untraceable(f'the rank of "{name}" is not known')
    dims = tuple(-1 if isinstance(dim, Sym) or is_symbolic(dim) else dim for dim in desc.shape)
    return Variable(name, desc.dtype, dims)


def _cut(names: tuple[str, ...], name: str, counted: Counted) -> CountedOutput:
    axes = tuple(axis for axis, dim in enumerate(counted.shape) if isinstance(dim, Sym))
    return CountedOutput(names.index(name), names.index(counted.count), axes)
