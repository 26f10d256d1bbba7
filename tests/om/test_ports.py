"""Names and types of inputs and outputs with open dims, written and read back; what nobody writes is refused."""

from __future__ import annotations

import json

import pytest

from atcpy.errors import PackageCorrupt
from atcpy.ir import DType
from atcpy.om import writer
from atcpy.om.inout import ModelInfo, TensorInfo
from atcpy.om.package import Package, parse_package
from atcpy.om.ports import OpenPort, read_ports
from tests.models_in_text import package

TEXT = """m (float[b,n,3] x, int64[b] i) => (float[b,n,3] y, seq(float[b,n,3]) s, int64[b] k) {
    y = Exp(x) s = SequenceConstruct(x, y) k = Neg(i)
}"""


def converted(**options: object) -> Package:
    return parse_package(package(TEXT, options))


def test_names_types_and_ranges_are_read_back() -> None:
    x, i = converted(input_shape="x:1~8,-1,3;i:1~8").open_inputs
    assert x == OpenPort("x", DType.FLOAT32, ("b", "n", 3), ((1, 8), (0, -1), (3, 3)), "")
    assert i == OpenPort("i", DType.INT64, ("b",), ((1, 8),), "")
    y, s, _ = converted().open_outputs
    assert y == OpenPort("y", DType.FLOAT32, ("b", "n", 3), (), "")
    assert (s.dtype, s.type) == (DType.UNDEFINED, "seq(tensor(float))")


def test_gears_name_their_dims_too() -> None:
    text = "m (float[b,3] x) => (float[b,3] y) { y = Exp(x) }"
    [x] = parse_package(package(text, {"input_shape": "x:-1,3", "dynamic_batch_size": "1,2"})).open_inputs
    assert x.shape == ("b", 3)


X = TensorInfo("x", 0, 2, 0, (-1, 3), (-1, 3))
GOOD = {"dims": ["b"], "types": [""]}


def test_a_record_that_fits() -> None:
    [x], [y] = read_ports(ModelInfo((X,), (X._replace(name="y", dims=(-2,)),)), json.dumps(GOOD | {"types": ["", ""]}))
    assert x == OpenPort("x", DType.FLOAT32, ("b", 3), (), "")
    assert y == OpenPort("y", DType.FLOAT32, None, (), "")


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", "2", "[" * 100_000]
    + [
        json.dumps(GOOD | change)
        for change in (
            {"dims": []}, {"dims": ["b", "c"]}, {"dims": [1]}, {"dims": "b"}, {"types": []}, {"types": ["", ""]},
            {"types": [None]}, {"types": {}},
        )
    ],
    ids=range(14),
)  # fmt: skip
def test_records_that_nobody_writes_are_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises((ValueError, TypeError, KeyError, RecursionError)):
        read_ports(ModelInfo((X,), ()), text)
    monkeypatch.setattr(writer, "ports_text", lambda compiled: text)
    with pytest.raises(PackageCorrupt) as caught:
        converted()
    assert caught.value.code == "P0005"


@pytest.mark.parametrize(
    "info",
    [
        X._replace(dtype=99),
        X._replace(dims=(-1, -3)),
        X._replace(dims=(-1, -2)),
        X._replace(dims=(-1, 2**40 + 1)),
        X._replace(dims=(-1, *[1] * 64)),
        X._replace(shape_range=((0, -1),)),
        X._replace(dims=(-2,)),
    ],
    ids=["type", "negative", "rank among dims", "large", "rank", "ranges", "a name too much"],
)
def test_inputs_that_nobody_writes_are_refused(info: TensorInfo) -> None:
    with pytest.raises(ValueError, match=r"x has|it names"):
        read_ports(ModelInfo((info,), ()), json.dumps(GOOD))
