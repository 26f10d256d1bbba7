"""The result of `atcpy quantize`."""

from __future__ import annotations

from dataclasses import dataclass

from atcpy.errors import AtcWarning
from atcpy.quantization.errors import QuantizationError


@dataclass(frozen=True, slots=True)
class QuantizedLayer:
    """A quantised node: whether the package computes it in integers, its own error with exact inputs, and that which it
    has in the quantised model. `effect` is the share of its own error in the outputs, if --suggest measured it.
    """

    node: str
    op: str
    integer: bool
    own: QuantizationError
    total: QuantizationError
    effect: float | None = None


@dataclass(frozen=True, slots=True)
class OutputErrors:
    """The errors of an output of the quantised model: in atcpy and in ONNX Runtime against the model in float32, and of
    atcpy against ONNX Runtime.
    """

    name: str
    atcpy: QuantizationError
    onnxruntime: QuantizationError
    difference: QuantizationError


@dataclass(frozen=True, slots=True)
class SampleCount:
    """How many samples ranges were measured on, and how many errors; these are `others` unless there is only one."""

    calibration: int
    held_out: int
    others: bool


@dataclass(frozen=True, slots=True)
class ByteCount:
    """The size of the model before and after."""

    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizeReport:
    """The fields of the result of `quantize --json`. `layers` are sorted by their own error, the largest first; `kept`
    are the nodes that --suggest found, each of which --exclude takes.
    """

    output: str
    method: str
    activation_type: str
    weight_type: str
    per_channel: bool
    samples: SampleCount
    bytes: ByteCount
    outputs: tuple[OutputErrors, ...]
    layers: tuple[QuantizedLayer, ...]
    excluded: tuple[str, ...]
    bound: str = ""
    kept: tuple[str, ...] = ()
    warnings: tuple[AtcWarning, ...] = ()
