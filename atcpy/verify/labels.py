"""Outputs of a model that are classes: a comparison in which all inputs are of one class says little of the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from atcpy.verify.inputs import Array, Feeds, Fill, Port, make_feeds

if TYPE_CHECKING:
    from collections.abc import Mapping

    import onnx

# The output of each op that has the numbers of classes.
_CLASSIFIERS = {
    "ArgMax": 0, "ArgMin": 0, "TopK": 1, "TreeEnsembleClassifier": 0, "LinearClassifier": 0, "SVMClassifier": 0,
}  # fmt: skip
# What keeps them apart: the input that has them.
_ONE_TO_ONE = {
    "Cast": 0, "Identity": 0, "Reshape": 0, "Squeeze": 0, "Unsqueeze": 0, "Flatten": 0, "Transpose": 0,
    "LabelEncoder": 0, "Gather": 1, "ArrayFeatureExtractor": 1,
}  # fmt: skip
# Noise of unit size is near the mean of what was trained on: classes apart from it are reached by larger numbers.
_SCALES = (1.0, 1.0, 2.0, 4.0, 16.0, 64.0)


def label_outputs(model: onnx.ModelProto) -> frozenset[str]:
    """The outputs that have the number or the name of a class."""
    labels: set[str] = set()
    for node in model.graph.node:  # in topological order, as the standard asks
        if (index := _CLASSIFIERS.get(node.op_type)) is not None:
            labels.update(node.output[index : index + 1])
        elif (index := _ONE_TO_ONE.get(node.op_type)) is not None and labels.intersection(
            node.input[index : index + 1]
        ):
            labels.update(node.output)
    return frozenset(value.name for value in model.graph.output if value.name in labels)


@dataclass
class Classes:
    """The classes that outputs had in all runs; of each output two are enough."""

    names: frozenset[str]
    _seen: dict[str, set[object]] = field(default_factory=dict)

    def note(self, name: str, array: object) -> None:
        """Note an output of a run."""
        if name in self.names and isinstance(array, np.ndarray):
            self._seen.setdefault(name, set()).update(
                np.unique(array.astype(str) if array.dtype == object else array)[:2]
            )

    @property
    def of_one(self) -> tuple[str, ...]:
        """The outputs that were of one class in all runs."""
        return tuple(sorted(name for name, seen in self._seen.items() if len(seen) == 1))


def other_feeds(ports: Iterable[Port], fill: Fill, below: Mapping[str, int]) -> Iterator[Feeds]:
    """Further random inputs, some of them larger."""
    ports = list(ports)
    for number, scale in enumerate(_SCALES, 1):
        feeds = make_feeds(ports, Fill("random", fill.seed + number), below)
        yield {
            port.name: _scaled(feeds[port.name], scale) if port.dtype.is_float else feeds[port.name] for port in ports
        }


def _scaled(array: Array, scale: float) -> Array:
    return (array * scale).astype(array.dtype)
