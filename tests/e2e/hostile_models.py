"""Models that mean harm or make no sense, by name, each with the exit codes that are right for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import onnx
from onnx import TensorProto, helper

Content = bytes | onnx.ModelProto
Make = Callable[[], Content]
Case = tuple[Make, frozenset[int]]

INVALID, UNSUPPORTED = frozenset({3}), frozenset({4})
# What is of no sense and no size is refused by its limit, by the standard's rule, or by what we support: the first met.
REFUSED = frozenset({3, 4, 6})
BIG = 2**62
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def text(body: str, *, opset: int = 21) -> Make:
    """A model in ONNX text: `(float[2] x) => (float[2] y) { … }`."""
    source = f'<ir_version: 10, opset_import: ["" : {opset}]>\ng {body}'
    return lambda: onnx.parser.parse_model(source)


def node_model(
    op: str,
    shapes: dict[str, list[int]],
    constants: dict[str, np.ndarray] | None = None,
    *,
    out: int = FLOAT,
    opset: int = 21,
    outputs: int = 1,
    **attrs: object,
) -> onnx.ModelProto:
    """One node over inputs of type float and constants, read in that order; the type of its result is left open."""
    initializers = constants or {}
    names = [f"y{index}" for index in range(outputs)]
    node = helper.make_node(op, [*shapes, *initializers], names, name="n", **attrs)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in shapes.items()],
        [helper.make_tensor_value_info(name, out, None) for name in names],
        [onnx.numpy_helper.from_array(array, name) for name, array in initializers.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def relu_model() -> onnx.ModelProto:
    return onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }'
    )


def changed(change: Callable[[onnx.ModelProto], object]) -> Make:
    """The Relu model after a change."""

    def make() -> onnx.ModelProto:
        model = relu_model()
        change(model)
        return model

    return make


# ---- files that are no models


def _files() -> Iterator[tuple[str, Make]]:
    whole = node_model("Add", {"x": [4]}, {"w": np.arange(4, dtype=np.float32)}).SerializeToString()
    for cut in (1, 2, 3, 5, 9, len(whole) // 2, len(whole) - 1):
        yield f"cut to {cut} bytes", lambda cut=cut: whole[:cut]
    yield "empty", lambda: b""
    yield "zeros", lambda: bytes(4096)
    yield "0xff", lambda: b"\xff" * 4096
    yield "text", lambda: b"hello, world\n" * 40
    yield "html", lambda: b"<!DOCTYPE html><html></html>"
    yield "json", lambda: b'{"nodes": []}'
    yield "zip", lambda: b"PK\x03\x04" + bytes(60)
    yield "elf", lambda: b"\x7fELF" + bytes(60)
    yield "a message of endless length", lambda: b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f"
    yield "a varint without end", lambda: b"\x08" + b"\x80" * 40
    yield "five thousand nested groups", lambda: b"\x3b" * 5000
    yield "five thousand nested messages", lambda: _nested(5000)
    yield "bytes in a row", lambda: bytes(range(256)) * 8


def _nested(depth: int) -> bytes:
    inner = b""
    for _ in range(depth):
        inner = b"\x3a" + _varint(len(inner)) + inner
    return inner


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


# ---- windows: kernels, strides, dilations, pads and groups that make no sense

_WINDOW_ATTRS: dict[str, object] = {
    "strides=0": {"strides": [0, 0]},
    "strides=-1": {"strides": [-1, 1]},
    "strides too few": {"strides": [1]},
    "dilations=0": {"dilations": [0, 0]},
    "dilations=2^62": {"dilations": [BIG, BIG]},
    "kernel=0": {"kernel_shape": [0, 0]},
    "kernel=-1": {"kernel_shape": [-1, 3]},
    "kernel too many": {"kernel_shape": [3, 3, 3]},
    "kernel=2^62": {"kernel_shape": [BIG, BIG]},
    "pads=-9": {"pads": [-9, -9, -9, -9]},
    "pads=2^62": {"pads": [BIG, BIG, BIG, BIG]},
    "pads=2^63-1": {"pads": [2**63 - 1] * 4},
    "pads too few": {"pads": [1]},
    "auto_pad": {"auto_pad": "SIDEWAYS"},
}


def _windows() -> Iterator[tuple[str, Make]]:
    weight = np.ones((4, 4, 3, 3), np.float32)
    for op in ("Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool"):
        has_weights = op.startswith("Conv")
        for name, attrs in _WINDOW_ATTRS.items():
            assert isinstance(attrs, dict)
            kernel = {} if has_weights else {"kernel_shape": [3, 3]}
            initializers = {"w": weight} if has_weights else {}
            yield (
                f"{op} {name}",
                lambda op=op, initializers=initializers, a=kernel | attrs: node_model(
                    op, {"x": [1, 4, 8, 8]}, initializers, **a
                ),
            )
        if has_weights:
            for group in (0, -1, 3, BIG, -(2**63)):
                yield (
                    f"{op} group={group}",
                    lambda op=op, group=group: node_model(op, {"x": [1, 4, 8, 8]}, {"w": weight}, group=group),
                )
    yield "Conv rank 1", lambda: node_model("Conv", {"x": [4]}, {"w": weight})
    yield "Conv channels", lambda: node_model("Conv", {"x": [1, 5, 8, 8]}, {"w": weight})
    yield "Conv kernel above the picture", lambda: node_model("Conv", {"x": [1, 4, 2, 2]}, {"w": weight})
    yield "Conv empty weights", lambda: node_model("Conv", {"x": [1, 4, 8, 8]}, {"w": np.ones((4, 4, 0, 3), "f")})
    yield (
        "Conv bias of another length",
        lambda: node_model("Conv", {"x": [1, 4, 8, 8]}, {"w": weight, "b": np.ones(3, "f")}),
    )


# ---- shapes, axes and indices that do not fit


def _shapes() -> Iterator[tuple[str, Make]]:
    f4 = np.ones(4, np.float32)
    plain: dict[str, Make] = {
        "Add of 3 and 4": lambda: node_model("Add", {"x": [3]}, {"w": f4}),
        "MatMul inner sizes": lambda: node_model("MatMul", {"x": [2, 3]}, {"w": np.ones((4, 5), "f")}),
        "MatMul scalar": lambda: node_model("MatMul", {"x": []}, {"w": f4}),
        "Gemm rank 3": lambda: node_model("Gemm", {"x": [2, 3, 4]}, {"w": np.ones((4, 5), "f")}),
        "Reshape to another count": lambda: node_model("Reshape", {"x": [2, 3]}, {"s": ints(4, 4)}),
        "Reshape two -1": lambda: node_model("Reshape", {"x": [2, 3]}, {"s": ints(-1, -1)}),
        "Reshape -2": lambda: node_model("Reshape", {"x": [2, 3]}, {"s": ints(-2, 3)}),
        "Reshape 0 beyond the rank": lambda: node_model("Reshape", {"x": [2, 3]}, {"s": ints(2, 3, 0)}),
        "Reshape that wraps": lambda: node_model("Reshape", {"x": [4]}, {"s": ints(4194305, 4194305, 211106198978564)}),
        "Reshape -1 beside 0": lambda: node_model("Reshape", {"x": [2, 3]}, {"s": ints(-1, 0, 0, 0)}, allowzero=1),
        "Transpose perm twice": lambda: node_model("Transpose", {"x": [2, 3]}, perm=[0, 0]),
        "Transpose perm short": lambda: node_model("Transpose", {"x": [2, 3]}, perm=[0]),
        "Transpose perm 7": lambda: node_model("Transpose", {"x": [2, 3]}, perm=[0, 7]),
        "Transpose perm -1": lambda: node_model("Transpose", {"x": [2, 3]}, perm=[-1, 0]),
        "Concat axis 9": lambda: node_model("Concat", {"x": [2, 3], "z": [2, 3]}, axis=9),
        "Concat other sizes": lambda: node_model("Concat", {"x": [2, 3], "z": [3, 3]}, axis=1),
        "Concat other ranks": lambda: node_model("Concat", {"x": [2, 3], "z": [3]}, axis=0),
        "Split sums wrong": lambda: node_model("Split", {"x": [6]}, {"s": ints(2, 2)}, outputs=2),
        "Split negative": lambda: node_model("Split", {"x": [6]}, {"s": ints(8, -2)}, outputs=2),
        "Split that wraps": lambda: node_model("Split", {"x": [6]}, {"s": ints(2**63 - 1, -(2**63) + 7)}, outputs=2),
        "Split uneven": lambda: node_model("Split", {"x": [7]}, {"s": ints(2, 2, 3)}, outputs=2),
        "Softmax axis": lambda: node_model("Softmax", {"x": [2, 3]}, axis=5),
        "Softmax axis of a scalar": lambda: node_model("Softmax", {"x": []}, axis=3),
        "ReduceSum axis": lambda: node_model("ReduceSum", {"x": [2, 3]}, {"a": ints(4)}),
        "ReduceMax axis -2^63": lambda: node_model("ReduceMax", {"x": [2, 3]}, {"a": ints(-(2**63))}),
        "ArgMax axis": lambda: node_model("ArgMax", {"x": [2, 3]}, out=INT64, axis=2),
        "Squeeze of 3": lambda: node_model("Squeeze", {"x": [2, 3]}, {"a": ints(1)}),
        "Squeeze axis 9": lambda: node_model("Squeeze", {"x": [1, 3]}, {"a": ints(9)}),
        "Unsqueeze twice": lambda: node_model("Unsqueeze", {"x": [2]}, {"a": ints(0, 0)}),
        "Unsqueeze axis 9": lambda: node_model("Unsqueeze", {"x": [2]}, {"a": ints(9)}),
        "Slice step 0": lambda: node_model(
            "Slice", {"x": [4]}, {"s": ints(0), "e": ints(4), "a": ints(0), "t": ints(0)}
        ),
        "Slice axis 4": lambda: node_model("Slice", {"x": [4]}, {"s": ints(0), "e": ints(4), "a": ints(4)}),
        "Slice axis twice": lambda: node_model(
            "Slice", {"x": [4]}, {"s": ints(0, 1), "e": ints(4, 4), "a": ints(0, 0)}
        ),
        "Slice other counts": lambda: node_model("Slice", {"x": [4]}, {"s": ints(0, 1), "e": ints(4)}),
        "Gather constant index": lambda: node_model("Gather", {"x": [4]}, {"i": ints(9)}),
        "Gather axis": lambda: node_model("Gather", {"x": [4]}, {"i": ints(0)}, axis=3),
        "Pad short": lambda: node_model("Pad", {"x": [2, 3]}, {"p": ints(1, 1)}),
        "Pad below nothing": lambda: node_model("Pad", {"x": [2, 3]}, {"p": ints(-9, 0, 0, 0)}),
        "Pad mode": lambda: node_model("Pad", {"x": [2, 3]}, {"p": ints(0, 0, 1, 1)}, mode="mirror"),
        "Expand down": lambda: node_model("Expand", {"x": [3]}, {"s": ints(2)}),
        "Expand negative": lambda: node_model("Expand", {"x": [1]}, {"s": ints(-5)}),
        "Tile negative": lambda: node_model("Tile", {"x": [3]}, {"s": ints(-1)}),
        "Tile short": lambda: node_model("Tile", {"x": [3, 2]}, {"s": ints(2)}),
        "Flatten axis": lambda: node_model("Flatten", {"x": [3, 2]}, axis=5),
        "DepthToSpace 0": lambda: node_model("DepthToSpace", {"x": [1, 4, 2, 2]}, blocksize=0),
        "DepthToSpace 3": lambda: node_model("DepthToSpace", {"x": [1, 4, 2, 2]}, blocksize=3),
        "SpaceToDepth 0": lambda: node_model("SpaceToDepth", {"x": [1, 4, 2, 2]}, blocksize=0),
        "BatchNormalization channels": lambda: node_model(
            "BatchNormalization", {"x": [1, 4, 2, 2]}, {n: np.ones(3, "f") for n in "smvu"}
        ),
        "GroupNormalization 0": lambda: node_model(
            "GroupNormalization", {"x": [1, 4, 2]}, {"s": f4, "b": f4}, num_groups=0
        ),
        "Resize scale 0": lambda: node_model(
            "Resize", {"x": [1, 1, 2, 2]}, {"r": np.ones(0, "f"), "s": np.array([1, 1, 0, 0], "f")}
        ),
        "Resize scale -1": lambda: node_model(
            "Resize", {"x": [1, 1, 2, 2]}, {"r": np.ones(0, "f"), "s": np.array([1, 1, -1, 1], "f")}
        ),
        "Resize scale nan": lambda: node_model(
            "Resize", {"x": [1, 1, 2, 2]}, {"r": np.ones(0, "f"), "s": np.array([1, 1, np.nan, 1], "f")}
        ),
        "Resize scale inf": lambda: node_model(
            "Resize", {"x": [1, 1, 2, 2]}, {"r": np.ones(0, "f"), "s": np.array([1, 1, np.inf, 1], "f")}
        ),
        "Cast to nothing": lambda: node_model("Cast", {"x": [2]}, to=0),
        "Cast to 77": lambda: node_model("Cast", {"x": [2]}, to=77),
        "OneHot negative depth": lambda: node_model(
            "OneHot", {}, {"i": ints(1), "d": ints(-4), "v": np.array([0, 1], "f")}
        ),
        "Einsum nonsense": lambda: node_model("Einsum", {"x": [2, 3]}, equation="i->->jj"),
        "Einsum empty": lambda: node_model("Einsum", {"x": [2, 3]}, equation=""),
        "TopK k": lambda: node_model("TopK", {"x": [4]}, {"k": ints(9)}, outputs=2),
        "Where of 2 and 3": text("(float[2] x, float[3] z) => (float[N] y) { c = Cast<to=9>(x) y = Where(c, x, z) }"),
        "Div by a zero of integers": text(
            "(int64[2] x) => (int64[2] y) { a = Constant<value_ints=[6,7]>() b = Constant<value_ints=[1,0]>() "
            "c = Div(a, b) y = Add(x, c) }"
        ),
        "Mod by a zero of integers": text(
            "(int64[2] x) => (int64[2] y) { a = Constant<value_ints=[6,7]>() b = Constant<value_ints=[1,0]>() "
            "c = Mod(a, b) y = Add(x, c) }"
        ),
        "Range by 0": lambda: node_model(
            "Range", {}, {"a": np.array(0), "b": np.array(5), "c": np.array(0)}, out=INT64
        ),
        "types of Add differ": text("(float[2] x, int64[2] z) => (float[2] y) { y = Add(x, z) }"),
        "Relu of text": text("(string[2] x) => (string[2] y) { y = Relu(x) }"),
    }
    yield from plain.items()


# ---- structure


def _structure() -> Iterator[tuple[str, Make]]:
    def attr_of(name: str, **values: object) -> Make:
        return changed(lambda m: m.graph.node[0].attribute.append(helper.make_attribute(name, **values)))

    def tensor(**fields: object) -> Make:
        def change(model: onnx.ModelProto) -> None:
            proto = model.graph.initializer.add(name="w")
            for key, value in fields.items():
                getattr(proto, key).extend(value) if isinstance(value, list) else setattr(proto, key, value)
            model.graph.node[0].op_type = "Add"
            model.graph.node[0].input.append("w")

        return changed(change)

    plain: dict[str, Make] = {
        "no graph": lambda: onnx.ModelProto(ir_version=10),
        "no ir_version": changed(lambda m: m.ClearField("ir_version")),
        "no outputs": changed(lambda m: m.graph.ClearField("output")),
        "output of nothing": changed(lambda m: setattr(m.graph.output[0], "name", "ghost")),
        "input of nothing": changed(lambda m: m.graph.node[0].input.append("ghost")),
        "reads itself": changed(lambda m: m.graph.node[0].input.__setitem__(0, "y")),
        "cycle of two": text("(float[2] x) => (float[2] y) { y = Add(x, z) z = Relu(y) }"),
        "cycle of three": text("(float[2] x) => (float[2] y) { a = Add(x, c) b = Relu(a) c = Relu(b) y = Relu(b) }"),
        "two makers of one value": text("(float[2] x) => (float[2] y) { y = Relu(x) y = Abs(x) }"),
        "a node makes the input": changed(lambda m: m.graph.node[0].output.__setitem__(0, "x")),
        "input twice": changed(lambda m: m.graph.input.append(m.graph.input[0])),
        "too many inputs": changed(lambda m: m.graph.node[0].input.extend(["x"] * 9)),
        "too many outputs": changed(lambda m: m.graph.node[0].output.extend(["q", "r"])),
        "no inputs of a node": changed(lambda m: m.graph.node[0].ClearField("input")),
        "required input left out": text("(float[2] x) => (float[2] y) { y = Add(, x) }"),
        "attribute that is none of the op's": attr_of("alpha", value=1.0),
        "attribute twice": changed(
            lambda m: (
                setattr(m.graph.node[0], "op_type", "Elu"),
                m.graph.node[0].attribute.extend([helper.make_attribute("alpha", 1.0)] * 2),
            )
        ),
        "attribute of another type": changed(
            lambda m: (
                setattr(m.graph.node[0], "op_type", "Elu"),
                m.graph.node[0].attribute.append(helper.make_attribute("alpha", "one")),
            )
        ),
        "attribute of type 99": changed(
            lambda m: (
                setattr(m.graph.node[0], "op_type", "Elu"),
                m.graph.node[0].attribute.add(name="alpha").MergeFromString(b"\xa0\x01\x63"),
            )
        ),
        "attribute refers to none": changed(
            lambda m: (
                setattr(m.graph.node[0], "op_type", "Elu"),
                m.graph.node[0].attribute.add(name="alpha", ref_attr_name="beta", type=1),
            )
        ),
        "input without type": changed(lambda m: m.graph.input[0].ClearField("type")),
        "input of type 99": changed(lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 99)),
        "dim of 2^63-1": changed(
            lambda m: setattr(m.graph.input[0].type.tensor_type.shape.dim[0], "dim_value", 2**63 - 1)
        ),
        "dims that wrap": changed(
            lambda m: [
                m.graph.input[0].type.tensor_type.shape.dim.add(dim_value=d)
                for d in (4194305, 4194305, 211106198978564)
            ]
        ),
        "rank 65": changed(lambda m: [m.graph.input[0].type.tensor_type.shape.dim.add(dim_value=1) for _ in range(63)]),
        "opset twice": changed(lambda m: m.opset_import.append(helper.make_opsetid("", 17))),
        "function that calls itself": _function_cycle,
        "weights too short": tensor(data_type=1, dims=[2, 3], raw_data=b"\0" * 23),
        "weights too long": tensor(data_type=1, dims=[2, 3], raw_data=b"\0" * 28),
        "weights of float_data too short": tensor(data_type=1, dims=[2, 3], float_data=[1.0]),
        "weights of type 0": tensor(data_type=0, dims=[2, 3], raw_data=b"\0" * 24),
        "weights of type 99": tensor(data_type=99, dims=[2, 3], raw_data=b"\0" * 24),
        "weights of a negative dim": tensor(data_type=1, dims=[-2, -3], raw_data=b"\0" * 24),
        "weights whose size wraps": tensor(data_type=1, dims=[4194305, 4194305, 211106198978564], raw_data=b"\0" * 16),
        "weights of 2^62": tensor(data_type=1, dims=[BIG, 4], raw_data=b""),
        "weights kept outside, absolute": tensor(data_type=1, dims=[2, 3], data_location=1),
        "strings that are not text": tensor(data_type=8, dims=[1], string_data=[b"\xff\xfe"], raw_data=b"xx"),
        "initializer twice": changed(
            lambda m: m.graph.initializer.extend([helper.make_tensor("w", 1, [1], [1.0])] * 2)
        ),
        "name that is not text": _not_text,
        "If without branches": changed(lambda m: setattr(m.graph.node[0], "op_type", "If")),
        "Loop without a body": changed(lambda m: setattr(m.graph.node[0], "op_type", "Loop")),
        "Constant without value": changed(
            lambda m: (setattr(m.graph.node[0], "op_type", "Constant"), m.graph.node[0].ClearField("input"))
        ),
    }
    yield from plain.items()


def _function_cycle() -> onnx.ModelProto:
    model = relu_model()
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    for name, other in (("f", "g"), ("g", "f")):
        body = [helper.make_node(other, ["a"], ["b"], domain="own")]
        model.functions.append(helper.make_function("own", name, ["a"], ["b"], body, opsets))
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.graph.node[0].domain, model.graph.node[0].op_type = "own", "f"
    return model


def _not_text() -> bytes:
    return relu_model().SerializeToString().replace(b"Relu", b"R\xff\xfeu")


# ---- what nobody implements


def _unsupported() -> Iterator[tuple[str, Make]]:
    yield "unknown op", changed(lambda m: setattr(m.graph.node[0], "op_type", "Relooo"))
    yield "empty op type", changed(lambda m: setattr(m.graph.node[0], "op_type", ""))
    yield "op of a million letters", changed(lambda m: setattr(m.graph.node[0], "op_type", "R" * 1_000_000))
    yield "op with control characters", changed(lambda m: setattr(m.graph.node[0], "op_type", "\x1b[31m\r\n\0"))
    yield "op like a path", changed(lambda m: setattr(m.graph.node[0], "op_type", "../../../etc/passwd"))
    yield "op like a format", changed(lambda m: setattr(m.graph.node[0], "op_type", "%s%n{0}{x!r}"))
    yield "op of com.microsoft", changed(lambda m: setattr(m.graph.node[0], "domain", "com.microsoft"))
    yield "domain of a module", changed(lambda m: setattr(m.graph.node[0], "domain", "os"))
    yield "no opset at all", changed(lambda m: m.ClearField("opset_import"))
    yield "opset 0", changed(lambda m: setattr(m.opset_import[0], "version", 0))
    yield "opset -1", changed(lambda m: setattr(m.opset_import[0], "version", -1))
    yield "opset 99", changed(lambda m: setattr(m.opset_import[0], "version", 99))
    yield "opset 2^62", changed(lambda m: setattr(m.opset_import[0], "version", BIG))
    yield "ir_version 99", changed(lambda m: setattr(m, "ir_version", 99))
    yield (
        "op newer than its opset",
        changed(lambda m: (setattr(m.opset_import[0], "version", 9), setattr(m.graph.node[0], "op_type", "Mish"))),
    )


# ---- small models of enormous work


def _large() -> Iterator[tuple[str, Make]]:
    huge: dict[str, Make] = {
        "Expand to 10^12": lambda: node_model("Expand", {"x": [1]}, {"s": ints(10**6, 10**6)}),
        "Expand to 2^120": lambda: node_model("Expand", {"x": [1]}, {"s": ints(2**40, 2**40, 2**40)}),
        "Tile by 10^12": lambda: node_model("Tile", {"x": [1]}, {"s": ints(10**12)}),
        "Tile by 2^62": lambda: node_model("Tile", {"x": [4]}, {"s": ints(BIG)}),
        "Pad by 10^12": lambda: node_model("Pad", {"x": [1]}, {"p": ints(10**12, 10**12)}),
        "Pad by 2^63-1": lambda: node_model("Pad", {"x": [1]}, {"p": ints(2**63 - 1, 2**63 - 1)}),
        "Resize by 10^6": lambda: node_model(
            "Resize", {"x": [1, 1, 2, 2]}, {"r": np.ones(0, "f"), "s": np.array([1, 1, 1e6, 1e6], "f")}
        ),
        "Resize to 2^62": lambda: node_model(
            "Resize", {"x": [1, 1, 2, 2]}, {"r": np.ones(0, "f"), "e": np.ones(0, "f"), "s": ints(1, 1, BIG, BIG)}
        ),
        "Resize by 1e30": lambda: node_model(
            "Resize", {"x": [1, 1, 2, 2]}, {"r": np.ones(0, "f"), "s": np.array([1, 1, 1e30, 1], "f")}
        ),
        "constant Expand to 10^12": text(
            "(float[1] x) => (float[N,M] y) { s = Constant<value_ints=[1000000,1000000]>() "
            "o = Constant<value_floats=[1.0]>() e = Expand(o, s) y = Add(x, e) }"
        ),
        "ConstantOfShape 10^12": text(
            "(float[1] x) => (float[N,M] y) { s = Constant<value_ints=[1000000,1000000]>() "
            "e = ConstantOfShape(s) y = Add(x, e) }"
        ),
        "ConstantOfShape 2^62": text(
            "(float[1] x) => (float[N] y) { s = Constant<value_ints=[4611686018427387904]>() "
            "e = ConstantOfShape(s) y = Add(x, e) }"
        ),
        "Range of 10^12": text(
            "(int64[1] x) => (int64[N] y) { a = Constant<value_int=0>() b = Constant<value_int=1000000000000>() "
            "c = Constant<value_int=1>() r = Range(a, b, c) y = Add(x, r) }"
        ),
        "Range of 2^63": text(
            "(int64[1] x) => (int64[N] y) { a = Constant<value_int=-9223372036854775808>() "
            "b = Constant<value_int=9223372036854775807>() c = Constant<value_int=1>() "
            "r = Range(a, b, c) y = Add(x, r) }"
        ),
        "Outer product of 10^6": lambda: node_model("MatMul", {"x": [10**7, 1], "z": [1, 10**7]}),
        "input of 2^40": text("(float[1099511627776] x) => (float[1099511627776] y) { y = Relu(x) }"),
        "OneHot of 10^12": text(
            "(int64[9] x) => (float[N,M] y) { d = Constant<value_ints=[1000000000000]>() "
            "v = Constant<value_floats=[0.0, 1.0]>() y = OneHot(x, d, v) }"
        ),
        "EyeLike of 10^12": lambda: node_model("EyeLike", {"x": [10**6, 10**6]}),
        "ten levels of ten calls": _calls_that_multiply,
    }
    yield from huge.items()


def _calls_that_multiply() -> onnx.ModelProto:
    model = relu_model()
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    for level in range(10):
        names = [f"v{index}" for index in range(11)]
        op, domain = ("Relu", "") if level == 0 else (f"f{level - 1}", "own")
        body = [helper.make_node(op, [a], [b], domain=domain) for a, b in pairwise(names)]
        model.functions.append(helper.make_function("own", f"f{level}", ["v0"], ["v10"], body, opsets))
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.graph.node[0].domain, model.graph.node[0].op_type = "own", "f9"
    return model


CASES: dict[str, Case] = {
    f"{group}: {name}": (make, exits)
    for group, cases, exits in (
        ("file", _files(), INVALID),
        ("window", _windows(), REFUSED),
        ("shape", _shapes(), frozenset({3, 4})),
        ("structure", _structure(), INVALID),
        ("unsupported", _unsupported(), UNSUPPORTED),
        ("large", _large(), REFUSED),
    )
    for name, make in cases
}


def to_bytes(content: Content) -> bytes:
    """What the file holds."""
    return content if isinstance(content, bytes) else content.SerializeToString()
