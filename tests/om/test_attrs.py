"""Attributes: what is stored comes back, and what no writer stores is refused."""

import sys

import numpy as np
import pytest
from onnx import TypeProto, helper

from atcpy.errors import Unsupported
from atcpy.om.attrs import get_attr, set_attr, tensor_to_text, text_to_tensor, text_to_type
from atcpy.om.schema.ge_ir_pb2 import AttrDef

VALUES = [
    True, False, 7, -(2**63), 0.5, "größer", "", b"\xff\x00", (1, 2), (True, False), (0.5, -2.0), ("a", "é"),
    (b"\xff",),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_come_back(value: object) -> None:
    attr = AttrDef()
    set_attr(attr, value)
    found = get_attr(attr)
    assert found == value and type(found) is type(value)
    if isinstance(found, tuple) and isinstance(value, tuple):
        assert [type(item) for item in found] == [type(item) for item in value]


@pytest.mark.parametrize("value", [None, {}, 1j, (1, "a"), (None,), ((1,),), (True, "a")], ids=repr)
def test_what_has_no_kind_is_not_stored(value: object) -> None:
    with pytest.raises(TypeError, match="no attribute of a package"):
        set_attr(AttrDef(), value)


@pytest.mark.parametrize(
    "attr",
    [AttrDef(), AttrDef(bt=b""), AttrDef(list={}), AttrDef(list={"val_type": 99})],
    ids=["none", "bytes", "list of no kind", "list of an unknown kind"],
)
def test_kinds_that_are_not_stored_are_refused(attr: AttrDef) -> None:
    with pytest.raises(ValueError, match="of kind"):
        get_attr(attr)


def test_type_comes_back() -> None:
    written = helper.make_tensor_type_proto(1, [2, "n"])
    assert text_to_type(written.SerializeToString().hex()) == written
    assert text_to_type("") == TypeProto()


@pytest.mark.parametrize("text", ["x", "0", "ff"])
def test_text_of_no_type_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        text_to_type(text)


def test_types_need_onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(Unsupported) as caught:
        text_to_type("")
    assert caught.value.code == "E10055" and "pip install onnx" in caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "", "f32", "what[1] [1]", "f32[2] [1.0]", "f32[-1] []", "f32[1.5] [1.0]", "f32[1] 5", "f32[1] {}",
        "f32[1] [[]]", "i8[1] [300]", "i64[1] [1e999]", "c64[1] [1.0]", "c64[1] [[1.0, 2.0, 3.0]]",
        'c64[1] [["a"]]', "f32[1] [",
    ],
)  # fmt: skip
def test_text_of_no_tensor_is_refused(text: str) -> None:
    with pytest.raises((KeyError, ValueError)):
        text_to_tensor(text)


@pytest.mark.parametrize(
    "text", ["f32[2] [0.5, -0.0]", "c64[1] [[1.0, -2.0]]", "i8[] [-128]", 'str[1] ["a"]', "f32[0, 2] []"]
)
def test_text_of_a_tensor_is_canonical(text: str) -> None:
    assert tensor_to_text(text_to_tensor(text)) == text


def test_strings_may_be_bytes() -> None:
    array = np.array([b"a\xff"], object)
    tensor = text_to_tensor('str[1] ["x"]')
    assert tensor_to_text(type(tensor).of(array, tensor.dtype)) == 'str[1] ["a\\udcff"]'
