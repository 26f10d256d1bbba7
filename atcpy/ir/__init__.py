"""The intermediate representation: graph, nodes, values, types, and the records between stages.

Names load when they are first used: what runs a package needs few of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atcpy.ir.builder import Builder
    from atcpy.ir.compiled import (
        ClusterVariant,
        CompiledCluster,
        CompiledModel,
        CountedOutput,
        Gear,
        MemoryPlan,
        PlacedValue,
        PlacementStrategy,
        PlannedCluster,
        Port,
        Slot,
        Source,
        State,
        Symbol,
        SymbolicPlan,
        Task,
        Variable,
        Weight,
        plans_of,
        states_by_name,
        task_counts,
    )
    from atcpy.ir.decisions import Decisions, PassRecord, Reject
    from atcpy.ir.desc import TensorDesc
    from atcpy.ir.dtype import DType
    from atcpy.ir.engine import Engine
    from atcpy.ir.format import NC1HWC0, NCHW, ND, NHWC, Format, FormatKind
    from atcpy.ir.graph import Graph, nodes_with_bodies, walk, with_bodies
    from atcpy.ir.node import Node, Use, Value
    from atcpy.ir.partition import Border, Partition, Subgraph
    from atcpy.ir.pattern import Match
    from atcpy.ir.region import Region
    from atcpy.ir.rewriter import Rewriter, erase_dead
    from atcpy.ir.shape import Dim, Shape, StaticShape, Sym, is_static
    from atcpy.ir.tensor import Tensor

__all__ = [
    "NC1HWC0",
    "NCHW",
    "ND",
    "NHWC",
    "Border",
    "Builder",
    "ClusterVariant",
    "CompiledCluster",
    "CompiledModel",
    "CountedOutput",
    "DType",
    "Decisions",
    "Dim",
    "Engine",
    "Format",
    "FormatKind",
    "Gear",
    "Graph",
    "Match",
    "MemoryPlan",
    "Node",
    "Partition",
    "PassRecord",
    "PlacedValue",
    "PlacementStrategy",
    "PlannedCluster",
    "Port",
    "Region",
    "Reject",
    "Rewriter",
    "Shape",
    "Slot",
    "Source",
    "State",
    "StaticShape",
    "Subgraph",
    "Sym",
    "Symbol",
    "SymbolicPlan",
    "Task",
    "Tensor",
    "TensorDesc",
    "Use",
    "Value",
    "Variable",
    "Weight",
    "erase_dead",
    "is_static",
    "nodes_with_bodies",
    "plans_of",
    "states_by_name",
    "task_counts",
    "walk",
    "with_bodies",
]

_NAMES = {
    "builder": "Builder",
    "compiled": "ClusterVariant CompiledCluster CompiledModel CountedOutput Gear MemoryPlan PlacedValue "
    "PlacementStrategy PlannedCluster Port Slot Source State Symbol SymbolicPlan Task Variable Weight plans_of "
    "states_by_name task_counts",
    "decisions": "Decisions PassRecord Reject",
    "desc": "TensorDesc",
    "dtype": "DType",
    "engine": "Engine",
    "format": "NC1HWC0 NCHW ND NHWC Format FormatKind",
    "graph": "Graph nodes_with_bodies walk with_bodies",
    "node": "Node Use Value",
    "partition": "Border Partition Subgraph",
    "pattern": "Match",
    "region": "Region",
    "rewriter": "Rewriter erase_dead",
    "shape": "Dim Shape StaticShape Sym is_static",
    "tensor": "Tensor",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    return found
