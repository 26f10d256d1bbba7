"""STFT: the shape of its result, which ONNX's own shape function gives two-sided where the sides are not named."""

from __future__ import annotations

from collections.abc import Sequence

from atcpy.errors import ModelInvalid
from atcpy.ir import Node, TensorDesc
from atcpy.ir.shape import Dim
from atcpy.ops.core.axes import unnamed_dim
from atcpy.ops.core.opdef import Known


def infer_stft(node: Node, known: Known) -> Sequence[TensorDesc]:
    """[batch, frames, bins, 2]: real parts and imaginary ones."""
    signal = node.operand(0).desc
    if signal.shape is not None and len(signal.shape) != 3:
        raise ModelInvalid("EZ8888", where=node, what=f"the signal has rank {len(signal.shape)}, not 3")
    batch, samples = (unnamed_dim(node, 0), None) if signal.shape is None else signal.shape[:2]
    step, length = _scalar(node, 1, known), _frame_length(node, known)
    frames: Dim = unnamed_dim(node, 1)
    if isinstance(samples, int) and step is not None and length is not None:
        if not (step > 0 and 0 < length <= samples):
            what = f"frames of {length} every {step} do not fit into a signal of {samples}"
            raise ModelInvalid("EZ8888", where=node, what=what)
        frames = 1 + (samples - length) // step
    bins: Dim = unnamed_dim(node, 2)
    if length is not None:
        bins = length // 2 + 1 if node.int_attr("onesided", 1) else length
    return [TensorDesc.plain(signal.dtype, (batch, frames, bins, 2))]


def _frame_length(node: Node, known: Known) -> int | None:
    """What is given, or the length of the window."""
    if node.input(3) is not None:
        return _scalar(node, 3, known)
    window = node.input(2)
    if window is None:
        raise ModelInvalid("EZ8888", where=node, what="neither a window nor the length of frames is given")
    size = window.desc.shape[0] if window.desc.shape else None
    return size if isinstance(size, int) else None


def _scalar(node: Node, index: int, known: Known) -> int | None:
    elements = known(node.input(index))
    return elements[0] if elements and isinstance(elements[0], int) else None
