"""The values that a whole model computes, by the oracle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

from atcpy.errors import AtcError
from atcpy.ops.custom import CustomOps
from atcpy.options import InputDims
from atcpy.verify.inputs import Feeds, Fill, integer_bounds, make_feeds, model_ports
from atcpy.verify.oracle import find_oracle
from atcpy.verify.sizes import trials, with_sizes


class ModelValues:
    """Computes values of a model on given or random inputs; each value is computed once."""

    def __init__(
        self,
        path: Path,
        model: onnx.ModelProto,
        *,
        feeds: Feeds,
        seed: int,
        shapes: Mapping[str, InputDims],
        oracle: str | None,
        threads: int,
        custom: CustomOps,
    ) -> None:
        self._path = path
        self._model = model
        self._given = feeds
        self._seed = seed
        self._shapes = shapes
        self._oracle = oracle
        self._threads = threads
        self._custom = custom
        self._feeds: Feeds = {}
        self._arrays: dict[str, Any] = {}

    def fetch(self, names: Sequence[str]) -> None:
        """Compute those of these values that are not known yet, in one run."""
        if not self._arrays:
            self._feeds = self._inputs()
            self._arrays.update(self._feeds)
        missing = [name for name in names if name not in self._arrays]
        if missing:
            self._arrays.update(zip(missing, self._compute(self._feeds, missing), strict=True))

    def arrays(self, names: Sequence[str]) -> Feeds | None:
        """The arrays of fetched values; None if one of them is not an array."""
        found = {name: self._arrays[name] for name in names}
        return found if all(hasattr(array, "dtype") for array in found.values()) else None

    def _compute(self, feeds: Feeds, names: Sequence[str]) -> list[Any]:
        oracle = find_oracle(self._path, self._model, names, self._oracle, self._threads, self._custom)
        return oracle.run(feeds, names)

    def _inputs(self) -> Feeds:
        """Arrays for the inputs; open dims get the first sizes that the oracle accepts."""
        known = {
            name: tuple(dim for dim in dims if isinstance(dim, int))
            for name, dims in self._shapes.items()
            if all(isinstance(dim, int) and dim > 0 for dim in dims)
        }
        ports = [port for port in model_ports(self._model) if port.name not in self._given]
        outputs = [self._model.graph.output[0].name]
        refused: AtcError | None = None
        for sized in trials(with_sizes(ports, known)):
            feeds = {**self._given, **make_feeds(sized, Fill("random", self._seed), integer_bounds(self._model))}
            try:
                self._compute(feeds, outputs)
            except AtcError as error:
                refused = error
                continue
            return feeds
        assert refused is not None
        raise refused
