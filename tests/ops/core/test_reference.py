"""What ONNX is given of our nodes."""

import numpy as np
import onnx
import pytest

from atcpy.ir import Tensor
from atcpy.ops.attention.attention import infer_attention
from atcpy.ops.core.half import MULTIPLIES_BF16, ROUNDS_BF16
from atcpy.ops.core.infer import KnownValues
from atcpy.ops.core.reference import to_node_proto
from tests.harness import make_node


def test_texts_that_are_no_utf_8_are_those_of_the_model() -> None:
    """Attributes and constants hold them with surrogate escapes, as Python names files."""
    node = make_node("StringNormalizer", [np.array(["a", "b"], object)], {"stopwords": ("\udcff", "é")})
    node.attrs["value"] = Tensor.of(np.array(["\udcfe"], object))
    attributes = {attr.name: attr for attr in to_node_proto(node).attribute}
    assert list(attributes["stopwords"].strings) == [b"\xff", "é".encode()]
    assert list(attributes["value"].t.string_data) == [b"\xfe"]
    assert list(attributes["value"].t.dims) == [1]


def test_an_empty_list_has_the_type_that_its_op_gives_it() -> None:
    (attribute,) = to_node_proto(make_node("StringNormalizer", [np.array(["a"], object)], {"stopwords": ()})).attribute
    assert (attribute.name, attribute.type) == ("stopwords", onnx.AttributeProto.STRINGS)


@pytest.mark.parametrize("note", [MULTIPLIES_BF16, ROUNDS_BF16])
def test_types_are_inferred_again_behind_a_pass_that_left_a_note(note: str) -> None:
    x = np.zeros((1, 2, 9, 8), np.float32)
    node = make_node("Attention", [x, x, x])
    before = [value.desc for value in node.outputs]
    node.attrs[note] = 1
    assert list(infer_attention(node, KnownValues())) == before
