"""What a package records of AIPP, as attributes of its inputs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

AIPP = "aipp"  # the settings of the block of an input, by ATC's names, as JSON
AIPP_MODEL = "aipp_model"  # the input that the model has in its place, as JSON


@dataclass(frozen=True, slots=True)
class ModelInput:
    """The input of a model that AIPP computes: type, layout (NCHW or NHWC) and dims; None is an open one."""

    dtype: str
    layout: str
    shape: tuple[int | None, ...]

    @property
    def text(self) -> str:
        """The record as JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> ModelInput:
        """The inverse of `text`, of what JSON holds."""
        return cls(record["dtype"], record["layout"], tuple(record["shape"]))

    @property
    def pictures(self) -> int | None:
        """How many pictures a run takes."""
        return self.shape[0]

    @property
    def size(self) -> tuple[int | None, int | None]:
        """Height and width."""
        height, width = self.shape[2:] if self.layout == "NCHW" else self.shape[1:3]
        return height, width

    @property
    def channels(self) -> int:
        """How many channels it has."""
        channels = self.shape[1 if self.layout == "NCHW" else 3]
        assert channels is not None
        return channels
