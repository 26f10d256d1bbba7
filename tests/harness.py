"""Runs one op through its record alone: infer, place, layout, lower, pack, kernel. No stage is involved.

`run_op` is how tests compare an op's kernels with the ONNX reference (`reference_op`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from atcpy.formats import find_format
from atcpy.ir import NC1HWC0, DType, Engine, Format, Graph, Node, Region, Reject, Slot, Tensor, TensorDesc, Value
from atcpy.ir.shape import element_count
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels, table
from atcpy.om.bits import pack_bits, unpack_bits
from atcpy.ops import KernelCall, find_opdef
from atcpy.ops.core.reference import evaluate_by_onnx, infer_by_onnx, known_constant
from atcpy.passes.split.assign_engines import choose_engine


def make_node(
    op_type: str,
    arrays: Sequence[Array | None],
    attrs: Mapping[str, object] | None = None,
    *,
    constants: Sequence[int] = (),
    outputs: int = 1,
    domain: str = "",
) -> Node:
    """A graph with one node of the op; inputs listed in `constants` are Const, the others Data."""
    graph = Graph("test")
    values: list[Value | None] = []
    for index, array in enumerate(arrays):
        if array is None:
            values.append(None)
        elif index in constants:
            values.append(graph.append("Const", (), {"value": Tensor.of(array)}, outputs=(f"i{index}",)).output)
        else:
            values.append(graph.append("Data", (), {"index": index}, outputs=(f"i{index}",)).output)
        if array is not None:
            value = values[-1]
            assert value is not None
            value.desc = TensorDesc.plain(DType.from_numpy(array.dtype), array.shape)
    names = [f"o{index}" for index in range(outputs)]
    node = graph.append(op_type, values, attrs or {}, outputs=names, domain=domain)
    opdef = find_opdef(node)
    infer = opdef.infer if opdef is not None and opdef.infer is not None else infer_by_onnx
    for value, desc in zip(node.outputs, infer(node, known_constant), strict=False):
        value.desc = desc
    node.engine, _ = choose_engine(node)
    graph.append("NetOutput", node.outputs)
    return node


def rejections(node: Node) -> list[str]:
    """The reasons for which the vector engine rejects the node; empty if it accepts it."""
    opdef = find_opdef(node)
    assert opdef is not None
    return [reject.reason for reject in opdef.engines[Engine.VECTOR](node)]


def reference_op(node: Node, arrays: Sequence[Array | None]) -> list[Array]:
    """The outputs by ONNX's reference implementation."""
    return evaluate_by_onnx(node, arrays)


def run_op(
    node: Node,
    arrays: Sequence[Array | None],
    *,
    blocked: bool = False,
    isa: str | None = None,
    threads: int = 1,
    rows: list[str] | None = None,
    before: Mapping[int, Array] | None = None,
    rewrite: Callable[[KernelCall], KernelCall] | None = None,
    bf16: Collection[str] = (),
) -> list[Array]:
    """The outputs of a node of `make_node` by our kernels, at most on `isa`. With `blocked`, every
    4-D activation comes in NC1HWC0 and the record's `layout` says what becomes of it. The names of
    the kernel rows that run are appended to `rows`. `before` is what outputs hold before the run, by their index.
    `rewrite` replaces each launch, as passes on launches do. Values named in `bf16` are stored as that type, as
    NarrowActivationsPass does it.
    """
    opdef = find_opdef(node)
    assert opdef is not None and (opdef.lower or opdef.bound), f"{node.op_type} has no kernel"
    memory: dict[Value, Array] = {}
    _choose_formats(node, blocked=blocked)
    for value in (*node.operands, *node.outputs):
        if value.name in bf16:
            value.desc = replace(value.desc, dtype=DType.BFLOAT16)
    inferred = [value.desc.shape or () for value in node.outputs]
    count = Value("count", node, len(node.outputs), TensorDesc.plain(DType.INT64, (1,)))
    if opdef.bound is None:
        assert opdef.lower is not None
        calls = list(opdef.lower(node))
    else:
        for value, shape in zip(node.outputs, opdef.bound.shapes(node), strict=True):
            value.desc = TensorDesc.plain(value.desc.dtype, shape)
        calls = list(opdef.bound.lower(node, count))
    if rewrite is not None:
        calls = [*map(rewrite, calls)]
    for operand, array in zip(node.inputs, arrays, strict=True):
        if operand is not None and array is not None:
            stored = array.astype(operand.desc.dtype.numpy) if operand.name in bf16 else array
            memory[operand] = _packed(operand.desc, np.ascontiguousarray(_store(operand.desc, stored)))
            if operand.tensor is None and operand.desc.storage_shape is not None:
                _spoil_padding(operand.desc, memory[operand])
    for call in calls:  # constants that lowering created
        for source in call.src:
            if source is not None and source.tensor is not None and source not in memory:
                memory[source] = np.ascontiguousarray(source.array)
    for value in (*node.outputs, count):
        memory[value] = _packed(value.desc, np.empty(value.desc.memory_shape, value.desc.dtype.numpy))
        memory[value].reshape(-1).view(np.uint8)[:] = 0xA5  # what a kernel forgets to write is seen
    for index, array in (before or {}).items():
        memory[node.outputs[index]][...] = array
    for call in calls:
        row = run_call(call, memory, isa=isa, threads=threads)
        if rows is not None:
            rows.append(row)
    if opdef.bound is not None:
        shapes = [opdef.bound.cut(shape, int(memory[count][0])) for shape in inferred]
        pairs = zip(node.outputs, shapes, strict=True)
        return [memory[value].reshape(-1)[: element_count(shape)].reshape(shape) for value, shape in pairs]
    return [_load(value.desc, memory[value]) for value in node.outputs]


def run_call(call: KernelCall, memory: Mapping[Value, Array], *, isa: str | None = None, threads: int = 1) -> str:
    """Runs one kernel launch on the arrays of its operands; returns the row that ran."""
    operands = list(dict.fromkeys(value for value in call.src if value is not None))
    inputs = [value for value in operands if value.tensor is None]
    weights, offsets = bytearray(), dict[Value, int]()
    for value in operands:
        if value.tensor is not None:
            weights.extend(bytes(-len(weights) % 64))
            offsets[value] = len(weights)
            weights.extend(memory[value].tobytes())

    def source(value: Value | None) -> Slot | None:
        if value is None:
            return None
        if value in offsets:
            return Slot(Region.WEIGHTS, offsets[value], memory[value].nbytes, value.desc)
        return _slot(Region.INPUT, value, inputs.index(value), memory)

    dst = [_slot(Region.OUTPUT, value, index, memory) for index, value in enumerate(call.dst)]
    record = table.pack_task(
        call.family, [source(value) for value in call.src], dst, table.pack_params(call.family, call.params)
    )
    feeds, results = [memory[value] for value in inputs], [memory[value] for value in call.dst]
    sizes = [[array.nbytes for array in arrays] for arrays in (feeds, results)]
    plan = _kernels.Plan(record, _aligned(weights), 0, sizes[0], sizes[1], threads, isa)
    plan.start([_bytes(array) for array in feeds], [_bytes(array) for array in results]).execute(0, 1)
    row = plan.rows()[0]
    assert row is not None
    return row


def load_task(
    family: str,
    params: Mapping[str, table.ParamValue],
    srcs: Sequence[Array | None],
    *dsts: Array,
    isa: str | None = None,
) -> _kernels.Plan:
    """A plan of one task, as the loader makes it. Raises Refused."""
    fed = [array for array in srcs if array is not None]
    indices = iter(range(len(fed)))
    src = [None if array is None else _array_slot(Region.INPUT, array, next(indices)) for array in srcs]
    dst = [_array_slot(Region.OUTPUT, array, index) for index, array in enumerate(dsts)]
    record = table.pack_task(family, src, dst, table.pack_params(family, params))
    return _kernels.Plan(record, None, 0, [array.nbytes for array in fed], [array.nbytes for array in dsts], 1, isa)


def _array_slot(region: Region, array: Array, index: int) -> Slot:
    return Slot(region, 0, array.nbytes, TensorDesc.plain(DType.from_numpy(array.dtype), array.shape), index)


def _choose_formats(node: Node, *, blocked: bool) -> None:
    opdef = find_opdef(node)
    assert opdef is not None
    if opdef.layout is None:
        assert not blocked, f"{node.op_type} has no layout"
        return
    at_hand = tuple(
        NC1HWC0 if blocked and value is not None and _is_activation(value) else _format_of(value)
        for value in node.inputs
    )
    layout = opdef.layout(node, at_hand)
    if isinstance(layout, Reject) or layout.plain_because is not None:
        assert not blocked, layout
    if isinstance(layout, Reject):
        return
    for value, form in (*zip(node.inputs, layout.inputs, strict=True), *zip(node.outputs, layout.outputs, strict=True)):
        if value is not None and form is not None:
            _store_as(value, form)


def _is_activation(value: Value) -> bool:
    return value.tensor is None and len(value.desc.static_shape) == 4


def _format_of(value: Value | None) -> Format:
    return Format(TensorDesc(DType.FLOAT32, None).format.kind) if value is None else value.desc.format


def _store_as(value: Value, form: Format) -> None:
    value.desc = value.desc.stored_as(form, find_format(form).storage_shape(value.desc.static_shape))


def _packed(desc: TensorDesc, array: Array) -> Array:
    return pack_bits(array, desc.dtype) if desc.dtype.bits < 8 else array


def _store(desc: TensorDesc, array: Array) -> Array:
    return array if desc.storage_shape is None else find_format(desc.format).pack(array)


def _spoil_padding(desc: TensorDesc, packed: Array) -> None:
    """Padding of activations means nothing: NaN, or all bits set, that no result may show."""
    real = find_format(desc.format).pack(np.ones(desc.static_shape, bool))
    packed.view(np.uint8).reshape(*packed.shape, packed.itemsize)[~real] = 0xFF


def _load(desc: TensorDesc, array: Array) -> Array:
    if desc.dtype.bits < 8:
        array = unpack_bits(array, desc.dtype, desc.elements).view(desc.dtype.numpy).reshape(desc.static_shape)
    return array if desc.storage_shape is None else find_format(desc.format).unpack(array, desc.static_shape)


def _aligned(weights: bytearray) -> memoryview:
    """The constants where the loader has them: at a multiple of 64 bytes."""
    room = np.zeros(len(weights) + 64, np.uint8)
    first = -room.ctypes.data % 64
    room[first : first + len(weights)] = np.frombuffer(weights, np.uint8)
    return room.data[first : first + len(weights)]


def _slot(region: Region, value: Value, index: int, memory: Mapping[Value, Array]) -> Slot:
    return Slot(region, 0, memory[value].nbytes, value.desc, index)


def _bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)
