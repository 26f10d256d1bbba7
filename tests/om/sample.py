"""A small compiled model that has one of everything a package can hold."""

import ml_dtypes
import numpy as np

from atcpy.formats import find_format
from atcpy.ir import (
    NC1HWC0,
    CompiledModel,
    DType,
    Engine,
    Format,
    FormatKind,
    Graph,
    MemoryPlan,
    Port,
    Region,
    Reject,
    Slot,
    Source,
    Sym,
    Task,
    Tensor,
    TensorDesc,
    Value,
    Weight,
)
from atcpy.ir.closure import close_bodies

F32 = DType.FLOAT32
FRACTAL_Z = Format(FormatKind.FRACTAL_Z, 16)


def blocked(shape: tuple[int, ...]) -> TensorDesc:
    plain = TensorDesc.plain(F32, shape)
    return plain.stored_as(NC1HWC0, find_format(NC1HWC0).storage_shape(shape))


def const(graph: Graph, name: str, tensor: Tensor) -> Value:
    return graph.add_const(tensor, name)


def small(*, seed: int = 0) -> CompiledModel:
    """x → TransData → Conv(w, b) → Relu → TransData → y, all on our engines."""
    rng = np.random.default_rng(seed)
    graph = Graph("small")
    out = graph.append("NetOutput", name="out", outputs=())
    x = graph.append("Data", (), {"index": 0}, name="x", outputs=("x",), before=out).output
    x.desc = TensorDesc.plain(F32, (1, 3, 8, 8))
    w = const(graph, "w", Tensor.of(rng.standard_normal((4, 3, 3, 3)), F32))
    w.desc = w.desc.stored_as(FRACTAL_Z, find_format(FRACTAL_Z).storage_shape((4, 3, 3, 3)))
    b = const(graph, "b", Tensor.of(rng.standard_normal(4), F32))
    into = graph.append("TransData", (x,), name="x_5d", before=out)
    into.output.desc = blocked((1, 3, 8, 8))
    conv = graph.append(
        "Conv", (into.output, w, b), {"pads": (1, 1, 1, 1), "group": 1, "auto_pad": "NOTSET"}, name="conv", before=out
    )
    conv.sources, conv.passes = ("Conv_1", "BatchNormalization_2"), ("ConvBatchnormFusionPass",)
    relu = graph.append("Relu", (conv.output,), name="relu", before=out)
    back = graph.append("TransData", (relu.output,), name="y_4d", outputs=("y",), before=out)
    conv.output.desc = relu.output.desc = blocked((1, 4, 8, 8))
    back.output.desc = TensorDesc.plain(F32, (1, 4, 8, 8))
    graph.set_inputs(out, (back.output,))
    for node, engine in ((into, Engine.VECTOR), (conv, Engine.AICORE), (relu, Engine.VECTOR), (back, Engine.VECTOR)):
        node.engine = engine
    record = graph.decisions.begin("ConvBatchnormFusionPass", "prepare")
    record.matched, record.applied, record.seconds = 2, 1, 0.25
    record.reject(Reject("conv-has-other-users", "Conv_7", "2 users"))
    graph.decisions.removed["Identity_3"] = "identity"
    graph.node_count_before = 5
    weights = (
        Weight("w", w.producer.attrs["value"], w.desc, 512, w.desc.nbytes),  # type: ignore[arg-type]
        Weight("b", b.producer.attrs["value"], b.desc, 512 + w.desc.nbytes, 16),  # type: ignore[arg-type]
    )
    slots = {
        "x": Slot(Region.INPUT, 0, 768, x.desc),
        "x5": Slot(Region.ARENA, 0, 4096, into.output.desc),
        "w": Slot(Region.WEIGHTS, 512, w.desc.nbytes, w.desc),
        "b": Slot(Region.WEIGHTS, 512 + w.desc.nbytes, 16, b.desc),
        "c5": Slot(Region.ARENA, 4096, 4096, conv.output.desc),
        "y": Slot(Region.OUTPUT, 0, 1024, back.output.desc),
    }
    launches = [
        (into, "transdata", ("x",), "x5"),
        (conv, "conv2d", ("x5", "w", "b"), "c5"),
        (relu, "relu", ("c5",), "c5"),
        (back, "transdata", ("c5",), "y"),
    ]
    return compiled(
        graph,
        tuple(
            Task(
                node.name,
                list(graph.nodes).index(node),
                node.op_type,
                node.engine or Engine.HOST_CPU,
                kernel,
                tuple(slots[name] for name in src),
                (slots[dst],),
                b"\1" * 8,
                node.sources,
                node.passes,
            )
            for node, kernel, src, dst in launches
        ),
        weights,
    )


def compiled(graph: Graph, tasks: tuple[Task, ...] = (), weights: tuple[Weight, ...] = ()) -> CompiledModel:
    """`graph` as a finished model."""
    return CompiledModel(
        graph=graph,
        inputs=tuple(Port(node.output.name, node.output.desc) for node in graph.inputs),
        outputs=tuple(Port(value.name, value.desc) for value in graph.outputs),
        tasks=tasks,
        weights=weights,
        memory=MemoryPlan(8192, 8192, 12288),
        soc="Ascend910",
        cmdline="atcpy convert --oo_level=O2",
        source=Source("ab" * 32, "onnx", (("", 21), ("ai.onnx.ml", 5)), "pytorch 2.9"),
        version="0.1.0",
    )


def odd() -> CompiledModel:
    """What real models seldom have: bodies with captured values, holes, scalars, rare types, symbolic dims."""
    graph = Graph("odd ☃")
    out = graph.append("NetOutput", name="out", outputs=())
    x = graph.append("Data", (), {"index": 0}, name="x", outputs=("x",), before=out).output
    x.desc = TensorDesc.plain(F32, (Sym("batch"), 4))
    flag = graph.append("Data", (), {"index": 1}, name="flag:0", outputs=("flag",), before=out).output
    flag.desc = TensorDesc.plain(DType.BOOL, ())
    consts = [
        const(graph, "f64 scalar", Tensor.of(0.1, DType.FLOAT64)),
        const(graph, "i4", Tensor.of(np.array([-8, 7, 1], ml_dtypes.int4))),
        const(graph, "u4", Tensor.of(np.array([[15, 0, 9]], ml_dtypes.uint4))),
        const(graph, "f8", Tensor.of(np.array([0.5, -2.0], ml_dtypes.float8_e4m3fn))),
        const(graph, "f4", Tensor.of(np.array([0.5, -6.0, 1.5], ml_dtypes.float4_e2m1fn))),
        const(graph, "bf16", Tensor.of(np.array([[1.5]], ml_dtypes.bfloat16))),
        const(graph, "c64", Tensor.of(np.array([1 + 2j], np.complex64))),
        const(graph, "bools", Tensor.of(np.array([True, False]))),
        const(graph, "words", Tensor.of(np.array(["a", "größer", ""], object), DType.STRING)),
        const(graph, "none", Tensor.of(np.zeros((0, 5), np.float32))),
        const(graph, "nan", Tensor.of(np.array([np.nan, np.inf, -0.0], np.float32))),
    ]
    uses = graph.append("Sum", consts, name="all constants", before=out)
    uses.output.desc = TensorDesc.plain(F32, (3,))
    holes = graph.append(
        "Clip", (x, None, consts[0]), {"axes": (), "alpha": 0.5, "words": ("a", "b"), "scales": (0.5, 2.0)},
        name="holes", domain="com.example", before=out,
    )  # fmt: skip
    holes.output.desc = TensorDesc.plain(F32, (Sym("batch"), 4))
    fill = graph.append(
        "ConstantOfShape", (flag,), {"value": Tensor.of(np.array([0.1], np.float32)),
                                     "more": (Tensor.of(np.array([[1 - 1j]])), Tensor.of(np.zeros((0, 2), np.int8)))},
        name="fill", before=out,
    )  # fmt: skip
    fill.output.desc = TensorDesc.plain(F32, None)
    bodies = []
    for name in ("body", "body"):
        body = Graph(name, names=graph.names)
        end = body.append("NetOutput", name=f"{name}_out", outputs=())
        inner = body.append("Relu", (holes.output,), name=f"{name}_relu", before=end)
        inner.output.desc = holes.output.desc
        body.set_inputs(end, (inner.output,))
        bodies.append(body)
    branch = graph.append(
        "If", (flag,), {"then_branch": bodies[0], "else_branch": bodies[1]}, name="branch", before=out
    )
    branch.output.desc = holes.output.desc
    branch.engine = Engine.HOST_CPU
    graph.set_inputs(out, (uses.output, fill.output, branch.output))
    close_bodies(graph)
    return compiled(graph)
