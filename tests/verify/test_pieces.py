"""Large models run in pieces: the same results, and the same verdicts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import atcpy
from atcpy.verify import pieces, rewritten

TEXT = """<ir_version: 8, opset_import: ["" : 17]> g (float[2,4] x) => (float[2,4] y, float[2,4] early)
<float[4] w = {1, 2, 3, 4}> {
  a = Add(x, w) early = Relu(a) b = Mul(a, w) c = Sub(b, early) d = Identity(c) e, f = Split<axis = 1>(d)
  g1 = Concat<axis = 1>(e, f) h = Tanh(g1) i = Add(h, a) y = Mul(i, w)
}"""


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Pieces of two nodes; how many were opened."""
    opened = [0]
    session = rewritten._session

    def counted(*arguments: object) -> object:
        opened[0] += 1
        return session(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(pieces, "PIECE", 2)
    monkeypatch.setattr(rewritten, "_session", counted)
    return opened


def test_verified_in_pieces(small_pieces: list[int], tmp_path: Path) -> None:
    report = atcpy.optimize(onnx.parser.parse_model(TEXT), tmp_path / "out.onnx")
    assert report.verified
    assert report.max_abs == 0
    assert small_pieces[0] >= 6


def test_what_a_piece_returns() -> None:
    import onnxruntime

    model = onnx.parser.parse_model(TEXT)

    def opened(piece: onnx.ModelProto, names: object) -> onnxruntime.InferenceSession:
        return onnxruntime.InferenceSession(piece.SerializeToString(), providers=["CPUExecutionProvider"])

    feeds = {"x": np.arange(8, dtype=np.float32).reshape(2, 4)}
    whole = opened(model, ()).run(["y", "early"], feeds)
    for ours, theirs in zip(pieces.PiecewiseModel(model, opened).run(["y", "early"], feeds), whole, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("body", "may"),
    [
        ("a = Relu(x) b = Relu(a) c = Relu(b) d = Relu(c) e = Relu(d) f = Relu(e) h = Relu(f) y = Relu(h)", True),
        ("b = Relu(a) a = Relu(x) c = Relu(b) d = Relu(c) e = Relu(d) f = Relu(e) h = Relu(f) y = Relu(h)", False),
        ("y = Relu(x)", False),
    ],
)
def test_which_models_are_cut(monkeypatch: pytest.MonkeyPatch, body: str, may: bool) -> None:
    monkeypatch.setattr(pieces, "PIECE", 2)
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) {{ {body} }}'
    )
    assert pieces.may_be_cut(model) is may
