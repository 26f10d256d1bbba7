"""The values that a whole model computes, by the oracle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx

from atcpy.errors import AtcError
from atcpy.ops.custom import CustomOps
from atcpy.options import InputDims
from atcpy.verify.inputs import Feeds, Fill, integer_bounds, make_feeds, model_ports
from atcpy.verify.oracle import OracleRequest, find_oracle
from atcpy.verify.sizes import trials, with_sizes

_VALUES_PER_RUN = 32


@dataclass(kw_only=True)
class ModelValues:
    """Computes values of the model in the file `path` on `feeds`, other inputs random; each value is computed once."""

    path: Path
    model: onnx.ModelProto
    feeds: Feeds
    seed: int
    shapes: Mapping[str, InputDims]
    oracle: str | None
    threads: int
    custom: CustomOps
    _inputs: Feeds = field(default_factory=dict, init=False)
    _arrays: dict[str, Any] = field(default_factory=dict, init=False)

    def fetch(self, names: Sequence[str]) -> None:
        """Compute those of these values that are not known yet, in one run."""
        self._prepare()
        missing = [name for name in names if name not in self._arrays]
        if missing:
            self._arrays.update(zip(missing, self._compute(self._inputs, missing), strict=True))

    def pass_by(self, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
        """Compute values, a few in each run, and keep none of them."""
        self._prepare()
        yield from ((name, self._inputs[name]) for name in names if name in self._inputs)
        computed = [name for name in names if name not in self._inputs]
        for first in range(0, len(computed), _VALUES_PER_RUN):
            some = computed[first : first + _VALUES_PER_RUN]
            yield from zip(some, self._compute(self._inputs, some), strict=True)

    def _prepare(self) -> None:
        if not self._arrays:
            self._inputs = self._find_inputs()
            self._arrays.update(self._inputs)

    def arrays(self, names: Sequence[str]) -> Feeds | None:
        """The arrays of fetched values; None if one of them is not an array."""
        found = {name: self._arrays[name] for name in names}
        return found if all(hasattr(array, "dtype") for array in found.values()) else None

    def _compute(self, feeds: Feeds, names: Sequence[str]) -> list[Any]:
        request = OracleRequest(self.path, self.model, names, self.oracle, self.threads, self.custom)
        return find_oracle(request).run(feeds, names)

    def _find_inputs(self) -> Feeds:
        """Arrays for the inputs; open dims get the first sizes that the oracle accepts."""
        known = {
            name: tuple(dim for dim in dims if isinstance(dim, int))
            for name, dims in self.shapes.items()
            if all(isinstance(dim, int) and dim > 0 for dim in dims)
        }
        ports = [port for port in model_ports(self.model) if port.name not in self.feeds]
        outputs = [self.model.graph.output[0].name]
        refused: AtcError | None = None
        for sized in trials(with_sizes(ports, known)):
            feeds = {**self.feeds, **make_feeds(sized, Fill("random", self.seed), integer_bounds(self.model))}
            try:
                self._compute(feeds, outputs)
            except AtcError as error:
                refused = error
                continue
            return feeds
        assert refused is not None
        raise refused
