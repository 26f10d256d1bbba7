"""ONNX models whose structure, types, constants, functions, files or sizes are wrong, beside those of `tests/e2e`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import SparseTensorProto, TensorProto, TypeProto, helper, numpy_helper

from tests.e2e import hostile_models
from tests.gate.cases import INVALID, Case, Content, onnx_case

HEAD = '<ir_version: 10, opset_import: ["" : 21]> g '
Change = Callable[[onnx.ModelProto], object]


def text(body: str, head: str = HEAD) -> Callable[[], onnx.ModelProto]:
    return lambda: onnx.parser.parse_model(head + body)


def two_nodes() -> onnx.ModelProto:
    return onnx.parser.parse_model(
        HEAD + "(float[2,3] x, float[2,3] z) => (float[2,3] y) { a = Add(x, z) y = Relu(a) }"
    )


def after(change: Change, make: Callable[[], onnx.ModelProto] = two_nodes) -> Callable[[], onnx.ModelProto]:
    """A model after a change."""

    def changed() -> onnx.ModelProto:
        model = make()
        change(model)
        return model

    return changed


def cases() -> Iterator[Case]:
    """All of them."""
    for name, (make, exits) in hostile_models.CASES.items():
        yield onnx_case(name, make, exits)
    yield from own_cases()


def own_cases() -> Iterator[Case]:
    """Those of this module."""
    groups: tuple[tuple[str, Iterator[tuple[str, Callable[[], Content]]], frozenset[int]], ...] = (
        ("graph", _graphs(), INVALID),
        ("type", _types(), INVALID),
        ("constant", _constants(), INVALID),
        ("attribute", _attributes(), INVALID),
        ("sparse", _sparse(), INVALID),
        ("function", _functions(), INVALID),
        ("control flow", _control_flow(), INVALID),
        ("version", _versions(), frozenset({3, 4})),
        ("limit", _limits(), frozenset({3, 6})),
        ("bytes", _bytes(), INVALID),
    )
    for group, named, exits in groups:
        for name, make in named:
            yield onnx_case(f"{group}: {name}", make, exits)
    yield from _outside()


def _graphs() -> Iterator[tuple[str, Callable[[], Content]]]:
    def node(m: onnx.ModelProto, index: int = 0) -> onnx.NodeProto:
        return m.graph.node[index]

    yield "a cycle through both inputs", text("(float[2] x) => (float[2] y) { y = Add(b, c) b = Relu(y) c = Abs(y) }")
    yield (
        "a cycle beside the way to the output",
        text("(float[2] x) => (float[2] y) { y = Relu(x) a = Neg(b) b = Neg(a) }"),
    )
    yield "a value made twice, once unread", text("(float[2] x) => (float[2] y) { y = Relu(x) a = Relu(x) a = Neg(x) }")
    yield "a value made twice by one node", text("(float[4] x) => (float[2] y) { y, y = Split<num_outputs = 2>(x) }")
    yield (
        "a node that makes an initializer",
        after(lambda m: m.graph.initializer.append(numpy_helper.from_array(np.ones((2, 3), np.float32), "a"))),
    )
    yield "two inputs of one name", after(lambda m: setattr(m.graph.input[1], "name", "x"))
    yield "an output that nothing makes", after(lambda m: setattr(m.graph.output[0], "name", "none"))
    yield "an output without a name", after(lambda m: setattr(m.graph.output[0], "name", ""))
    yield "an input without a name", after(lambda m: setattr(m.graph.input[0], "name", ""))
    yield "no nodes and a free output", after(lambda m: m.graph.ClearField("node"))
    yield "an empty graph", lambda: onnx.ModelProto(ir_version=10, graph=onnx.GraphProto(name="g"))
    yield "a node without outputs", after(lambda m: node(m).ClearField("output"))
    yield "a node whose outputs have no names", after(lambda m: node(m, 1).output.__setitem__(0, ""))
    yield "a node that reads what comes later and itself", after(lambda m: node(m).input.__setitem__(0, "a"))
    yield "an input from another graph", after(lambda m: node(m).input.__setitem__(0, "other/x"))
    yield "a name with a NUL and one without", after(lambda m: node(m).input.__setitem__(0, "x\0"))
    for index in (0, 1):
        yield f"operand {index} left out", after(lambda m, i=index: node(m).input.__setitem__(i, ""))
    for results in (["v", ""], ["", "i"]):
        yield f"a TopK of the results {results}", after(lambda m, r=results: _give_topk(m, r))
    yield (
        "a training graph alone",
        lambda: onnx.ModelProto(ir_version=10, training_info=[onnx.TrainingInfoProto(algorithm=two_nodes().graph)]),
    )


def _give_topk(model: onnx.ModelProto, results: list[str]) -> None:
    model.graph.node[0].CopyFrom(helper.make_node("TopK", ["x", "k"], results))
    model.graph.node[1].input[0] = next(filter(None, results))
    model.graph.initializer.append(numpy_helper.from_array(np.array([2]), "k"))


def _types() -> Iterator[tuple[str, Callable[[], Content]]]:
    def kind(m: onnx.ModelProto) -> TypeProto:
        return m.graph.input[0].type

    for number in (0, 29, 77, -1, 2**31 - 1):
        yield f"elements of type {number}", after(lambda m, n=number: setattr(kind(m).tensor_type, "elem_type", n))
    yield "no type", after(lambda m: m.graph.input[0].ClearField("type"))
    yield "an empty type", after(lambda m: kind(m).Clear())
    yield "a type of a denotation alone", after(lambda m: (kind(m).Clear(), setattr(kind(m), "denotation", "IMAGE")))
    for number in (2**41, 2**62, 2**63 - 1):
        yield f"a dim of {number}", after(lambda m, n=number: setattr(kind(m).tensor_type.shape.dim[0], "dim_value", n))
    yield "rank 65", after(lambda m: kind(m).tensor_type.shape.dim.extend([kind(m).tensor_type.shape.dim[0]] * 63))
    yield (
        "rank 100000",
        after(lambda m: kind(m).tensor_type.shape.dim.extend([kind(m).tensor_type.shape.dim[0]] * 10**5)),
    )
    for declared in ("int64", "double", "bool", "string", "float16", "uint8"):
        number = TensorProto.DataType.Value(declared.upper())
        yield (
            f"an output declared as {declared}",
            after(lambda m, n=number: setattr(m.graph.output[0].type.tensor_type, "elem_type", n)),
        )
        yield (
            f"a value declared as {declared}",
            after(lambda m, n=number: m.graph.value_info.append(helper.make_tensor_value_info("a", n, [2, 3]))),
        )
        yield (
            f"an input declared as {declared}",
            after(lambda m, n=number: setattr(kind(m).tensor_type, "elem_type", n)),
        )
    yield (
        "an output declared as a sequence",
        after(lambda m: m.graph.output[0].type.CopyFrom(helper.make_sequence_type_proto(m.graph.output[0].type))),
    )
    yield (
        "an input that is a sequence",
        after(lambda m: kind(m).CopyFrom(helper.make_sequence_type_proto(m.graph.input[1].type))),
    )
    yield "operands that do not broadcast", after(lambda m: setattr(kind(m).tensor_type.shape.dim[1], "dim_value", 5))


def _constants() -> Iterator[tuple[str, Callable[[], Content]]]:
    def constant(**fields: object) -> Callable[[], onnx.ModelProto]:
        def change(m: onnx.ModelProto) -> None:
            tensor = m.graph.initializer.add(name="w", data_type=1, dims=[2, 3])
            for name, value in fields.items():
                if isinstance(value, list):
                    del getattr(tensor, name)[:]
                    getattr(tensor, name).extend(value)
                else:
                    setattr(tensor, name, value)
            m.graph.node[0].input[1] = "w"

        return after(change)

    full, raw = [0.5] * 6, b"\0" * 24
    yield "nothing in it", constant()
    yield "one element too few", constant(float_data=full[1:])
    yield "one element too many", constant(float_data=[*full, 1.0])
    for size in (0, 1, 23, 25, 48):
        yield f"{size} raw bytes of 24", constant(raw_data=b"\0" * size)
    for other, value in (
        ("int32_data", [1]), ("int64_data", [1]), ("double_data", [1.0]), ("uint64_data", [1]), ("string_data", [b"a"]),
        ("float_data", full),
    ):  # fmt: skip
        yield f"raw_data and {other}", constant(raw_data=raw, **{other: value})
        if other != "float_data":
            yield f"float_data and {other}", constant(float_data=full, **{other: value})
            yield f"{other} alone", constant(**{other: value * 6})
    for number in (0, 29, 99, -1):
        yield f"elements of type {number}", constant(raw_data=raw, data_type=number)
    for dims in ([-2, 3], [2, -3], [-2, -3], [2**33, 2**33], [2**62], [4194305, 4194305, 211106198978564], [1] * 65):
        yield f"dims {dims if len(dims) < 9 else 'of rank 65'}", constant(raw_data=raw, dims=dims)
    yield "strings as raw data", constant(raw_data=raw, data_type=8)
    yield "int4 too short", constant(raw_data=b"\0" * 2, data_type=22)
    yield "int4 too long", constant(raw_data=b"\0" * 6, data_type=22)
    yield "a segment", after(lambda m: m.graph.initializer[0].segment.SetInParent(), constant(raw_data=raw))
    yield "of another shape than it is read with", constant(raw_data=raw[:20], dims=[5])
    yield "of another type than it is read with", constant(raw_data=b"\0" * 48, data_type=7)
    yield "two of one name", after(lambda m: m.graph.initializer.append(m.graph.initializer[0]), constant(raw_data=raw))
    yield (
        "one sparse and one dense of one name",
        after(
            lambda m: m.graph.sparse_initializer.append(_sparse_tensor([1.0], [0], [6], name="w")),
            constant(raw_data=raw),
        ),
    )
    yield (
        "an input whose default has another type",
        after(lambda m: m.graph.input.append(helper.make_tensor_value_info("w", 7, [2, 3])), constant(raw_data=raw)),
    )
    yield (
        "an input whose default has another shape",
        after(lambda m: m.graph.input.append(helper.make_tensor_value_info("w", 1, [3, 3])), constant(raw_data=raw)),
    )


def _attributes() -> Iterator[tuple[str, Callable[[], Content]]]:
    elu = text("(float[2] x) => (float[2] y) { y = Elu<alpha = 1.0>(x) }")

    def attr(m: onnx.ModelProto) -> onnx.AttributeProto:
        return m.graph.node[0].attribute[0]

    for number in (0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14):
        yield f"of type {number}", after(lambda m, n=number: setattr(attr(m), "type", n), elu)
    yield "with two values", after(lambda m: setattr(attr(m), "i", 3), elu)
    yield "with a value and a reference", after(lambda m: setattr(attr(m), "ref_attr_name", "beta"), elu)
    yield (
        "with a reference outside of a function",
        after(lambda m: (attr(m).ClearField("f"), setattr(attr(m), "ref_attr_name", "beta")), elu),
    )
    yield "without a name", after(lambda m: setattr(attr(m), "name", ""), elu)
    yield "of another case", after(lambda m: setattr(attr(m), "name", "Alpha"), elu)
    yield "given twice", after(lambda m: m.graph.node[0].attribute.append(attr(m)), elu)
    yield (
        "a tensor that is too short",
        text("(float[2] x) => (float[2] y) { c = Constant<value = float[2] {1.0}>() y = Add(x, c) }"),
    )
    constant = text("(float[1] x) => (float[1] y) { c = Constant<value_int = 1, value_float = 1.0>() y = Add(x, c) }")
    yield "two values of a Constant", constant
    yield "no value of a Constant", after(lambda m: m.graph.node[0].ClearField("attribute"), constant)
    for body in (
        "y = Cast(x)", "y = Cast<to = 0>(x)", "y = Cast<to = 99>(x)", "y = Concat(x, x)", "y = Gemm<transA = 2>(x, x)",
        'y = MaxPool<auto_pad = "SAME">(x)', "y = ReduceMax<keepdims = 2>(x)", "y = Reshape<allowzero = 9>(x, s)",
        "y = LayerNormalization<stash_type = 99>(x, x)", "y = Einsum(x)", "y, z = TopK<largest = 3>(x, s)",
        "y = RandomNormal(x)", "y = Transpose<perm = [0, 0]>(x)", "y = OneHot(x)", "y = LSTM(x)",
        "y = Pad<mode = 3>(x, s)",
    ):  # fmt: skip
        yield body, text(f"(float[2,2] x, int64[1] s) => (float[a,b] y) {{ {body} }}")


def _sparse_tensor(
    values: list[float], indices: list[int], dims: list[int], name: str = "w", rank: int = 1
) -> SparseTensorProto:
    shape = [len(indices) // rank] if rank == 1 else [len(indices) // rank, rank]
    return SparseTensorProto(
        values=helper.make_tensor(name, 1, [len(values)], values),
        indices=helper.make_tensor("", 7, shape, indices),
        dims=dims,
    )


def _sparse() -> Iterator[tuple[str, Callable[[], Content]]]:
    wrong: dict[str, SparseTensorProto] = {
        "an index outside": _sparse_tensor([1.0], [6], [6]),
        "an index below 0": _sparse_tensor([1.0], [-1], [6]),
        "an index of 2^62": _sparse_tensor([1.0], [2**62], [6]),
        "indices in disorder": _sparse_tensor([1.0, 2.0], [3, 1], [6]),
        "an index twice": _sparse_tensor([1.0, 2.0], [3, 3], [6]),
        "fewer indices than values": _sparse_tensor([1.0, 2.0], [3], [6]),
        "more indices than values": _sparse_tensor([1.0], [3, 4], [6]),
        "coordinates outside": _sparse_tensor([1.0], [0, 9], [2, 3], rank=2),
        "coordinates of another rank": _sparse_tensor([1.0], [0, 1, 1], [2, 3], rank=3),
        "a negative dim": _sparse_tensor([1.0], [0], [-6]),
    }
    for name, sparse in wrong.items():
        yield (
            name,
            after(
                lambda m, s=sparse: (m.graph.sparse_initializer.append(s), m.graph.node[0].input.__setitem__(1, "w"))
            ),
        )
        yield (
            f"{name}, in an attribute",
            after(lambda m, s=sparse: m.graph.node.insert(0, helper.make_node("Constant", [], ["c"], sparse_value=s))),
        )
    values = SparseTensorProto(values=helper.make_tensor("w", 1, [2, 1], [1.0, 2.0]), dims=[6])
    yield (
        "values that are no list",
        after(lambda m: (m.graph.sparse_initializer.append(values), m.graph.node[0].input.__setitem__(1, "w"))),
    )
    floats = _sparse_tensor([1.0], [0], [6])
    floats.indices.CopyFrom(helper.make_tensor("", 1, [1], [0.0]))
    yield (
        "indices of floats",
        after(lambda m: (m.graph.sparse_initializer.append(floats), m.graph.node[0].input.__setitem__(1, "w"))),
    )


OWN = '<ir_version: 10, opset_import: ["" : 21, "own" : 1]> g '


def _functions() -> Iterator[tuple[str, Callable[[], Content]]]:
    call = "(float[2] x) => (float[2] y) { y = own.f(x) }"
    head = '<domain: "own", opset_import: ["" : 21, "own" : 1]> '
    bodies = {
        "that calls itself": "f (a) => (b) { b = own.f(a) }",
        "that reads what it has not": "f (a) => (b) { b = Add(a, c) }",
        "that does not make its output": "f (a) => (b) { c = Relu(a) }",
        "with a cycle": "f (a) => (b) { b = Add(a, c) c = Relu(b) }",
        "that makes a value twice": "f (a) => (b) { b = Relu(a) b = Neg(a) }",
        "with an attribute that its op lacks": "f (a) => (b) { b = Relu<alpha = 1.0>(a) }",
        "with a wrong number of operands": "f (a) => (b) { b = Add(a) }",
        "whose types do not fit": "f (a) => (b) { c = Cast<to = 7>(a) b = Add(a, c) }",
        "that makes its input": "f (a) => (b) { a = Relu(b) b = Relu(a) }",
    }
    for name, body in bodies.items():
        yield name, text(f"{call} {head} {body}", OWN)
    good = f"{head} f (a) => (b) {{ b = Relu(a) }}"
    yield "called with too many operands", text(f"(float[2] x) => (float[2] y) {{ y = own.f(x, x) }} {good}", OWN)
    yield "called for too many results", text(f"(float[2] x) => (float[2] y) {{ y, z = own.f(x) }} {good}", OWN)
    cycle = f"{head} f (a) => (b) {{ b = own.h(a) }} {head} h (a) => (b) {{ b = own.f(a) }}"
    yield "that calls another that calls it", text(f"{call} {cycle}", OWN)


def _control_flow() -> Iterator[tuple[str, Callable[[], Content]]]:
    from tests.ops.core.test_bodies import WRONG

    for name, (body, _) in WRONG.items():
        yield name, text(body.removeprefix("g "))
    branch = "e () => (float[2] b) { b = Neg(x) }"
    for name, then in {
        "a branch that reads what is nowhere": "t () => (float[2] a) { a = Relu(nowhere) }",
        "a branch with a cycle": "t () => (float[2] a) { a = Add(x, c) c = Relu(a) }",
        "a branch with an unread cycle": "t () => (float[2] a) { a = Relu(x) b = Neg(c) c = Neg(b) }",
        "a branch that makes a value twice": "t () => (float[2] a) { a = Relu(x) a = Neg(x) }",
        "a branch that makes a value of the graph around": "t () => (float[2] x) { x = Relu(x) }",
        "a branch that misses an attribute": "t () => (float[2] a) { a = Cast(x) }",
        "a branch whose types do not fit": "t () => (float[2] a) { i = Cast<to = 7>(x) a = Add(x, i) }",
        "a branch whose output is declared otherwise": "t () => (int64[2] a) { a = Relu(x) }",
        "a branch whose output nothing makes": "t () => (float[2] a) { b = Relu(x) }",
    }.items():
        yield (
            name,
            text(f"(bool c, float[2] x) => (float[2] y) {{ y = If(c)<then_branch = {then}, else_branch = {branch}> }}"),
        )
    yield "If with one branch", text(f"(bool c, float[2] x) => (float[2] y) {{ y = If(c)<then_branch = {branch}> }}")
    yield (
        "If with a third branch",
        text(
            f"(bool c, float[2] x) => (float[2] y) {{ y = If(c)<then_branch = {branch}, else_branch = "
            f"{branch}, other = {branch}> }}"
        ),
    )
    yield (
        "If without a condition",
        text(f"(bool c, float[2] x) => (float[2] y) {{ y = If()<then_branch = {branch}, else_branch = {branch}> }}"),
    )
    yield (
        "a body as a number",
        text("(bool c, float[2] x) => (float[2] y) { y = If(c)<then_branch = 1, else_branch = 2> }"),
    )


def _versions() -> Iterator[tuple[str, Callable[[], Content]]]:
    for version in (-(2**63), -1, 0, 29, 10**6, 2**62):
        yield f"opset {version}", after(lambda m, v=version: setattr(m.opset_import[0], "version", v))
    for version in (-1, 0, 99, 2**62):
        yield f"IR {version}", after(lambda m, v=version: setattr(m, "ir_version", v))
    yield "no opset", after(lambda m: m.ClearField("opset_import"))
    yield "two opsets", after(lambda m: m.opset_import.append(helper.make_opsetid("", 13)))
    yield (
        "two opsets, one by its other name",
        after(lambda m: m.opset_import.append(helper.make_opsetid("ai.onnx", 13))),
    )
    for domain in ("nobody", "com.microsoft", "os", "../x", "ai.onnx.ml", "\x1b[31m", "d" * 10**6):
        yield f"an op of {domain[:20]!r}", after(lambda m, d=domain: setattr(m.graph.node[0], "domain", d))
    for op in ("", "relu", "Add ", "\0", "A" * 10**6, "If\nLoop", "🙂"):
        yield f"the op {op[:20]!r}", after(lambda m, o=op: setattr(m.graph.node[1], "op_type", o))


def _limits() -> Iterator[tuple[str, Callable[[], Content]]]:
    def nested(depth: int) -> onnx.ModelProto:
        def graph(level: int) -> onnx.GraphProto:
            name = f"y{level}"
            inner = helper.make_node("Relu", ["x"], [name])
            if level < depth:
                inner = helper.make_node(
                    "If", ["c"], [name], then_branch=graph(level + 1), else_branch=leaf(f"e{level}")
                )
            return helper.make_graph([inner], f"g{level}", [], [helper.make_tensor_value_info(name, 1, [2])])

        def leaf(name: str) -> onnx.GraphProto:
            return helper.make_graph(
                [helper.make_node("Neg", ["x"], [name])], name, [], [helper.make_tensor_value_info(name, 1, [2])]
            )

        top = graph(0)
        top.input.extend([helper.make_tensor_value_info("c", 9, []), helper.make_tensor_value_info("x", 1, [2])])
        return helper.make_model(top, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)

    yield (
        "ConstantOfShape of 2^40 elements",
        text(
            "(float[1] x) => (float[n] y) { s = Constant<value_ints = [1099511627776]>() c = "
            "ConstantOfShape(s) y = Add(x, c) }"
        ),
    )
    for op, constants in {
        "Expand(x, s)": [10**6, 10**7], "Tile(x, s)": [10**7, 10**7], "Pad(x, p)": [],
        "Resize(x, , , s)": [10**7, 10**7],
    }.items():  # fmt: skip
        sizes = f"s = Constant<value_ints = {constants or [1]}>() p = Constant<value_ints = [0, {10**14}, 0, 0]>()"
        yield op, text(f"(float[1,1] x) => (float[a,b] y) {{ {sizes} y = {op} }}")
    yield (
        "a product of 2^80 elements",
        text(f"(float[{2**40},1] x, float[1,{2**40}] z) => (float[a,b] y) {{ y = MatMul(x, z) }}"),
    )
    yield "sixty nested branches", lambda: _deep_bytes(nested(20), 60)


def _deep_bytes(model: onnx.ModelProto, depth: int) -> bytes:
    """A model whose bytes nest graphs deeper than protobuf reads: a branch, in a branch, in a branch …"""
    inner = model.graph.node[0].attribute[0].g.SerializeToString()
    for _ in range(depth):
        attribute = onnx.AttributeProto(name="then_branch", type=onnx.AttributeProto.GRAPH).SerializeToString()
        attribute += _field(6, inner)
        inner = _field(1, _field(4, b"If") + _field(1, b"c") + _field(2, b"y") + _field(5, attribute)) + _field(2, b"g")
    return onnx.ModelProto(ir_version=10, opset_import=model.opset_import).SerializeToString() + _field(7, inner)


def _field(number: int, content: bytes) -> bytes:
    size, out = len(content), bytearray([number << 3 | 2])
    while size > 0x7F:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*out, size]) + content


def _bytes() -> Iterator[tuple[str, Callable[[], Content]]]:
    whole = two_nodes().SerializeToString()
    for cut in range(1, len(whole), max(len(whole) // 12, 1)):
        yield f"the first {cut} of {len(whole)}", lambda c=cut: whole[:c]
    yield "a byte too many in front", lambda: b"\0" + whole
    yield "a field of a type that there is not", lambda: whole + b"\x0e\x01"
    yield "an end of a group", lambda: whole + b"\x0c"
    yield "a second graph", lambda: whole + _field(7, _field(11, _field(1, b"x")))
    yield "a length beyond the end", lambda: whole + b"\x3a\xff\xff\x03"
    yield "a name that is not UTF-8", lambda: whole.replace(b"Relu", b"R\xffl\xfe")
    yield "a textproto", lambda: str(two_nodes()).encode()
    yield "ONNX text", lambda: onnx.printer.to_text(two_nodes()).encode()
    for name, head in {
        "PNG": b"\x89PNG\r\n\x1a\n", "GIF": b"GIF89a", "PDF": b"%PDF-1.7", "gzip": b"\x1f\x8b\x08",
        "numpy": b"\x93NUMPY",
        "pickle": b"\x80\x04\x95", "safetensors": (64).to_bytes(8, "little") + b'{"w":{}}',
        "sqlite": b"SQLite format 3\0",
        "a package": b"IMOD", "git-lfs": b"version https://git-lfs.github.com/spec/v1\n",
        "xml": b"<?xml version='1.0'?>",
    }.items():  # fmt: skip
        yield name, lambda h=head: h + bytes(200)
    yield "a tensor", lambda: numpy_helper.from_array(np.ones(4, np.float32), "w").SerializeToString()
    yield "random bytes", lambda: np.random.default_rng(7).bytes(5000)


def _outside() -> Iterator[Case]:
    """Constants in other files, where they are not, or not as they should be."""
    entries: dict[str, dict[str, str]] = {
        "no location": {},
        "an empty location": {"location": ""},
        "a file that is missing": {"location": "none.bin"},
        "a folder": {"location": "folder"},
        "the folder itself": {"location": "."},
        "a FIFO": {"location": "fifo"},
        "a link": {"location": "link"},
        "a file behind a linked folder": {"location": "linked/w.bin"},
        "a second name of a file": {"location": "hard.bin"},
        "a file above": {"location": "../w.bin"},
        "a file above, by a detour": {"location": "folder/../../w.bin"},
        "an absolute path": {"location": "/etc/hostname"},
        "a device": {"location": "/dev/zero"},
        "a drive": {"location": "C:\\w.bin"},
        "a web address": {"location": "https://example.com/w.bin"},
        "a file address": {"location": "file:///etc/passwd"},
        "a NUL": {"location": "w.bin\0"},
        "the memory of a program": {"location": "*/_ORT_MEM_ADDR_/*", "offset": "4096", "length": "24"},
        "an offset beyond the end": {"location": "w.bin", "offset": "1000"},
        "a negative offset": {"location": "w.bin", "offset": "-4"},
        "an offset that is no number": {"location": "w.bin", "offset": "x"},
        "an offset of 10^30": {"location": "w.bin", "offset": "9" * 30},
        "a length that does not fit": {"location": "w.bin", "length": "20"},
        "a negative length": {"location": "w.bin", "length": "-24"},
        "a file that is too short": {"location": "short.bin"},
        "an empty file": {"location": "empty.bin"},
        "its own model": {"location": "m.onnx", "offset": "9999"},
    }  # fmt: skip
    for name, entry in entries.items():
        for place in ("initializer", "attribute", "branch"):
            yield Case(
                f"external data: {name}, {place}",
                lambda folder, e=entry, p=place: _write_outside(folder, e, p),
                INVALID,
            )


def _write_outside(folder: Path, entry: dict[str, str], place: str) -> str:
    inner = folder / "model"
    inner.mkdir()
    for name, size in {"w.bin": 24, "short.bin": 23, "empty.bin": 0, "origin.bin": 24}.items():
        (inner / name).write_bytes(b"\0" * size)
    (inner / "folder").mkdir()
    (inner / "folder" / "w.bin").write_bytes(b"\0" * 24)
    (folder / "w.bin").write_bytes(b"\0" * 24)
    os.mkfifo(inner / "fifo")
    (inner / "link").symlink_to("w.bin")
    (inner / "linked").symlink_to("folder", target_is_directory=True)
    os.link(inner / "origin.bin", inner / "hard.bin")
    tensor = TensorProto(name="w", data_type=1, dims=[2, 3], data_location=TensorProto.EXTERNAL)
    for key, value in entry.items():
        tensor.external_data.add(key=key, value=value)
    model = two_nodes()
    if place == "attribute":
        model.graph.node.insert(0, helper.make_node("Constant", [], ["w"], value=tensor))
    elif place == "initializer":
        model.graph.initializer.append(tensor)
    else:
        body = helper.make_graph(
            [helper.make_node("Identity", ["w"], ["b"])], "b", [], [onnx.ValueInfoProto(name="b")], [tensor]
        )
        model.graph.node.insert(0, helper.make_node("If", ["c"], ["w"], then_branch=body, else_branch=body))
        model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    model.graph.node[-2].input[1] = "w"
    (inner / "m.onnx").write_bytes(model.SerializeToString())
    return "model/m.onnx"
