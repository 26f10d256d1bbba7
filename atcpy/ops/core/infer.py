"""Types of a node's outputs, from its record or from the ONNX standard."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from atcpy.errors import ModelInvalid, ResourceLimit, Unsupported
from atcpy.ir import DType, Graph, Node, Reject, Rewriter, TensorDesc, Value
from atcpy.ir.barrier import is_barrier
from atcpy.ir.desc import UNKNOWN
from atcpy.ir.shape import MAX_BYTES, Dim, fits_limits, format_shape, is_static
from atcpy.ops import find_opdef
from atcpy.ops.core.axes import unnamed_dim
from atcpy.ops.core.half import HALF_DTYPES
from atcpy.ops.core.opdef import Known
from atcpy.ops.core.operand_shapes import fit_operands
from atcpy.ops.core.reference import (
    MAX_DATA_ELEMENTS,
    infer_barrier,
    infer_by_onnx,
    known_constant,
    sequence_problem,
    type_problem,
)


class KnownValues:
    """Elements of small integer tensors: constants, and what shape arithmetic gives though its
    tensor is not constant, such as the shape of an input with a symbolic batch.
    """

    def __init__(self, elements: dict[Value, tuple[Dim, ...]] | None = None) -> None:
        self._known: dict[Value, tuple[Dim, ...]] = {} if elements is None else elements

    def __call__(self, value: Value | None) -> tuple[Dim, ...] | None:
        """The elements, or None if they are not known."""
        if value is None:
            return None
        found = self._known.get(value)
        return found if found is not None else known_constant(value)

    def computed(self, value: Value) -> tuple[Dim, ...] | None:
        """The elements of a value that is no constant."""
        return self._known.get(value)

    def set(self, value: Value, elements: tuple[Dim, ...]) -> None:
        """Notes the elements of a value."""
        if len(elements) <= MAX_DATA_ELEMENTS:
            self._known[value] = elements


def infer_node(node: Node, known: KnownValues) -> None:
    """Sets the descs of a node's outputs, and what is known of the elements of output 0. What a
    value was declared as is kept where inference knows less.
    """
    if is_barrier(node):
        for value, desc in zip(node.outputs, infer_barrier(node), strict=False):
            value.desc = _better(desc, value.desc)
        return
    opdef = find_opdef(node)
    check_types(node, node.inputs)
    if opdef is not None and opdef.operand_shapes is not None:
        fit_operands(node, opdef.operand_shapes(node))
    infer = infer_by_onnx if opdef is None or opdef.infer is None else opdef.infer
    if opdef is not None and opdef.infer is None and opdef.is_contrib:
        infer = infer_by_expansion
    for value, desc in zip(node.outputs, infer(node, known), strict=False):
        if not desc.is_small:
            _check_size(node, desc)
        value.desc = _better(desc, value.desc)
    if opdef is not None and opdef.propagate is not None:
        propagate(node, known)


def check_declared(value: Value, declared: DType) -> None:
    """Raise ModelInvalid if a value has another element type than the model declares (UNDEFINED: it is no tensor)."""
    dtype = value.desc.dtype
    if dtype is not DType.UNDEFINED and dtype is not declared:
        said = "no tensor" if declared is DType.UNDEFINED else declared.long
        what = f'"{value.name}" is {dtype.long}, the model declares it as {said}'
        raise ModelInvalid("E13014", what, where=value.producer)


def check_types(node: Node, inputs: Sequence[Value | None]) -> None:
    """Raise ModelInvalid if the element types of a node's own inputs break the standard's rule for its op."""
    dtypes = tuple([DType.UNDEFINED if value is None else value.desc.dtype for value in inputs])
    problem = type_problem(node.op_type, node.domain, dtypes)
    for index, value in enumerate(inputs if DType.UNDEFINED in dtypes else ()):
        if value is not None and str(value.producer.attrs.get("type", "")).startswith("seq(tensor"):
            problem = problem or sequence_problem(node.op_type, node.domain, index, str(value.producer.attrs["type"]))
    if problem and not _only_halves_differ(node, dtypes):
        raise ModelInvalid("E13014", problem, where=node)


def infer_by_expansion(node: Node, known: Known) -> Sequence[TensorDesc]:
    """Types of the outputs of a node from those of the nodes that it expands to, built in a graph of their own. They
    are unknown where the expansion is refused: that is reported when the graph itself is expanded.
    """
    opdef = find_opdef(node)
    assert opdef is not None and opdef.expand is not None and node.graph is not None
    scratch, elements, inputs = Graph(node.graph.name), KnownValues(), list[Value | None]()
    for value in node.inputs:
        if value is None:
            inputs.append(None)
            continue
        if value.tensor is not None:
            inputs.append(scratch.add_const(value.tensor, value.name))
            continue
        copy = scratch.append("Data", name=value.name, outputs=(value.name,)).output
        copy.desc = value.desc
        if (found := known(value)) is not None:
            elements.set(copy, found)
        inputs.append(copy)
    names = [value.name for value in node.outputs]
    twin = scratch.append(node.op_type, inputs, node.attrs, name=node.name, outputs=names, domain=node.domain)
    twin.sources = node.sources
    for value, declared in zip(twin.outputs, node.outputs, strict=True):
        value.desc = declared.desc
    try:
        results = opdef.expand(
            twin, Rewriter(scratch, twin, "", infer=lambda created: infer_created(created, twin, elements))
        )
    except Unsupported:
        return [UNKNOWN] * len(node.outputs)
    assert results is not None and not isinstance(results, Reject)
    own = {dim for value in (*node.operands, *node.outputs) for dim in value.desc.shape or ()}
    own.update(dim for value in node.operands for dim in known(value) or ())
    descs = [UNKNOWN if value is None else value.desc for value in results]
    return [_with_own_names(node, index, desc, own) for index, desc in enumerate(descs)]


def infer_created(created: Node, source: Node, known: KnownValues) -> None:
    """Infer a node that stands for a part of `source`; what is in bodies waits until these are swept."""
    if created.graph is source.graph and not created.has_subgraphs:
        infer_node(created, known)


def _with_own_names(node: Node, index: int, desc: TensorDesc, known: Collection[Dim]) -> TensorDesc:
    """Call sizes that no operand has after the node: symbols of a scratch graph may stand for something else here."""
    if desc.shape is None:
        return desc
    dims = [
        dim if isinstance(dim, int) or dim in known else unnamed_dim(node, 8 * index + axis)
        for axis, dim in enumerate(desc.shape)
    ]
    return TensorDesc.plain(desc.dtype, tuple(dims))


def propagate(node: Node, known: KnownValues) -> None:
    """Notes what is known of the elements of output 0 of a node whose descs are set."""
    opdef = find_opdef(node)
    if opdef is not None and opdef.propagate is not None:
        elements = opdef.propagate(node, known)
        if elements is not None and _hold(node.output.desc.dtype, elements):
            known.set(node.output, elements)


def _only_halves_differ(node: Node, dtypes: tuple[DType, ...]) -> bool:
    """True if a pass left weights or states in 16 bits and all else fits the op's schema."""
    opdef = find_opdef(node)
    if opdef is None or not node.passes:
        return False
    may_be_half = (*opdef.half_weights, *(index for index, _ in opdef.half_states if index < len(dtypes)))
    narrow = {index for index in may_be_half if dtypes[index] in HALF_DTYPES}
    wide = tuple([DType.FLOAT32 if index in narrow else dtype for index, dtype in enumerate(dtypes)])
    return bool(narrow) and not type_problem(node.op_type, node.domain, wide)


def _hold(dtype: DType, elements: tuple[Dim, ...]) -> bool:
    """False if arithmetic without limits left the element type, which would have wrapped around."""
    if not dtype.is_int:
        return True
    low, high = dtype.integer_range()
    return all(low <= item <= high for item in elements if isinstance(item, int))


def _check_size(node: Node, desc: TensorDesc) -> None:
    shape = desc.shape
    if shape is None:
        return
    if not fits_limits(shape):
        what = f"its result would have the shape {format_shape(shape)}"
        if any(isinstance(dim, int) and dim < 0 for dim in shape):
            raise ModelInvalid("EZ8888", what, where=node)
        raise ResourceLimit("R0001", what, where=node, hint="make the shapes smaller")
    if is_static(shape) and desc.nbytes > MAX_BYTES:
        what = f"its result {format_shape(shape)} would take {desc.nbytes} bytes"
        raise ResourceLimit("R0001", what, where=node, hint="make the shapes smaller")


def _better(inferred: TensorDesc, declared: TensorDesc) -> TensorDesc:
    if inferred is UNKNOWN or inferred.dtype is DType.UNDEFINED:
        return declared
    if inferred.shape is None and declared.dtype is inferred.dtype:
        return declared
    return inferred
