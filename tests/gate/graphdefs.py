"""TensorFlow models that are wrong: graphs, nodes, SavedModels and checkpoints."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import GraphDef, NodeDef
from tests.gate.cases import INVALID, Case
from tests.parsers.tensorflow.graphs import Function, TfBuilder, Type, attr_value
from tests.parsers.tensorflow.scores import write_scores
from tests.parsers.tensorflow.test_saved import B, W, old_graph, write_old

REFUSED = frozenset({3, 4})
FLOAT = Type("float32")
Change = Callable[[GraphDef], object]

# One node over `x` (float32 [1,4,4,2]), `v` (float32 [4]) and constants, by op: inputs and attributes.
NODES: dict[str, tuple[list[object], dict[str, object]]] = {
    "Add": (["x", "x"], {"T": FLOAT}),
    "AddN": (["x", "x"], {"N": 2, "T": FLOAT}),
    "ArgMax": (["x", np.int32(1)], {"T": FLOAT, "Tidx": Type("int32"), "output_type": Type("int64")}),
    "AvgPool": (["x"], {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID", "T": FLOAT}),
    "BatchMatMulV2": (["x", "x"], {"T": FLOAT, "adj_x": False, "adj_y": True}),
    "BiasAdd": (["x", np.ones(2, np.float32)], {"T": FLOAT}),
    "Cast": (["x"], {"SrcT": FLOAT, "DstT": Type("int32")}),
    "ConcatV2": (["x", "x", np.int32(1)], {"N": 2, "T": FLOAT, "Tidx": Type("int32")}),
    "Conv2D": (
        ["x", np.ones((2, 2, 2, 3), np.float32)], {"strides": [1, 1, 1, 1], "padding": "SAME", "T": FLOAT},
    ),
    "Cumsum": (["x", np.int32(1)], {"T": FLOAT, "Tidx": Type("int32")}),
    "DepthToSpace": (["x"], {"block_size": 1, "T": FLOAT}),
    "DepthwiseConv2dNative": (
        ["x", np.ones((2, 2, 2, 1), np.float32)], {"strides": [1, 1, 1, 1], "padding": "SAME", "T": FLOAT},
    ),
    "ExpandDims": (["x", np.int32(1)], {"T": FLOAT, "Tdim": Type("int32")}),
    "Fill": ([np.int32([2, 2]), np.float32(1)], {"T": FLOAT, "index_type": Type("int32")}),
    "GatherV2": (
        ["x", np.int32([1]), np.int32(1)], {"Tparams": FLOAT, "Tindices": Type("int32"), "Taxis": Type("int32")},
    ),
    "LRN": (["x"], {"depth_radius": 2, "T": FLOAT}),
    "MatMul": ([np.ones((2, 3), np.float32), np.ones((3, 2), np.float32)], {"T": FLOAT}),
    "MaxPool": (["x"], {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID", "T": FLOAT}),
    "Mean": (["x", np.int32([1, 2])], {"T": FLOAT, "Tidx": Type("int32"), "keep_dims": True}),
    "OneHot": (
        [np.int32([1, 2]), np.int32(4), np.float32(1), np.float32(0)], {"T": FLOAT, "TI": Type("int32"), "axis": -1},
    ),
    "Pack": (["x", "x"], {"N": 2, "T": FLOAT, "axis": 0}),
    "PadV2": (["x", np.zeros((4, 2), np.int32), np.float32(1)], {"T": FLOAT, "Tpaddings": Type("int32")}),
    "Range": ([np.int32(0), np.int32(5), np.int32(1)], {"Tidx": Type("int32")}),
    "Relu": (["x"], {"T": FLOAT}),
    "Reshape": (["x", np.int32([2, 16])], {"T": FLOAT, "Tshape": Type("int32")}),
    "ResizeBilinear": (["x", np.int32([8, 8])], {"T": FLOAT}),
    "ReverseV2": (["x", np.int32([1])], {"T": FLOAT, "Tidx": Type("int32")}),
    "ScatterNd": ([np.int32([[1]]), np.float32([1]), np.int32([4])], {"T": FLOAT, "Tindices": Type("int32")}),
    "Select": ([np.array([True]), np.float32([1]), np.float32([2])], {"T": FLOAT}),
    "Slice": (["x", np.int32([0, 0, 0, 0]), np.int32([1, 2, 2, 1])], {"T": FLOAT, "Index": Type("int32")}),
    "Softmax": (["x"], {"T": FLOAT}),
    "SpaceToBatchND": (
        ["x", np.int32([2, 2]), np.zeros((2, 2), np.int32)],
        {"T": FLOAT, "Tblock_shape": Type("int32"), "Tpaddings": Type("int32")},
    ),
    "Split": ([np.int32(1), "x"], {"num_split": 2, "T": FLOAT}),
    "SplitV": (["x", np.int32([1, 3]), np.int32(1)], {"num_split": 2, "T": FLOAT, "Tlen": Type("int32")}),
    "Squeeze": (["x"], {"T": FLOAT, "squeeze_dims": [0]}),
    "StridedSlice": (
        ["x", np.int32([0]), np.int32([1]), np.int32([1])], {"T": FLOAT, "Index": Type("int32")},
    ),
    "Sum": (["x", np.int32([1])], {"T": FLOAT, "Tidx": Type("int32")}),
    "Tile": (["x", np.int32([1, 2, 1, 1])], {"T": FLOAT, "Tmultiples": Type("int32")}),
    "TopKV2": (["v", np.int32(2)], {"T": FLOAT}),
    "Transpose": (["x", np.int32([0, 3, 1, 2])], {"T": FLOAT, "Tperm": Type("int32")}),
    "Unpack": (["v"], {"num": 4, "T": FLOAT, "axis": 0}),
}  # fmt: skip

MOVES = frozenset({"Cast", "ExpandDims", "Fill", "Mean", "Range", "Reshape", "Squeeze", "Unpack"})  # text, too

# Values that an op's operand or attribute must not have.
WRONG: list[tuple[str, object, object]] = [
    ("ArgMax", 1, np.int32(9)), ("AvgPool", "ksize", [1, 0, 2, 1]), ("AvgPool", "strides", [1, -1, 2, 1]),
    ("AvgPool", "padding", "SIDEWAYS"), ("BatchMatMulV2", "adj_y", False), ("BiasAdd", 1, np.ones(5, np.float32)),
    ("ConcatV2", 2, np.int32(7)), ("Conv2D", "strides", [1, 0, 0, 1]), ("Conv2D", "padding", "OTHER"),
    ("Conv2D", 1, np.ones((2, 2, 5, 3), np.float32)), ("Conv2D", "strides", [2, 1, 1, 2]), ("Conv2D", "strides", [1]),
    ("Cumsum", 1, np.int32(5)), ("DepthToSpace", "block_size", 3), ("DepthToSpace", "block_size", 0),
    ("DepthwiseConv2dNative", 1, np.ones((2, 2, 5, 1), np.float32)), ("ExpandDims", 1, np.int32(9)),
    ("Fill", 0, np.int32([-2, 2])), ("GatherV2", 1, np.int32([99])), ("GatherV2", 2, np.int32(9)),
    ("LRN", "depth_radius", -3), ("MatMul", 1, np.ones((4, 2), np.float32)), ("MaxPool", "ksize", [1, 9, 9, 1]),
    ("Mean", 1, np.int32([7])), ("OneHot", 1, np.int32(-4)), ("Pack", "axis", 9),
    ("PadV2", 1, np.zeros((2, 2), np.int32)),
    ("PadV2", 1, np.full((4, 2), -9, np.int32)), ("Range", 2, np.int32(0)), ("Reshape", 1, np.int32([5, 5])),
    ("Reshape", 1, np.int32([-1, -1])), ("ReverseV2", 1, np.int32([9])),
    ("ReverseV2", 1, np.int32([1, 1])), ("ScatterNd", 0, np.int32([[9]])), ("Slice", 1, np.int32([0, 9, 0, 0])),
    ("Slice", 2, np.int32([1, 9, 2, 1])), ("SpaceToBatchND", 1, np.int32([3, 3])), ("Split", "num_split", 3),
    ("Split", 0, np.int32(9)), ("SplitV", 1, np.int32([1, 1])), ("Squeeze", "squeeze_dims", [1]),
    ("Squeeze", "squeeze_dims", [9]), ("StridedSlice", 3, np.int32([0])), ("Sum", 1, np.int32([-9])),
    ("Tile", 1, np.int32([1, 2])), ("Tile", 1, np.int32([1, -2, 1, 1])), ("TopKV2", 1, np.int32(9)),
    ("TopKV2", 1, np.int32(-1)), ("Transpose", 1, np.int32([0, 0, 1, 2])), ("Transpose", 1, np.int32([0, 1])),
    ("Unpack", "num", 3),
]  # fmt: skip


def cases() -> Iterator[Case]:
    """All of them."""
    for op in NODES:
        for name, change in _changes(op):
            yield _graph_case(f"{op}: {name}", _graph_of(op), change)
    for index, (op, where, value) in enumerate(WRONG):
        inputs, attrs = NODES[op]
        changed = ([value if at == where else own for at, own in enumerate(inputs)], attrs)
        if isinstance(where, str):
            changed = (inputs, attrs | {where: value})
        yield _graph_case(f"{op}: {where} = {str(value)[:30]!r} #{index}", _graph_of(op, changed), lambda g: None)
    for name, change in _structures():
        yield _graph_case(name, _graph_of("Relu"), change)
    for name, graph in _functions():
        yield _graph_case(name, graph, lambda g: None)
    yield from _files()
    yield from _folders()


def _graph_of(op: str, of: tuple[list[object], dict[str, object]] | None = None) -> GraphDef:
    inputs, attrs = of or NODES[op]
    g = TfBuilder()
    g.input("x", "float32", (1, 4, 4, 2))
    g.input("v", "float32", (4,))
    names = [each if isinstance(each, str) else g.const(np.asarray(each)) for each in inputs]
    g.add(op, *names, name="n", **attrs)
    g.add("Identity", "n", name="y", T=Type("float32"))
    return g.graph


def _graph_case(name: str, graph: GraphDef, change: Change, exits: frozenset[int] = REFUSED) -> Case:
    def write(folder: Path) -> str:
        copy = GraphDef.FromString(graph.SerializeToString())
        change(copy)
        (folder / "m.pb").write_bytes(copy.SerializeToString())
        return "m.pb"

    return Case(f"TensorFlow: {name}", write, exits, options=("--framework", "3"))


def _node(graph: GraphDef, name: str = "n") -> NodeDef:
    return next(node for node in graph.node if node.name == name)


def _changes(op: str) -> Iterator[tuple[str, Change]]:
    attrs = NODES[op][1]
    yield "an input that is nowhere", lambda g: _node(g).input.__setitem__(0, "nowhere")
    yield "output 7 of an input", lambda g: _node(g).input.__setitem__(0, f"{_node(g).input[0]}:7")
    if op not in MOVES:
        yield (
            "an input that is text",
            lambda g: (
                g.node.insert(0, NodeDef(name="text", op="Placeholder", attr={"dtype": attr_value(Type("string"))})),
                _node(g).input.__setitem__(0, "text"),
            ),
        )
    if op not in ("Pack", "AddN", "ConcatV2"):
        yield "an input too few", lambda g: _node(g).input.pop()
        yield "an input too many", lambda g: _node(g).input.append("x")
    for name, value in attrs.items():
        other: object = "text" if not isinstance(value, str) else 1
        yield f"{name} of another kind", lambda g, n=name, v=other: _node(g).attr[n].CopyFrom(attr_value(v))


def _structures() -> Iterator[tuple[str, Change]]:
    yield "a cycle", lambda g: _node(g).input.__setitem__(0, "y")
    yield "a node that reads itself", lambda g: _node(g).input.__setitem__(0, "n")
    yield "two nodes of one name", lambda g: g.node.append(_node(g))
    yield "a node without a name", lambda g: setattr(_node(g), "name", "")
    yield "an op that nobody knows", lambda g: setattr(_node(g), "op", "Relooo")
    yield "an op without a name", lambda g: setattr(_node(g), "op", "")
    yield "an op with control characters", lambda g: setattr(_node(g), "op", "\x1b[31m\n\0")
    yield "no nodes", lambda g: g.ClearField("node")
    yield "an input that is empty text", lambda g: _node(g).input.__setitem__(0, "")
    for text in (":0", "x:", "x:-1", "x:x", "x:0:0", "x:99999999999999999999", "^", "^^x"):
        yield f"the input {text!r}", lambda g, t=text: _node(g).input.__setitem__(0, t)
    for size in (-2, 2**40 + 1, 2**62, -(2**63)):
        yield f"a dim of {size}", lambda g, s=size: setattr(_node(g, "x").attr["shape"].shape.dim[0], "size", s)
    for number in (0, 24, 99):
        yield f"elements of type {number}", lambda g, n=number: setattr(_node(g, "x").attr["dtype"], "type", n)
    yield "a placeholder without a type", lambda g: _node(g, "x").attr.pop("dtype")
    yield (
        "rank 65",
        lambda g: _node(g, "x").attr["shape"].shape.dim.extend([_node(g, "x").attr["shape"].shape.dim[0]] * 61),
    )
    for op in (
        "Merge",
        "Switch",
        "Enter",
        "Exit",
        "NextIteration",
        "LoopCond",
        "While",
        "If",
        "StatefulPartitionedCall",
        "VarHandleOp",
        "RestoreV2",
        "IteratorGetNext",
        "PyFunc",
        "Assert",
        "WriteFile",
    ):
        yield f"a lone {op}", lambda g, o=op: setattr(_node(g), "op", o)


def _functions() -> Iterator[tuple[str, GraphDef]]:
    def calling(*bodies: tuple[str, TfBuilder, str], call: str = "f", inputs: tuple[str, ...] = ("x",)) -> GraphDef:
        g = TfBuilder()
        g.input("x", "float32", (2,))
        for name, body, result in bodies:
            g.function(name, body, {"a": "float32"}, result)
        g.add("PartitionedCall", *inputs, name="y", f=Function(call), Tin=[FLOAT] * len(inputs), Tout=[FLOAT])
        return g.graph

    def body(op: str, *inputs: str, **attrs: object) -> tuple[TfBuilder, str]:
        builder = TfBuilder()
        return builder, builder.add(op, *inputs, **attrs)

    relu = body("Relu", "a", T=FLOAT)
    yield "a function that is nowhere", calling(call="g")
    yield (
        "a function that calls itself",
        calling(("f", *body("PartitionedCall", "a", f=Function("f"), Tin=[FLOAT], Tout=[FLOAT]))),
    )
    yield "a function that reads what it has not", calling(("f", *body("Relu", "b", T=FLOAT)))
    yield "a function called with too much", calling(("f", *relu), inputs=("x", "x"))
    yield "a function called with nothing", calling(("f", *relu), inputs=())
    yield "a function of an op that nobody knows", calling(("f", *body("Relooo", "a", T=FLOAT)))
    builder, _ = body("Relu", "a", T=FLOAT)
    yield "a function that returns what it has not", calling(("f", builder, "nothing"))


def _files() -> Iterator[Case]:
    whole = _graph_of("Conv2D").SerializeToString()

    def of(content: bytes, name: str = "m.pb") -> Callable[[Path], str]:
        def write(folder: Path) -> str:
            (folder / name).write_bytes(content)
            return name

        return write

    options = ("--framework", "3")
    for cut in range(1, len(whole), len(whole) // 10):
        yield Case(f"TensorFlow: the first {cut} of {len(whole)} bytes", of(whole[:cut]), REFUSED, options=options)
    for name, content in {
        "empty": b"", "zeros": bytes(500), "0xff": b"\xff" * 500, "text": b"hello\n" * 50, "html": b"<html></html>",
        "json": b'{"node": []}', "HDF5": b"\x89HDF\r\n\x1a\n" + bytes(99), "TFLite": b"\x1c\0\0\0TFL3" + bytes(99),
        "zip": b"PK\x03\x04" + bytes(99),
    }.items():  # fmt: skip
        yield Case(f"TensorFlow: a file of {name}", of(content), INVALID, options=options)
    for index, content in enumerate((b"node {", b"node { nope: 1 }", b'node { name: "\xff" }', b"node {" * 5000)):
        yield Case(
            f"TensorFlow: text that is wrong #{index}", of(content, "m.pbtxt"), frozenset({2, 4}), options=options
        )


def _folders() -> Iterator[Case]:
    changes: dict[str, Callable[[Path], object]] = {
        "without variables": lambda folder: shutil.rmtree(folder / "variables"),
        "without an index": lambda folder: _variables(folder, "*.index").unlink(),
        "without data": lambda folder: _variables(folder, "*.data*").unlink(),
        "with data cut short": lambda folder: os.truncate(_variables(folder, "*.data*"), 3),
        "with an index cut short": lambda folder: os.truncate(_variables(folder, "*.index"), 30),
        "with an empty index": lambda folder: os.truncate(_variables(folder, "*.index"), 0),
        "with changed data": lambda folder: _flip(_variables(folder, "*.data*")),
        "with a changed index": lambda folder: _flip(_variables(folder, "*.index")),
        "whose data are a FIFO": lambda folder: _replace(_variables(folder, "*.data*"), os.mkfifo),
        "whose index is a FIFO": lambda folder: _replace(_variables(folder, "*.index"), os.mkfifo),
        "whose data are a link": lambda folder: _replace(
            _variables(folder, "*.data*"), lambda p: os.symlink("/dev/zero", p)
        ),
        "whose graph is empty": lambda folder: os.truncate(folder / "saved_model.pb", 0),
        "whose graph is cut short": lambda folder: os.truncate(folder / "saved_model.pb", 200),
        "whose graph is text": lambda folder: (folder / "saved_model.pb").write_text("hello"),
        "whose graph is a FIFO": lambda folder: _replace(folder / "saved_model.pb", os.mkfifo),
        "whose graph is a folder": lambda folder: _replace(folder / "saved_model.pb", os.mkdir),
        "without a graph": lambda folder: (folder / "saved_model.pb").unlink(),
    }
    for name, change in changes.items():
        yield Case(f"TensorFlow: a SavedModel {name}", lambda folder, c=change: _saved(folder, c), INVALID)
    states = ('model_checkpoint_path: "../../etc/passwd"', 'model_checkpoint_path: "none"', "nonsense {", "", "\xff")
    for index, state in enumerate(states):
        yield Case(
            f"TensorFlow: a checkpoint whose state is wrong #{index}",
            lambda folder, s=state: _checkpoint(folder, lambda f: (f / "checkpoint").write_text(s)),
            frozenset({2, 3}),
        )
    for name, remove in {"graph": "*.meta", "index": "*.index", "data": "*.data*"}.items():
        yield Case(
            f"TensorFlow: a checkpoint without {name}",
            lambda folder, r=remove: _checkpoint(folder, lambda f: next(f.glob(r)).unlink()),
            INVALID,
        )


def _variables(folder: Path, pattern: str) -> Path:
    return next((folder / "variables").glob(pattern))


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)


def _replace(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


def _saved(folder: Path, change: Callable[[Path], object]) -> str:
    write_scores(folder / "model")
    change(folder / "model")
    return "model"


def _checkpoint(folder: Path, change: Callable[[Path], object]) -> str:
    write_old(folder / "model", old_graph(), {"net/w": W, "net/b": B})
    change(folder / "model")
    return "model"
