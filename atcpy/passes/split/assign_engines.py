"""Engine placement: each node goes to the cheapest engine that supports it."""

from __future__ import annotations

from atcpy.errors import AtcError, Unsupported, raise_all
from atcpy.ir import Engine, Graph, Node, PassRecord, Reject
from atcpy.ops import find_opdef
from atcpy.ops.opdef import ENGINE_COST
from atcpy.ops.reference import find_schema
from atcpy.options import SplitOptions, Stage
from atcpy.passes.base import graph_pass


@graph_pass("EnginePlacerPass", Stage.SPLIT, required=True)
def assign_engines(graph: Graph, record: PassRecord, options: SplitOptions) -> None:
    """Give each node the cheapest engine that supports it."""
    problems: list[AtcError] = []
    for node in graph.nodes:
        record.matched += 1
        engine, rejects = place(node)
        record.reject(*rejects)
        if engine is None:
            if not _follows_from_others(node, rejects):
                problems.append(_no_engine(node, rejects))
        else:
            node.engine = engine
            record.applied += 1
    raise_all(problems)


def place(node: Node) -> tuple[Engine | None, list[Reject]]:
    """The engine of a node, and why the cheaper ones were passed over. Producers are placed first:
    an epilogue of a cube op asks where its producer runs.
    """
    opdef = find_opdef(node)
    engines = {} if opdef is None else opdef.engines
    rejects: list[Reject] = []
    for engine in sorted(engines, key=lambda engine: ENGINE_COST[engine]):
        reasons = list(engines[engine](node))
        if not reasons:
            return engine, rejects
        rejects.extend(reasons)
    host_reasons = list(supports_on_host(node))
    return (None if host_reasons else Engine.HOST_CPU), [*rejects, *host_reasons]


def supports_on_host(node: Node) -> list[Reject]:
    """Reasons against the reference evaluator, which knows every op of the standard."""
    if find_schema(node.op_type, node.domain) is None:
        return [Reject("not-standard", node.name)]
    if any(True for _ in node.subgraphs):
        return [Reject("control-flow", node.name)]
    if not all(value.desc.is_static for value in node.outputs if value.use_count):
        return [Reject("shape-unknown", node.name)]
    return []


def _follows_from_others(node: Node, rejects: list[Reject]) -> bool:
    """True if the shape is unknown only because one before it is: that one is the problem to tell."""
    return rejects[-1].reason == "shape-unknown" and not all(value.desc.is_static for value in node.operands)


def _no_engine(node: Node, rejects: list[Reject]) -> AtcError:
    last = rejects[-1]
    if last.reason == "not-standard":  # the parser knows it, so it is a registered operator
        refused = ", ".join(dict.fromkeys(reject.reason for reject in rejects[:-1])) or "there is none"
        return Unsupported("EZ3002", f"no engine of its record runs this {node.op_type}: {refused}", where=node)
    why = {"control-flow": "control flow is not compiled yet", "shape-unknown": "its result's shape depends on data"}
    return Unsupported("EZ3003", f"no engine runs this {node.op_type}: {why[last.reason]}", where=node)
