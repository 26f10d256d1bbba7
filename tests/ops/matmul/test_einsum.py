"""Einsum, decomposed into products, sums and transposes, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from atcpy.errors import ModelInvalid
from atcpy.ir import Node, Reject, Rewriter, Sym, TensorDesc
from atcpy.ir.dtype import DType
from atcpy.om import reader, writer
from atcpy.ops import find_opdef
from atcpy.options import ConvertOptions
from atcpy.runtime import InferenceSession
from atcpy.stages.pipeline import compile_model
from tests.harness import make_node

CASES = [
    ("ij,jk->ik", (3, 4), (4, 5)),
    ("ij , jk", (3, 4), (4, 5)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("bqhd,bkhd->bhqk", (2, 4, 3, 5), (2, 6, 3, 5)),
    ("bqd,dhk->bqhk", (2, 3, 4), (4, 5, 6)),
    ("bi,bj->bij", (2, 3), (2, 4)),
    ("i,i->", (5,), (5,)),
    ("bk,bkn->bn", (2, 3), (2, 3, 4)),
    ("ij->ji", (3, 4)),
    ("ij->", (3, 4)),
    ("ij->i", (3, 4)),
    ("ii", (4, 4)),
    ("ii->i", (4, 4)),
    ("iij->ji", (3, 3, 2)),
    ("iii->i", (3, 3, 3)),
    ("...ii->...i", (2, 3, 3)),
    ("...ij,...jk", (2, 3, 4), (4, 5)),
    ("...ij,...jk->...ik", (1, 3, 4), (2, 4, 5)),
    ("b...,b->...b", (2, 3, 4), (2,)),
    ("i...->...", (2, 3)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("ij,ij,ij->ij", (2, 3), (2, 3), (2, 3)),
    ("aB,Bc->ca", (2, 3), (3, 4)),
    ("ij,jk->ik", (3, 1), (4, 5)),
    ("ij,jk->ik", (3, 0), (0, 5)),
    ("ii->i", (0, 0)),
    (",ij->ij", (), (2, 3)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_agrees_with_numpy(case: tuple[object, ...]) -> None:
    equation, shapes = str(case[0]), [tuple(shape) for shape in case[1:]]  # type: ignore[arg-type]
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    graph = helper.make_graph(
        [helper.make_node("Einsum", [f"i{k}" for k in range(len(arrays))], ["y"], equation=equation)],
        "einsum",
        [helper.make_tensor_value_info(f"i{k}", TensorProto.FLOAT, shape) for k, shape in enumerate(shapes)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    package = writer.to_bytes(compile_model(model, ConvertOptions())[0])
    assert "host" not in {task.kernel for task in reader.parse_package(package).tasks}
    feeds = {f"i{k}": array for k, array in enumerate(arrays)}
    ours = InferenceSession(package, threads=1).run(None, feeds)[0]
    if shapes[0] == (3, 1) and equation == "ij,jk->ik":
        arrays[0] = np.broadcast_to(arrays[0], (3, 4))
    np.testing.assert_allclose(ours, np.einsum(equation, *arrays), rtol=1e-5, atol=1e-5)


def expanded(equation: str, *shapes: tuple[int | str, ...]) -> tuple[Node, object]:
    """An Einsum node on symbolic shapes, and the result of its record's expansion."""
    node = make_node("Einsum", [np.zeros([2] * len(shape), np.float32) for shape in shapes], {"equation": equation})
    for value, shape in zip(node.operands, shapes, strict=True):
        dims = tuple(Sym(dim) if isinstance(dim, str) else dim for dim in shape)
        value.desc = TensorDesc.plain(DType.FLOAT32, dims)
    opdef = find_opdef(node)
    assert opdef is not None and opdef.expand is not None and node.graph is not None
    return node, opdef.expand(node, Rewriter(node.graph, node, "test"))


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("bhqd,bhkd->bhqk", (("b", 3, "q", 5), ("b", 3, "k", 5))),
        ("bqd,dhk->bqhk", (("b", 3, 4), (4, 5, 6))),
        ("...ij,jk->...ik", (("b", 3, 4), (4, 5))),
    ],
)
def test_expands_with_symbolic_sizes(equation: str, shapes: tuple[tuple[int | str, ...], ...]) -> None:
    _, result = expanded(equation, *shapes)
    assert isinstance(result, list)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [("ii->i", (("n", "n"),)), ("ij,jk->ik", ((3, "n"), ("m", 4))), ("bqd,dhk->bqhk", (("b", "q", 4), (4, 5, 6)))],
)
def test_is_rejected_while_a_decisive_size_is_unknown(equation: str, shapes: tuple[tuple[int | str, ...], ...]) -> None:
    node, result = expanded(equation, *shapes)
    assert isinstance(result, Reject) and (result.reason, result.where) == ("shape-unknown", node.name)


@pytest.mark.parametrize("equation", ["i,j", "ij->k", "ij->ii", "i1", "ijk"])
def test_refuses_equations_that_do_not_fit(equation: str) -> None:
    node = make_node("Identity", [np.zeros((2, 3), np.float32)])
    node.op_type, node.attrs["equation"] = "Einsum", equation
    opdef = find_opdef(node)
    assert opdef is not None and opdef.expand is not None and node.graph is not None and opdef.infer is not None
    with pytest.raises(ModelInvalid):
        opdef.expand(node, Rewriter(node.graph, node, "test"))
