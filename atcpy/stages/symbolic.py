"""Planning ahead for all sizes of open dims: the stages from prepare to compile, on symbols instead of numbers.

`ir/symbolic.py` lets the stages run as they are. What they decide by comparing sizes becomes a guard of the
plan, unless it holds for all sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Final

from atcpy.errors import AtcError
from atcpy.ir import CompiledModel, Engine, Graph, SymbolicDim, SymbolicPlan, Tensor, TensorDesc
from atcpy.ir.clone import clone
from atcpy.ir.shape import Sym
from atcpy.ir.symbolic import Guard, SizesMustAgree, Terms, Tracer, example, terms_of
from atcpy.kernels.symbolic_program import encode_program
from atcpy.kernels.table import HOST_FAMILY
from atcpy.ops.core.reference import EVALUATION_ERRORS
from atcpy.options import MAX_DIM
from atcpy.passes.compile.emit_tasks import Identity, WeightLayout, emit_symbolic, keep_unknown
from atcpy.passes.pass_manager import PassManager
from atcpy.passes.split.known_shapes import is_known
from atcpy.stages.optimize import optimize
from atcpy.stages.prepare import prepare
from atcpy.stages.split import split

# Examples decide what is the better of several right ways. Batches are small and odd, so that they equal no constant by
# chance; other dims are multiples of 32, which feature pyramids need.
_BATCH_EXAMPLES: Final = (5, 7, 11, 13, 17, 19, 23)
_SIZE_EXAMPLES: Final = (352, 416, 544, 608, 736, 928, 992)
_MAX_EQUATIONS = 8
_MAX_SPECIAL_DIMS = 4
_MAX_SPECIAL_NODES = 5000  # of a graph that is compiled several times
MAX_PLANS = 8


@dataclass(frozen=True, slots=True)
class Untraceable(Exception):
    """Why a graph cannot be planned ahead."""

    reason: str


@dataclass(slots=True)
class _Equation:
    """A symbol that is a polynomial of others, by name: `name = Σ coefficient · names`."""

    name: str
    terms: list[tuple[tuple[str, ...], int]]

    def value(self, sizes: Mapping[str, int]) -> int:
        total = 0
        for names, coefficient in self.terms:
            for name in names:
                coefficient *= sizes[name]
            total += coefficient
        return total


@dataclass(slots=True)
class _Symbols:
    """The open dims of a graph's inputs in one trace. `sizes` is what the compiler sees for each by name: its symbol, a
    number, or what it equals.
    """

    tracer: Tracer
    dims: list[SymbolicDim] = field(default_factory=list)
    symbols: list[int] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    guards: list[Guard] = field(default_factory=list)

    def add(self, dim: SymbolicDim, low: int, high: int, example: int, fixed: int | None) -> None:
        """Add an open dim with its range, and a number for it if that is fixed."""
        symbol = self.tracer.symbol(dim.name, low, high, example)
        self.dims.append(dim)
        self.symbols.append(symbol)
        self.sizes[dim.name] = symbol if fixed is None else fixed
        if fixed is not None:
            self.guards.append(_is_zero(symbol - fixed))
        else:
            self.guards += [_is_below(low - 1 - symbol), _is_below(symbol - 1 - high)]


def _is_zero(size: int) -> Guard:
    return Guard(terms_of(size), "==", True, "open dims")


def _is_below(size: int) -> Guard:
    return Guard(terms_of(size), "<", True, "open dims")


@dataclass(frozen=True, slots=True)
class _Traced:
    """A plan, and what it serves."""

    plan: SymbolicPlan
    symbols: _Symbols

    def serves(self, sizes: Mapping[str, int]) -> bool:
        return self.symbols.tracer.all_hold(self.symbols.guards, sizes)


def plan_unknown(graph: Graph, identity: Identity, manager: PassManager) -> CompiledModel:
    """Keep a graph with unknown shapes, with plans for them if there can be some."""
    weights = WeightLayout()
    quiet = PassManager(manager.options, manager.passes, manager.deadline)
    try:
        plans, unplanned = plan_symbolic(graph, quiet, weights), ""
    except Untraceable as untraceable:
        weights, plans, unplanned = WeightLayout(), (), untraceable.reason
    return replace(keep_unknown(graph, identity, weights, plans), unplanned=unplanned)


def plan_symbolic(graph: Graph, manager: PassManager, weights: WeightLayout) -> tuple[SymbolicPlan, ...]:
    """Plan a prepared graph for all sizes of its inputs' open dims; its constants are added to `weights`. Some sizes,
    mostly 1, get a plan of their own where the others leave them out.

    Raises Untraceable if shapes do not follow from the inputs', or something runs on the host.
    """
    traced = [_trace(graph, {}, manager, weights)]
    general = traced[0].symbols
    for fixed in _special_sizes(general) if len(graph) <= _MAX_SPECIAL_NODES else ():
        if len(traced) == MAX_PLANS:
            break
        sizes = _example_sizes(general, fixed)
        if sizes is None or any(other.serves(sizes) for other in traced):
            continue
        try:
            special = _trace(graph, fixed, manager, weights)
        except Untraceable:
            continue  # such sizes are compiled when they are met
        if special.serves(sizes):
            traced.append(special)
    return tuple(item.plan for item in traced)


def _special_sizes(symbols: _Symbols) -> list[dict[str, int]]:
    """Dims of size 1, and empty ones that are no batches: a few of them at a time."""
    choices = [[None, 1] if dim.axis == 0 else [None, 1, 0] for dim in symbols.dims]
    if len(choices) > _MAX_SPECIAL_DIMS:
        choices[_MAX_SPECIAL_DIMS:] = [[None]] * (len(choices) - _MAX_SPECIAL_DIMS)
    found = [
        {dim.name: size for dim, size in zip(symbols.dims, sizes, strict=True) if size is not None}
        for sizes in product(*choices)
    ]
    return sorted((sizes for sizes in found if sizes), key=lambda sizes: (len(sizes), list(sizes.values()).count(0)))


def _example_sizes(symbols: _Symbols, fixed: Mapping[str, int]) -> dict[str, int] | None:
    """Sizes of all dims, those of `fixed` among them; None if they cannot be together."""
    sizes = {dim.name: example(symbol) for dim, symbol in zip(symbols.dims, symbols.symbols, strict=True)}
    sizes.update(fixed)
    for name, size in symbols.sizes.items():
        value = symbols.tracer.value(size, sizes)
        if value is None or (name in fixed and value != fixed[name]):
            return None
        sizes[name] = value
    return sizes


def _trace(graph: Graph, fixed: Mapping[str, int], manager: PassManager, weights: WeightLayout) -> _Traced:
    """Plan a graph with these dims fixed. Dims that turn out to depend on others are written by these."""
    equations: list[_Equation] = []
    for _ in range(_MAX_EQUATIONS):
        symbols = _open_dims(graph, fixed)
        for equation in equations:
            symbol = symbols.symbols[[dim.name for dim in symbols.dims].index(equation.name)]
            symbols.sizes[equation.name] = equation.value(symbols.sizes)
            symbols.guards.append(_is_zero(symbol - symbols.sizes[equation.name]))
        try:
            return _Traced(_plan(graph, symbols, manager, weights), symbols)
        except SizesMustAgree as unequal:
            equations.append(_solve(symbols.tracer, unequal.difference))
        except AtcError as error:
            raise Untraceable(str(error).partition("\n")[0]) from error
        except EVALUATION_ERRORS as error:  # something that is written for numbers alone
            raise Untraceable(f"{type(error).__name__}: {error}") from error
    raise Untraceable("too many dims depend on each other")


def _open_dims(graph: Graph, fixed: Mapping[str, int]) -> _Symbols:
    symbols = _Symbols(Tracer())
    examples = {True: iter(_BATCH_EXAMPLES), False: iter(_SIZE_EXAMPLES)}
    for index, data in enumerate(graph.inputs):
        if isinstance(data.attrs.get("default"), Tensor):
            continue  # a constant of the plan
        shape = data.output.desc.shape
        if shape is None:
            raise Untraceable(f'the rank of the input "{data.output.name}" is not known')
        ranges = data.attrs.get("shape_range", ())
        assert isinstance(ranges, tuple)
        for axis, dim in enumerate(shape):
            if not isinstance(dim, Sym) or dim.name in symbols.sizes:
                continue
            low, high = ranges[2 * axis : 2 * axis + 2] if ranges else (0, -1)
            low, high = max(low, 1), MAX_DIM if high < 0 else high
            size = next(examples[axis == 0], None)
            if size is None or low > high:
                raise Untraceable("there are too many open dims")
            symbols.add(SymbolicDim(dim.name, index, axis), low, high, min(max(size, low), high), fixed.get(dim.name))
    return symbols


def _solve(tracer: Tracer, difference: Terms) -> _Equation:
    """The symbol that an equation of sizes determines: it occurs once, alone, with a factor of ±1; best as a sum."""
    counts = [atom for monomial, _ in difference for atom in monomial]
    found: list[_Equation] = []
    for monomial, coefficient in difference:
        if len(monomial) != 1 or abs(coefficient) != 1 or counts.count(monomial[0]) != 1:
            continue
        atom = tracer.atoms[monomial[0]]
        rest = [(other, -coefficient * factor) for other, factor in difference if other != monomial]
        computed = any(tracer.atoms[inner].op is not None for other, _ in rest for inner in other)
        if atom.op is None and not computed:
            terms = [(tuple(tracer.atoms[inner].name for inner in other), factor) for other, factor in rest]
            found.append(_Equation(atom.name, terms))
    if not found:
        raise Untraceable(f"{tracer.text(difference)} must be 0")
    return max(found, key=lambda equation: all(factor > 0 for _, factor in equation.terms))


def _plan(graph: Graph, symbols: _Symbols, manager: PassManager, weights: WeightLayout) -> SymbolicPlan:
    copy = clone(graph)
    for data in copy.inputs:
        desc, default = data.output.desc, data.attrs.get("default")
        if isinstance(default, Tensor):
            copy.replace_uses(data.output, copy.add_const(default, data.output.name))
            copy.erase(data)
            continue
        assert desc.shape is not None
        shape = tuple(symbols.sizes[dim.name] if isinstance(dim, Sym) else dim for dim in desc.shape)
        data.output.desc = TensorDesc.plain(desc.dtype, shape)
    prepare(copy, manager)
    if not is_known(copy):
        raise Untraceable("shapes depend on the values of tensors, or there is control flow")
    whole = optimize(split(copy, manager), manager)
    for node in whole.nodes:
        if node.engine in (Engine.HOST_CPU, Engine.HCCL):
            raise Untraceable(f"{node.op_type} runs on {node.engine.value}")
    kept = {name: number for number, node in enumerate(graph.nodes) for name in (node.name, *node.sources)}
    emitted = emit_symbolic(whole, kept, weights, manager)
    if any(task.kernel == HOST_FAMILY for task in emitted.tasks):
        raise Untraceable("an operator of yours runs on the host")
    outputs = [(value.desc.nbytes, value.desc.static_shape) for value in whole.outputs]
    inputs = [node.output.desc.nbytes for node in whole.inputs]
    symbols.guards += symbols.tracer.guards.values()
    program = encode_program(
        symbols.tracer, symbols.symbols, symbols.guards, emitted.tasks, emitted.blocks, inputs, outputs
    )
    return SymbolicPlan(tuple(symbols.dims), emitted.tasks, program)
