"""What a package records of AIPP, as attributes of its inputs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

MAX_DIM = 2**31 - 1
AIPP_MODEL = "aipp_model"  # the input that the model has in its place, as JSON


@dataclass(frozen=True, slots=True)
class ModelInput:
    """The input of a model that AIPP computes: type, layout (NCHW or NHWC) and dims; None is an open one. `parameters`
    is the further input that has the settings of each run, if there is one.
    """

    dtype: str
    layout: str
    shape: tuple[int | None, ...]
    parameters: str = ""

    @property
    def text(self) -> str:
        """The record as JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> ModelInput:
        """The inverse of `text`, of what JSON holds. Raises ValueError, TypeError or KeyError for anything else."""
        model = cls(record["dtype"], record["layout"], tuple(record["shape"]), record["parameters"])
        sizes_fit = all(dim is None or (type(dim) is int and 0 <= dim <= MAX_DIM) for dim in model.shape)
        if (
            model.dtype not in ("float32", "float16", "uint8")
            or model.layout not in ("NCHW", "NHWC")
            or len(model.shape) != 4
            or not sizes_fit
            or not isinstance(model.parameters, str)
            or (model.parameters and None in model.shape)
            or model.shape[1 if model.layout == "NCHW" else 3] not in (1, 3)
        ):
            raise ValueError(f"{model} is no picture")
        return model

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
