"""The graph of a package with gears, as GE's MultiBatchClonePass makes it: a Case with a branch for each gear.

    Data ─┬─► GetDynamicDims ─► MapIndex(·, table of gears) ─► Case ─► NetOutput
          └───────────────────────────────────────────────────► │

Names and attributes are GE's. The branch `Batch_<i>` is the graph compiled for gear i; its names end in a suffix of its
own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atcpy.ir.compiled import Gear
from atcpy.ir.desc import TensorDesc
from atcpy.ir.dtype import DType
from atcpy.ir.graph import Graph, walk
from atcpy.ir.shape import Dim, Shape, StaticShape, Sym
from atcpy.ir.tensor import Tensor
from atcpy.sizes import ANY_SIZE, GearKind

_SUFFIX = "_ascend_mbatch_batch_"
_GE_TYPE = {DType.FLOAT32: "DT_FLOAT", DType.FLOAT64: "DT_DOUBLE", DType.BFLOAT16: "DT_BF16"}  # others are named alike


def branches(graph: Graph) -> tuple[Graph, ...]:
    """The graphs of a package's gears; none if it has no gears."""
    for node in graph.nodes_of("Case"):
        bodies = node.attrs.get("branches")
        if isinstance(bodies, tuple):
            return tuple(body for body in bodies if isinstance(body, Graph))
    return ()


def one_gear(graph: Graph) -> Graph:
    """The graph that stands for a package: that of the first gear, or the graph itself."""
    return next(iter(branches(graph)), graph)


def add_suffix(graph: Graph, gear: int) -> None:
    """Make the names of a gear's graph differ from those of the other gears."""
    suffix = f"{_SUFFIX}{gear}"
    for node in walk(graph):
        node.name += suffix
        for value in node.outputs:
            value.name += suffix


def case_graph(model: Graph, kind: GearKind, gears: Sequence[Gear], graphs: Sequence[Graph]) -> Graph:
    """The graph of a package: the inputs and outputs of `model`, and a Case of the gears' `graphs`."""
    graph = Graph(model.name)
    graph.decisions, graph.node_count_before = model.decisions, model.node_count_before
    datas = [graph.append("Data", (), data.attrs, name=data.name, outputs=(data.output.name,)) for data in model.inputs]
    for data, twin in zip(model.inputs, datas, strict=True):
        twin.output.desc = data.output.desc
    inputs = [data.output for data in datas]
    for index, data in enumerate(datas):
        _note_shapes(data.attrs, data.output.desc, data.output.name, [gear.inputs[index] for gear in gears])
    arity = len(gears[0].sizes)
    rows = np.array([gear.sizes for gear in gears], np.int32).reshape(-1)
    table = graph.append("Const", (), {"value": Tensor.of(rows)}, name="ascend_mbatch_shape_const")
    table.output.desc = TensorDesc.plain(DType.INT32, rows.shape)
    dims = graph.append("GetDynamicDims", inputs, name="ascend_mbatch_get_dynamic_dims_node")
    dims.output.desc = TensorDesc.plain(DType.INT32, (arity,))
    choice = graph.append("MapIndex", [dims.output, table.output], name="ascend_mbatch_shape_mapindex")
    choice.output.desc = TensorDesc.plain(DType.INT32, ())
    names = model.net_output.attrs["names"]
    assert isinstance(names, tuple)
    case = graph.append("Case", [choice.output, *inputs], name="ascend_mbatch_shape_case", outputs=names)
    case.attrs.update(
        {
            "_batch_num": len(gears),
            **{f"_pred_value_{number}": gear.sizes for number, gear in enumerate(gears)},
            "mbatch_dynamic_type": int(kind),
            "user_designate_shape_order": tuple(data.output.name for data in datas),
            "mbatch-inserted-node": True,
            "branches": tuple(graphs),
        }
    )
    for number, branch in enumerate(graphs):
        branch.name = f"Batch_{number}"
    for position, (value, output) in enumerate(zip(model.outputs, case.outputs, strict=True)):
        shapes = [gear.outputs[position] for gear in gears]
        output.desc = TensorDesc.plain(value.desc.dtype, _open_shape(value.desc.shape, shapes, output.name))
    attrs = {**model.net_output.attrs, "_dynamic_output_dims": dynamic_output_dims(gears)}
    graph.append("NetOutput", case.outputs, attrs, name="NetOutput", outputs=())
    return graph


def dynamic_output_dims(gears: Sequence[Gear]) -> tuple[str, ...]:
    """GE's list of the outputs' shapes: gear, output and dims, by output and then by gear."""
    return tuple(
        ",".join(map(str, (number, output, *gear.outputs[output])))
        for output in range(len(gears[0].outputs))
        for number, gear in enumerate(gears)
    )


def _note_shapes(attrs: dict[str, object], desc: TensorDesc, name: str, shapes: Sequence[StaticShape]) -> None:
    """Note the shapes of an input that varies: `format:dtype:name:bytes:rank:dims` of each gear."""
    if desc.is_static or desc.shape is None:
        return
    attrs["_mbatch_origin_input_dims"] = tuple(dim if isinstance(dim, int) else ANY_SIZE for dim in desc.shape)
    ge_type = _GE_TYPE.get(desc.dtype, f"DT_{desc.dtype.name}")
    attrs["_all_origin_gears_inputs"] = tuple(
        f"{desc.format.kind.name}:{ge_type}:{name}:{TensorDesc.plain(desc.dtype, shape).nbytes}:"
        f"{len(shape)}:{','.join(map(str, shape))}"
        for shape in shapes
    )


def _open_shape(symbolic: Shape | None, shapes: Sequence[StaticShape], name: str) -> Shape:
    """The shape of an output in all gears: a symbol where they differ, that of the model if it has one."""
    dims: list[Dim] = []
    for axis, sizes in enumerate(zip(*shapes, strict=True)):
        known = symbolic[axis] if symbolic is not None and len(symbolic) == len(shapes[0]) else None
        dims.append(sizes[0] if len(set(sizes)) == 1 else known if isinstance(known, Sym) else Sym(f"{name}.{axis}"))
    return tuple(dims)
