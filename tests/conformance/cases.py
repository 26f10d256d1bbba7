"""The test cases that the `onnx` package ships: models, inputs, and what the results must be."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test
import onnx.backend.test.case.node as node_cases
from onnx import numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests

FOLDER = Path(onnx.__file__).parent.parent
FOLDERS_OF_MODELS = ("simple", "real", "pytorch-converted", "pytorch-operator")
# They compute their expected results element by element: 5 of the 6 seconds that loading takes.
SLOW_MODULES = frozenset({"averagepool", "lppool", "maxpool"})
# The expected results are what one random generator happened to draw.
RANDOM = frozenset(
    {
        *(f"test_bernoulli{kind}{form}" for kind in ("", "_double", "_seed") for form in ("", "_expanded")),
        *(f"test_training_dropout{kind}" for kind in ("", "_mask", "_default", "_default_mask")),
    }
)

Data = Any  # an array, a list of these, or None
DataSet = tuple[Sequence[Data], Sequence[Data]]


@dataclass(frozen=True)
class Case:
    """One test case; `model` and `data_sets` are read when it runs."""

    name: str
    kind: str
    rtol: float
    atol: float
    model: Callable[[], onnx.ModelProto]
    data_sets: Callable[[], Iterator[DataSet]]


def load_cases(*, without: frozenset[str] = frozenset()) -> list[Case]:
    """Every case, by name; those in files have that of their folder, too, for names repeat.

    without: modules of onnx.backend.test.case.node to leave alone.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases divide by zero on purpose
        for module in pkgutil.walk_packages(node_cases.__path__, f"{node_cases.__name__}."):
            if module.name.rpartition(".")[2] not in without:
                importlib.import_module(module.name)
    cases = [_in_memory(case) for case in node_cases._NodeTestCases]
    cases += [_in_files(case) for kind in FOLDERS_OF_MODELS for case in load_model_tests(kind=kind)]
    return sorted(cases, key=lambda case: case.name)


def _in_memory(case: TestCase) -> Case:
    def model() -> onnx.ModelProto:
        assert case.model is not None
        return case.model

    def data_sets() -> Iterator[DataSet]:
        for inputs, outputs in case.data_sets or ():
            yield [_as_data(item) for item in inputs], [_as_data(item) for item in outputs]

    return Case(case.name, case.kind, case.rtol, case.atol, model, data_sets)


def _in_files(case: TestCase) -> Case:
    if case.model_dir is None:
        assert case.url is not None
        file = FOLDER / case.url
        return Case(
            f"{case.kind}/{case.name}",
            case.kind,
            case.rtol,
            case.atol,
            lambda: onnx.load(file),
            lambda: _light_data(file),
        )
    folder = Path(case.model_dir)
    load = lambda: onnx.load(folder / "model.onnx")  # noqa: E731  # as the others
    return Case(f"{case.kind}/{case.name}", case.kind, case.rtol, case.atol, load, lambda: _stored_data(folder))


def _stored_data(folder: Path) -> Iterator[DataSet]:
    graph = onnx.load(folder / "model.onnx").graph
    for data in sorted(folder.glob("test_data_set_*")):
        inputs = [_read(data / f"input_{i}.pb", port) for i, port in enumerate(graph.input)]
        outputs = [_read(data / f"output_{i}.pb", port) for i, port in enumerate(graph.output)]
        yield [item for item in inputs if item is not _MISSING], [item for item in outputs if item is not _MISSING]


def _light_data(file: Path) -> Iterator[DataSet]:
    """Models without weights of their own take a ramp; their results are stored beside them."""
    graph = onnx.load(file).graph
    constants = {tensor.name for tensor in graph.initializer}
    inputs = []
    for port in graph.input:
        if port.name not in constants:
            shape = [dim.dim_value or 1 for dim in port.type.tensor_type.shape.dim]
            count = int(np.prod(shape))
            inputs.append((np.arange(count).reshape(shape) / count).astype(np.float32))
    stem = file.with_suffix("")
    yield inputs, [_read(Path(f"{stem}_output_{i}.pb"), port) for i, port in enumerate(graph.output)]


_MISSING = object()


def _read(file: Path, port: onnx.ValueInfoProto) -> Data:
    if not file.exists():
        return _MISSING  # an initializer that is listed among the inputs has no file
    raw = file.read_bytes()
    kind = port.type.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(raw))
    if kind == "optional_type":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(raw))
    return numpy_helper.to_array(onnx.TensorProto.FromString(raw))


def _as_data(item: Any) -> Data:
    if isinstance(item, onnx.TensorProto):
        return numpy_helper.to_array(item)
    if isinstance(item, list | tuple):
        return [_as_data(member) for member in item]
    return None if item is None else np.asarray(item)
