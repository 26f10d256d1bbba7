"""Builder: creates the nodes and constants that stand for a source node, at one place of a graph.

Importers, op expansions, rewrites and custom ops all build through this class, so that names, provenance
(`sources`, `passes`) and types are set the same way everywhere.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from atcpy.errors import Where
from atcpy.ir.dtype import DType
from atcpy.ir.graph import Graph
from atcpy.ir.node import Node, Value
from atcpy.ir.tensor import Tensor

INT64_MAX = 2**63 - 1  # beyond the end of any axis, as the end of a Slice


class Builder:
    """Creates nodes before `anchor`, or at the end of the graph where it is None.

    `name` is the stem of the names of new nodes and constants; every new node gets `sources`. `infer` sets the types
    of a new node's outputs at once. Without it the types are inferred later, and a method that must know one of them
    (`like`, `dim` …) emits a node that works for all.
    """

    def __init__(
        self,
        graph: Graph,
        anchor: Node | None = None,
        *,
        name: str,
        sources: tuple[str, ...] = (),
        passes: tuple[str, ...] = (),
        infer: Callable[[Node], None] | None = None,
    ) -> None:
        self.graph = graph
        self.anchor = anchor
        self.name = name
        self.sources = sources
        self.passes = passes
        self.created: dict[Node, None] = {}  # all but constants, in order; a dict for fast lookups
        self._infer = infer

    @property
    def where(self) -> Where | Node:
        """The node that errors name."""
        return self.anchor or Where(graph=self.graph.name, node=self.name)

    # --- nodes and constants ------------------------------------------------------------------

    def op(self, op_type: str, *inputs: Value | None, **attrs: object) -> Value:
        """Create a node with one output and return that output. Trailing inputs that are None are dropped. An op of
        another domain than the standard's is written as `com.microsoft::Gelu`.
        """
        return self.ops(op_type, *inputs, outputs=1, **attrs)[0]

    def ops(self, op_type: str, *inputs: Value | None, outputs: int, **attrs: object) -> list[Value]:
        """Create a node with this number of outputs and return them."""
        while inputs and inputs[-1] is None:
            inputs = inputs[:-1]
        domain, _, op_type = op_type.rpartition("::")
        name, empty = self._node_name(op_type), ("",) * outputs
        node = self.graph.append(op_type, inputs, attrs, name=name, outputs=empty, domain=domain, before=self.anchor)
        node.sources, node.passes = self.sources, self.passes
        self.created[node] = None
        if self._infer is not None:
            self._infer(node)
        return list(node.outputs)

    def const(
        self, array: npt.ArrayLike, dtype: DType | None = None, *, like: Value | None = None, name: str = ""
    ) -> Value:
        """Create a constant. `like` lends its name, and its element type unless `dtype` is given. Without either,
        the element type is that of the array; that of Python integers, or of an empty list, is int64.
        """
        if dtype is None and like is not None:
            dtype = like.desc.dtype
        elements = np.asarray(array) if dtype is None else np.asarray(array, dtype.numpy)
        if elements.size == 0 and dtype is None and not isinstance(array, np.ndarray):
            elements = elements.astype(np.int64)
        name = name or (like.name if like is not None else self._const_name())
        value = self.graph.add_const(Tensor.of(elements, dtype), name, before=self.anchor)
        value.producer.sources = self.sources if like is None else like.producer.sources
        return value

    def _node_name(self, op_type: str) -> str:
        return f"{self.name}/{op_type}"

    def _const_name(self) -> str:
        return f"{self.name}/const"
