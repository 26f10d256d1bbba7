"""Ops by the ONNX standard: inference by its shape functions, evaluation by its reference ops.

This is what a record falls back on, what constant folding uses for ops without an `evaluate`,
and what HOST_CPU runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from atcpy.errors import ModelInvalid, Unsupported
from atcpy.ir import DType, Node, Sym, Tensor, TensorDesc, Value
from atcpy.ir.barrier import PURE
from atcpy.ir.desc import UNKNOWN
from atcpy.ir.shape import Dim, element_count
from atcpy.ir.symbolic import is_symbolic
from atcpy.ir.tensor import Array
from atcpy.ops.core.half import NOTES
from atcpy.ops.core.opdef import Known, find_opdef

if TYPE_CHECKING:  # functions import it: most packages run without it
    import onnx

# What the ONNX reference ops raise on values that they cannot work with.
EVALUATION_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    OSError,  # of pictures that cannot be read
    RuntimeError,
    TypeError,
    ValueError,
)
_UNCHANGED_SINCE = 18  # the last opset that changed the meaning of ops that functions are made of
MAX_DATA_ELEMENTS = 1024  # constants up to here are shown to ONNX's shape functions


def find_schema(op_type: str, domain: str) -> onnx.defs.OpSchema | None:
    """The schema of a standard op at the canonical opset, or at its domain's newest version."""
    import onnx

    if not onnx.defs.has(op_type, domain):
        return None
    schema = onnx.defs.get_schema(op_type, domain=domain)
    if schema.deprecated and schema.since_version > 1:  # what it was; models go on using it
        schema = onnx.defs.get_schema(op_type, schema.since_version - 1, domain)
    return schema


@cache
def type_problem(op_type: str, domain: str, dtypes: tuple[DType, ...]) -> str:
    """How inputs of these types (UNDEFINED: not known, or left out) break the standard's rule for an op, or nothing."""
    schema = find_schema(op_type, domain)
    if schema is None or not schema.inputs:
        return ""
    bound: dict[str, tuple[int, DType]] = {}
    for index, dtype in enumerate(dtypes):
        formal = schema.inputs[min(index, len(schema.inputs) - 1)]
        if dtype is DType.UNDEFINED:
            continue
        if type_name(dtype) not in formal.types:
            return f"input {index} is {dtype.long}, which {op_type} does not take"
        first, other = bound.setdefault(formal.type_str, (index, dtype)) if formal.is_homogeneous else (index, dtype)
        if other is not dtype:
            return f"inputs {first} and {index} are {other.long} and {dtype.long}, {op_type} wants one type"
    return ""


@cache
def sequence_problem(op_type: str, domain: str, index: int, sequence: str) -> str:
    """How an input that is a sequence breaks the standard's rule for an op, or nothing."""
    schema = find_schema(op_type, domain)
    if schema is None or not schema.inputs or sequence in schema.inputs[min(index, len(schema.inputs) - 1)].types:
        return ""
    return f"input {index} is {sequence}, which {op_type} does not take"


def type_name(dtype: DType) -> str:
    """The name of a tensor's type in the standard, such as `tensor(float)`."""
    return f"tensor({_STANDARD_NAME.get(dtype, dtype.long)})"


_STANDARD_NAME = {DType.FLOAT32: "float", DType.FLOAT64: "double"}


def to_node_proto(node: Node) -> onnx.NodeProto:
    """The node as ONNX writes it, values under our names. Nodes with subgraphs are not meant."""
    from onnx import helper

    names = ["" if value is None else value.name for value in node.inputs]
    proto = helper.make_node(
        node.op_type, names, [value.name for value in node.outputs], name=node.name, domain=node.domain
    )
    schema = find_schema(node.op_type, node.domain)
    for name, attr in node.attrs.items():
        if name in NOTES:
            continue
        kind = None
        if attr == () and schema is not None and name in schema.attributes:
            kind = schema.attributes[name].type.value  # type: ignore[attr-defined]  # the stubs do not know the enum
        proto.attribute.append(helper.make_attribute(name, _attr_to_proto(attr), attr_type=kind))
    return proto


def is_function(node: Node) -> bool:
    """Does the standard define the op by others?"""
    schema: Any = find_schema(node.op_type, node.domain)
    return schema is not None and bool(schema.has_function or schema.has_context_dependent_function)


def function_body(node: Node) -> onnx.FunctionProto | None:
    """The function that the standard defines a node's op by, its attributes put in; None if there is none whose
    ops mean what they mean at the canonical opset.
    """
    import onnx

    schema: Any = find_schema(node.op_type, node.domain)  # onnx's stubs do not know all of its methods
    if schema is None or node.domain:
        return None
    proto = to_node_proto(node)
    body = onnx.FunctionProto()
    if schema.has_context_dependent_function:
        version = max(schema.context_dependent_function_opset_versions)
        types = [desc_to_type_proto(value.desc).SerializeToString() if value else b"" for value in node.inputs]
        body.ParseFromString(
            schema.get_context_dependent_function_with_opset_version(version, proto.SerializeToString(), types)
        )
    elif schema.has_function:
        version = max(schema.function_opset_versions)
        body.ParseFromString(schema.get_function_with_opset_version(version))
    else:
        return None
    attributes = {attr.name: attr for attr in proto.attribute}
    for part in body.node:
        _bind_attributes(part, attributes, schema)
    return body if version >= _UNCHANGED_SINCE else None


def _bind_attributes(part: onnx.NodeProto, attributes: Mapping[str, onnx.AttributeProto], schema: Any) -> None:
    """Puts the attributes of a call, or their defaults, where a node of a function refers to them."""
    import onnx

    attrs = list(part.attribute)
    del part.attribute[:]
    for attr in attrs:
        name = attr.ref_attr_name
        if not name:
            part.attribute.append(attr)
        elif name in attributes or schema.attributes[name].default_value.type != onnx.AttributeProto.UNDEFINED:
            part.attribute.append(attributes.get(name) or schema.attributes[name].default_value)
            part.attribute[-1].name = attr.name


def infer_by_onnx(node: Node, known: Known) -> list[TensorDesc]:
    """Types of the outputs by ONNX's own shape functions."""
    schema = find_schema(node.op_type, node.domain)
    if schema is None:
        raise Unsupported("E10501", where=node, what=f"no definition of {node.domain or 'ai.onnx'}::{node.op_type}")
    return _infer_by_schema(node, schema, to_node_proto(node), _opsets(node.domain, schema))


def infer_barrier(node: Node) -> list[TensorDesc]:
    """Types of the outputs of an op that passes do not know, if the standard knows it at its opset."""
    import onnx
    from onnx import helper

    qualified_domain, _, op_type = node.op_type.partition("::")
    domain, _, opset = qualified_domain.partition("@")
    domain = "" if domain == "ai.onnx" else domain
    if not onnx.defs.has(op_type, int(opset), domain) or node.has_subgraphs:
        return [UNKNOWN for _ in node.outputs]
    proto = to_node_proto(node)
    proto.op_type, proto.domain = op_type, domain
    kept = [attr for attr in proto.attribute if attr.name != PURE]
    del proto.attribute[:]
    proto.attribute.extend(kept)
    imports = [helper.make_opsetid(domain, int(opset))]
    try:
        return _infer_by_schema(node, onnx.defs.get_schema(op_type, int(opset), domain), proto, imports)
    except ModelInvalid:
        return [UNKNOWN for _ in node.outputs]


def _infer_by_schema(
    node: Node, schema: onnx.defs.OpSchema, proto: onnx.NodeProto, imports: list[onnx.OperatorSetIdProto]
) -> list[TensorDesc]:
    import onnx
    from onnx import numpy_helper, shape_inference

    types = {
        value.name: onnx.TypeProto() if value.desc.dtype is DType.UNDEFINED else desc_to_type_proto(value.desc)
        for value in node.operands
    }
    data = {
        value.name: numpy_helper.from_array(np.asarray(value.array, order="C"))
        for value in node.operands
        if value.tensor is not None and value.tensor.nbytes <= 8 * MAX_DATA_ELEMENTS and value.tensor.dtype.bits >= 8
    }
    try:
        found = shape_inference.infer_node_outputs(schema, proto, types, data, opset_imports=imports)
    except (shape_inference.InferenceError, onnx.checker.ValidationError, ValueError, RuntimeError) as error:
        if any(value.desc.dtype is DType.UNDEFINED for value in node.operands):
            return [UNKNOWN for _ in node.outputs]  # sequences and optionals: it asked for a type that is not known
        raise ModelInvalid("EZ8888", where=node, what=f"shapes do not fit: {_last_line(error)}") from error
    symbolic = {_to_dim(dim): dim for value in node.operands for dim in value.desc.shape or () if is_symbolic(dim)}
    return [
        type_proto_to_desc(found[value.name], value.name, symbolic) if value.name in found else UNKNOWN
        for value in node.outputs
    ]


def evaluate_node(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """Return the outputs of a node on numpy arrays: by its record, or by ONNX's reference implementation."""
    opdef = find_opdef(node)
    return (evaluate_by_onnx if opdef is None or opdef.evaluate is None else opdef.evaluate)(node, arrays)


def evaluate_by_onnx(node: Node, arrays: Sequence[Array | None], **changed: int) -> list[Array]:
    """The outputs of a node by ONNX's reference implementation, on numpy arrays; `changed` are other attributes."""
    import onnx
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    names = ["" if array is None else f"i{index}" for index, array in enumerate(arrays)]
    outputs = [f"o{index}" for index in range(len(node.outputs))]
    proto = to_node_proto(node)
    del proto.input[:], proto.output[:]
    proto.input.extend(names)
    proto.output.extend(outputs)
    kept = [attr for attr in proto.attribute if attr.name not in changed]
    del proto.attribute[:]
    proto.attribute.extend([*kept, *(helper.make_attribute(name, value) for name, value in changed.items())])
    graph = helper.make_graph(
        [proto],
        "node",
        [helper.make_value_info(name, onnx.TypeProto()) for name in names if name],
        [helper.make_value_info(name, onnx.TypeProto()) for name in outputs],
    )
    opsets = _opsets(node.domain, find_schema(node.op_type, node.domain))
    evaluator = ReferenceEvaluator(helper.make_model(graph, opset_imports=opsets))
    feeds = {name: array for name, array in zip(names, arrays, strict=True) if name}
    results = evaluator.run(None, feeds)
    assert isinstance(results, list)
    return [_as_value(result, value.desc.dtype) for result, value in zip(results, node.outputs, strict=True)]


@cache
def canonical_opset() -> int:
    """The newest opset, which is that of our graphs."""
    import onnx

    return onnx.defs.onnx_opset_version()


def _opsets(domain: str, schema: onnx.defs.OpSchema | None) -> list[onnx.OperatorSetIdProto]:
    from onnx import helper

    opsets = [helper.make_opsetid("", canonical_opset())]
    if domain and schema is not None:
        opsets.append(helper.make_opsetid(domain, schema.since_version))
    return opsets


def _as_value(result: Any, dtype: DType) -> Any:
    """What a reference op returns, numbers as arrays; sequences, maps and empty optionals stay what they are."""
    if result is None or isinstance(result, list | dict):
        return result
    return np.asarray(result) if dtype is DType.UNDEFINED else np.asarray(result, dtype.numpy)


def desc_to_type_proto(desc: TensorDesc) -> onnx.TypeProto:
    """The ONNX type of a value; symbols become dim_params."""
    from onnx import helper

    shape = None if desc.shape is None else [_to_dim(dim) for dim in desc.shape]
    return helper.make_tensor_type_proto(desc.dtype.onnx, shape)


def _to_dim(dim: Dim) -> int | str:
    if isinstance(dim, Sym):
        return dim.name
    return f"symbolic {dim}" if is_symbolic(dim) else dim  # a name by which it is found again


def type_proto_to_desc(
    proto: onnx.TypeProto, name: str, symbolic: Mapping[int | str, Dim] = MappingProxyType({})
) -> TensorDesc:
    """The type of the value `name` from its ONNX type; a dim without size or name gets a symbol that
    no other has: equal symbols are equal sizes. `symbolic` has the sizes behind the names of `desc_to_type_proto`.
    """
    tensor = proto.tensor_type
    dtype = DType.from_onnx(tensor.elem_type)
    if not tensor.HasField("shape"):
        return TensorDesc.plain(dtype, None)
    dims = [_dim(dim, f"{name}.{axis}") for axis, dim in enumerate(tensor.shape.dim)]
    return TensorDesc.plain(dtype, tuple(symbolic.get(str(dim), dim) for dim in dims))


def has_few_elements(desc: TensorDesc) -> bool:
    """Can its elements be known one by one: a scalar or a list, of a length that is a small number?"""
    if not desc.is_static or len(desc.static_shape) > 1 or is_symbolic(desc.elements):
        return False
    return desc.elements <= MAX_DATA_ELEMENTS


def known_constant(value: Value | None) -> tuple[Dim, ...] | None:
    """The elements of a small constant of integers or truth values; the least that a `Known` can know."""
    tensor = None if value is None else value.tensor
    if value is not None and value.producer.op_type == "ShapeValue":
        return value.producer.attrs["elements"]  # type: ignore[return-value]
    if tensor is None or not (tensor.dtype.is_int or tensor.dtype is DType.BOOL) or len(tensor.shape) > 1:
        return None
    if element_count(tensor.shape) > MAX_DATA_ELEMENTS:
        return None
    return tuple(map(int, tensor.array.reshape(-1).tolist()))


def _dim(dim: onnx.TensorShapeProto.Dimension, unnamed: str) -> Dim:
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return dim.dim_value
    return Sym(dim.dim_param or unnamed)


def _attr_to_proto(attr: object) -> Any:
    if isinstance(attr, Tensor):
        return _tensor_to_proto(attr)
    if isinstance(attr, tuple):
        return [_attr_to_proto(item) for item in attr]
    return attr.encode("utf-8", "surrogateescape") if isinstance(attr, str) else attr  # which may be no UTF-8


def _tensor_to_proto(tensor: Tensor) -> onnx.TensorProto:
    import onnx

    array = np.asarray(tensor.array, order="C")
    if tensor.dtype is DType.STRING:
        texts = [str(text).encode("utf-8", "surrogateescape") for text in array.reshape(-1)]
        return onnx.TensorProto(data_type=tensor.dtype.onnx, dims=array.shape, string_data=texts)
    proto = onnx.numpy_helper.from_array(array)
    proto.data_type = tensor.dtype.onnx
    return proto


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
