"""The options of `atcpy quantize`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from atcpy.errors import UsageError, Where, did_you_mean
from atcpy.options import OPTIONS, Reader, read_bool, read_choice, read_float, read_int, read_names
from atcpy.quantization.errors import QuantizationError


class Method(Enum):
    """How the range of a value follows from its calibration samples."""

    MINMAX = "minmax"
    ENTROPY = "entropy"
    PERCENTILE = "percentile"


class ByteType(Enum):
    """An 8-bit integer type."""

    U8 = "u8"
    I8 = "i8"


class Metric(Enum):
    """A measure of the error of a model."""

    COSINE = "cosine"
    SNR = "snr"
    MAX_ABS = "max_abs"


@dataclass(frozen=True, slots=True)
class Bound:
    """The largest error of an output that is accepted: a least cosine or SNR (dB), or a largest difference."""

    metric: Metric
    value: float

    def is_met(self, errors: Mapping[str, QuantizationError]) -> bool:
        """Whether the error of each output is within the bound."""
        return all(self._is_met(error) for error in errors.values())

    def _is_met(self, error: QuantizationError) -> bool:
        if self.metric is Metric.MAX_ABS:
            return error.max_abs <= self.value
        return (error.cosine if self.metric is Metric.COSINE else error.snr_db) >= self.value

    def __str__(self) -> str:
        return f"{self.metric.value}={self.value:g}"


@dataclass(frozen=True, kw_only=True)
class QuantizeOptions:
    """What `quantize` does beside the model and the samples. `exclude` are nodes that stay float: names, patterns with
    `*`, or `OpType::T`. `suggest` asks for the layers that must stay float to meet a bound.
    """

    method: Method = Method.MINMAX
    per_channel: bool = True
    activation_type: ByteType = ByteType.U8
    weight_type: ByteType = ByteType.I8
    exclude: tuple[str, ...] = ()
    suggest: Bound | None = None
    max_samples: int | None = None
    threads: int | None = None
    allow_hardlinks: bool = False


def read_bound(option: str, value: object) -> Bound:
    """`cosine=0.99`, `snr=20` or `max_abs=0.1`."""
    match = re.fullmatch(r"\s*(cosine|snr|max_abs)\s*=\s*(\S+)\s*", value) if isinstance(value, str) else None
    if match is None:
        what = f'--{option}: "{value}" is no bound'
        raise UsageError("E10001", what, where=Where(option=option), hint="cosine=0.99, snr=20 (dB) or max_abs=0.1")
    metric = Metric(match[1])
    return Bound(metric, read_float(option, match[2], 0, 1 if metric is Metric.COSINE else 1e30))


def quantize_options(values: Mapping[str, object]) -> QuantizeOptions:
    """Read the options that a user named; None stands for the default."""
    named = {name: value for name, value in values.items() if value is not None}
    if unknown := sorted(named.keys() - _READERS.keys()):
        raise UsageError("E10001", f'quantize has no option "{unknown[0]}"', hint=did_you_mean(unknown[0], _READERS))
    options = QuantizeOptions(**{name: _READERS[name](name, value) for name, value in named.items()})
    if (options.activation_type, options.weight_type) == (ByteType.I8, ByteType.U8):
        what = "--activation_type i8 with --weight_type u8: ONNX Runtime's quantizer does not combine these"
        raise UsageError("E10056", what, where=Where(option="weight_type"), hint="--weight_type i8")
    return options


def _choice(kind: type[Enum]) -> Reader:
    choices = {member.value: member for member in kind}
    return lambda option, value: read_choice(option, value, choices)


_READERS: dict[str, Reader] = {
    "method": _choice(Method),
    "per_channel": read_bool,
    "activation_type": _choice(ByteType),
    "weight_type": _choice(ByteType),
    "exclude": lambda option, value: read_names(option, [value] if isinstance(value, str) else value),
    "suggest": read_bound,
    "max_samples": lambda option, value: read_int(option, value, 1, 2**31),
    "threads": OPTIONS["threads"].read,
    "allow_hardlinks": read_bool,
}
