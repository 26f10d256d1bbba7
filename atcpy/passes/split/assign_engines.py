"""Engine placement: each node goes to the cheapest engine that supports it."""

from __future__ import annotations

from atcpy.errors import AtcError, Unsupported, raise_all
from atcpy.ir import DType, Engine, Graph, Node, PassRecord, Reject, walk
from atcpy.ops import Trait, find_opdef, has_trait, makes_nothing
from atcpy.ops.core.opdef import ENGINE_COST
from atcpy.ops.core.reference import find_schema, is_function
from atcpy.options import SplitOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.phase import Phase

# Reasons that go once the shapes, and with them the operands that are computed from them, are known.
_OPEN = frozenset({"shape-unknown", "bound-not-scalar"})
_NEVER_OPEN = frozenset({"weights-not-constant", "bias-not-constant"})  # these reject what is fed, not what is computed


@graph_pass("EnginePlacerPass", Phase.PLACE, required=True)
def assign_engines(graph: Graph, record: PassRecord, options: SplitOptions) -> None:
    """Give each node the cheapest engine that supports it."""
    problems: list[AtcError] = []
    for node in walk(graph):
        record.matched += 1
        engine, rejects = choose_engine(node)
        record.reject(*rejects)
        if engine is None:
            problems.append(_no_engine(node, rejects))
        else:
            node.engine = engine
            record.applied += 1
    raise_all(problems)


def choose_engine(node: Node) -> tuple[Engine | None, list[Reject]]:
    """The engine of a node, and why the cheaper ones were passed over. Producers are placed first:
    an epilogue of a cube op asks where its producer runs. A node whose shapes are not known yet gets
    the engine that will run it when they are.
    """
    if node.has_subgraphs:
        return Engine.GE_LOCAL, []  # its bodies' nodes have engines of their own
    opdef = find_opdef(node)
    engines = {} if opdef is None else opdef.engines
    is_open = not all(value.desc.is_static for value in (*node.operands, *node.outputs))
    rejects: list[Reject] = []
    for engine in sorted(engines, key=ENGINE_COST.__getitem__):
        reasons = list(engines[engine](node))
        if all(is_open and _is_open(reason) for reason in reasons):
            return engine, rejects
        rejects.extend(reasons)
    if is_open and has_trait(node, Trait.EAGER):
        return Engine.GE_LOCAL, rejects
    if is_open and _will_be_spelled_out(node):
        return Engine.VECTOR, rejects
    if find_schema(node.op_type, node.domain) is None and not has_trait(node, Trait.CUSTOM):
        return None, [*rejects, Reject("not-standard", node.name)]
    return Engine.VECTOR if makes_nothing(node) else Engine.HOST_CPU, rejects


def _is_open(reject: Reject) -> bool:
    reason = reject.reason
    return reason in _OPEN or (reason.endswith("-not-constant") and reason not in _NEVER_OPEN)


def _will_be_spelled_out(node: Node) -> bool:
    """Will the op become others, once its shapes are known? Texts stay on the host."""
    if any(value.desc.dtype is DType.STRING for value in (*node.operands, *node.outputs)):
        return False
    opdef = find_opdef(node)
    return (opdef is not None and opdef.expand is not None) or is_function(node)


def _no_engine(node: Node, rejects: list[Reject]) -> AtcError:
    refused = ", ".join(dict.fromkeys(reject.reason for reject in rejects[:-1])) or "there is none"
    return Unsupported("EZ3002", f"no engine of its record runs this {node.op_type}: {refused}", where=node)
