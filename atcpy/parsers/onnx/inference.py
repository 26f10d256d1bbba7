"""Types of values, inferred as the nodes of a model are read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

import onnx

from atcpy.errors import AtcError
from atcpy.ir import DType, Graph, Node, TensorDesc, Value
from atcpy.ir.desc import UNKNOWN
from atcpy.ir.inferred import Inferred
from atcpy.ops.core.axes import unnamed_dim
from atcpy.ops.core.infer import KnownValues, infer_node
from atcpy.ops.core.reference import EVALUATION_ERRORS
from atcpy.parsers.onnx.value_types import read_desc


class TypeInference:
    """Infers nodes in the order in which they are read; `inferred` collects what prepare can rely on, `problems` the
    nodes whose inputs do not fit them.

    What a body of If, Loop or Scan declares of its inputs may be wrong: prepare infers bodies from what they are
    fed. The types in them are preliminary, for version differences that depend on a rank or an element type.
    """

    def __init__(self, graph: Graph, infos: Iterable[onnx.ValueInfoProto] = ()) -> None:
        self.inferred = Inferred()
        self.problems: list[AtcError] = []
        self._graph = graph
        self._infos = infos
        self._known = KnownValues(self.inferred.elements)
        self._known_in_bodies = KnownValues()
        self._invalid: set[Value] = set()
        self._preliminary: list[Node] = []

    def infer(self, node: Node) -> None:
        """Set the types of a node's outputs. What does not fit is a problem if the types of the inputs are sure, and
        stays unknown.
        """
        inputs = node.inputs
        is_sure, known = True, self._known
        if node.graph is not self._graph:
            self._preliminary.append(node)
            is_sure, known = False, self._known_in_bodies
        elif self._invalid and not self._invalid.isdisjoint(inputs):
            self.give_up(node)
            return
        if node.has_subgraphs:
            return
        for value in inputs:
            if value is not None and value.desc.shape is None:
                is_sure = False
        try:
            infer_node(node, known)
        except AtcError as error:
            if is_sure:
                self.problems.append(error)
                self.give_up(node)
        except EVALUATION_ERRORS:  # a required input is left out, which the checker says; else prepare meets it again
            self.give_up(node)
        else:
            if is_sure:
                self.inferred.nodes[node] = inputs

    def infer_declared(self, node: Node) -> None:
        """Infer a node of an op that the standard lacks. Where inference knows no shape, the op may look at what the
        model declares: the rank of what the node reads, and what its own results are.
        """
        for value in node.operands:
            if value.desc.shape is None and (shape := self.declared(value).shape) is not None:
                dims = tuple(unnamed_dim(value.producer, 8 * value.index + axis) for axis in range(len(shape)))
                value.desc = TensorDesc.plain(self.declared(value).dtype, dims)
        declared = [replace(self.declared(value)) for value in node.outputs]  # objects that inference never returns
        for value, desc in zip(node.outputs, declared, strict=True):
            value.desc = desc
        self.infer(node)
        for value, desc in zip(node.outputs, declared, strict=True):
            if value.desc is desc:  # a declaration proves no size
                value.desc = TensorDesc.plain(desc.dtype, None) if desc.dtype is not DType.UNDEFINED else UNKNOWN

    def give_up(self, node: Node) -> None:
        """Leave the outputs of a node unknown, and those of nodes that read them: one error is enough."""
        self._invalid.update(node.outputs)

    def declared(self, value: Value) -> TensorDesc:
        """The type of a value, or the one that the model declares where inference knows no shape."""
        if value.desc.shape is not None or value.name not in self._declared:
            return value.desc
        return read_desc(self._declared[value.name])

    def drop_preliminary(self) -> None:
        """Forget the types in bodies."""
        for node in self._preliminary:
            for value in node.outputs:
                value.desc = UNKNOWN

    @cached_property
    def _declared(self) -> dict[str, onnx.ValueInfoProto]:
        return {info.name: info for info in self._infos}


def rank_of(value: Value) -> int | None:
    """The rank of a value, or None if it is not known."""
    return None if value.desc.shape is None else len(value.desc.shape)
