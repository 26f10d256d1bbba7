"""--deterministic_level=2: rows of the same numbers have the same results, or the model is refused."""

from __future__ import annotations

import numpy as np
import pytest

from atcpy import InferenceSession
from atcpy.errors import AtcError
from tests.models_in_text import package

LEVEL = {"deterministic_level": 2}
HALF = {"precision_mode": "force_fp16"}


def results(text: str, x: np.ndarray[tuple[int, ...], np.dtype[np.float32]], threads: int, **options: object) -> object:
    return InferenceSession(package(text, {**LEVEL, **options}), threads=threads).run(None, {"x": x})[0]


@pytest.mark.parametrize("rows", [2, 5, 17, 33])
@pytest.mark.parametrize("columns", [3, 16, 100])
@pytest.mark.parametrize(
    "node",
    [
        "y = Softmax(x)",
        "y = LayerNormalization(x, s)",
        "y = ReduceSum(x, axis)",
        "y = ReduceL2(x, axis)",
        "y = MatMul(x, w)",
        "a = Exp(x)  b = Mul(a, x)  c = Sigmoid(b)  y = Add(c, a)",
    ],
)
def test_each_row_has_the_same_results(node: str, rows: int, columns: int) -> None:
    x = np.tile(np.random.default_rng(0).standard_normal(columns).astype(np.float32), (rows, 1))
    constants = f"float[{columns}] s, float[{columns},17] w, int64[1] axis = {{1}}"
    text = f"g (float[{rows},{columns}] x) => (float[a,b] y) <{constants}> {{ {node} }}"
    for threads in (1, 2):
        y = np.asarray(results(text, x, threads))
        assert (y == y[0]).all()


@pytest.mark.parametrize("options", [{}, HALF], ids=["float32", "float16"])
@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("channels", [1, 3, 17])
def test_each_pixel_of_a_convolution_has_the_same_result(
    channels: int, kernel: int, options: dict[str, object]
) -> None:
    pixel = np.random.default_rng(0).standard_normal((1, channels, 1, 1)).astype(np.float32)
    x = np.tile(pixel, (3, 1, 9, 37))
    weights = f"float[33,{channels},{kernel},{kernel}] w"
    text = f"g (float[3,{channels},9,37] x) => (float[a,b,c,d] y) <{weights}> {{ y = Conv(x, w) }}"
    y = np.asarray(results(text, x, 2, **options))
    assert (y == y[:1, :, :1, :1]).all()


@pytest.mark.parametrize(
    ("nodes", "ends", "why"),
    [
        ("y = LSTM<hidden_size = 4>(x, w, r)", "float[2,3,5] x", "recurrent"),
        ('y = HcomAllReduce<reduction = "sum">(x)', "float[4] x", "collectives"),
        ("y = DFT<inverse = 1>(x)", "float[1,3,2] x", "HOST_CPU"),
    ],
)
def test_what_may_depend_on_the_position_is_refused(nodes: str, ends: str, why: str) -> None:
    text = f"g ({ends}) => (float[a] y) <float[1,16,5] w, float[1,16,4] r> {{ {nodes} }}"
    text = text.replace(
        "float[a] y", {"recurrent": "float[a,b,c,d] y", "collectives": "float[4] y"}.get(why, "float[1,3,2] y")
    )
    with pytest.raises(AtcError) as caught:
        package(text, LEVEL)
    assert (caught.value.code, why in str(caught.value)) == ("E10055", True)
    assert package(text, {"deterministic_level": 1})
