"""The oracles for models of TensorFlow: TensorFlow itself, or OpenVINO, where one of them is installed.

Either gets the model frozen, so that it has the names of the package.
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

from atcpy.errors import AtcError, ModelInvalid, UsageError, Where
from atcpy.options import convert_options
from atcpy.parsers.tensorflow.reader import digest_of
from atcpy.stages.freeze import freeze
from atcpy.verify.inputs import Feeds
from atcpy.verify.oracle import Oracle

_CHOOSING: Final = frozenset({"signature", "tag_set"})
Run = Callable[[Feeds, Sequence[str]], list[Any]]


def find_tensorflow_oracle(path: Path, cmdline: str, outputs: Sequence[str], choice: str | None) -> tuple[Oracle, str]:
    """The oracle for a package that was converted with `cmdline`, and the hash of the model. `choice` is `tf`,
    `openvino`, or None for the first that is installed.
    """
    if choice not in (None, *_ENGINES):
        what = f'--oracle: "{choice}" is not tf or openvino, which can run a model of TensorFlow'
        raise UsageError("E10001", what, where=Where(option="oracle"))
    engine = next((name for name in _ENGINES if choice in (None, name) and find_spec(_MODULES[name])), None)
    if engine is None:
        what = "neither TensorFlow nor OpenVINO is installed, which could run the model"
        if choice is not None:
            what = f"{_MODULES[choice]} is not installed"
        raise ModelInvalid("V0003", what, where=Where(file=str(path)), hint="pip install atcpy[tf], or openvino")
    words = (word.removeprefix("--").partition("=") for word in shlex.split(cmdline)[2:])
    options = convert_options(
        {name: text for name, _, text in words if name in _CHOOSING} | {"out_nodes": list(outputs)}
    ).parse
    digest = digest_of(path)
    with tempfile.TemporaryDirectory(prefix="atcpy-verify-") as folder:
        frozen = Path(folder) / "frozen.pb"
        report = freeze(path, frozen, options)
        try:
            name, run = _ENGINES[engine](frozen, dict(zip(outputs, report.outputs, strict=True)))
        except AtcError:
            raise
        except Exception as error:
            raise _cannot(path, error) from error
    guarded = partial(_guarded, run, path)
    return Oracle(name, guarded, guarded, exact=lambda feeds: None), digest


def _guarded(run: Run, path: Path, feeds: Feeds, names: Sequence[str]) -> list[Any]:
    try:
        return run(feeds, names)
    except Exception as error:
        raise _cannot(path, error) from error


def _cannot(path: Path, error: Exception) -> ModelInvalid:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    what = f"the oracle cannot run the model: {(lines or [type(error).__name__])[-1]}"
    return ModelInvalid("V0003", what, where=Where(file=str(path)), hint="--oracle tf or --oracle openvino")


def _tensorflow(frozen: Path, tensors: Mapping[str, str]) -> tuple[str, Run]:
    import tensorflow

    v1 = tensorflow.compat.v1
    definition = v1.GraphDef.FromString(frozen.read_bytes())
    graph = tensorflow.Graph()
    with graph.as_default():
        v1.import_graph_def(definition, name="")

    def run(feeds: Feeds, names: Sequence[str]) -> list[Any]:
        with v1.Session(graph=graph) as session:
            fed = {f"{name}:0": array for name, array in feeds.items()}
            return [np.asarray(item) for item in session.run([tensors[name] for name in names], fed)]

    return f"tensorflow {tensorflow.__version__}", run


def _openvino(frozen: Path, tensors: Mapping[str, str]) -> tuple[str, Run]:
    import openvino

    core = openvino.Core()
    model = core.read_model(str(frozen))
    ends = {name for port in model.outputs for name in port.get_names()}
    inner = [tensor for tensor in tensors.values() if ends.isdisjoint((tensor, tensor.removesuffix(":0")))]
    if inner:
        model.add_outputs(inner)
    compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})

    def run(feeds: Feeds, names: Sequence[str]) -> list[Any]:
        results = compiled({f"{name}:0": array for name, array in feeds.items()})
        found = {name: array for port, array in results.items() for name in port.get_names()}
        return [
            np.array(found[tensors[name]] if tensors[name] in found else found[tensors[name].removesuffix(":0")])
            for name in names
        ]

    return f"openvino {openvino.__version__.partition('-')[0]}", run


_ENGINES: Final[Mapping[str, Callable[[Path, Mapping[str, str]], tuple[str, Run]]]] = {
    "tf": _tensorflow,
    "openvino": _openvino,
}
_MODULES: Final = {"tf": "tensorflow", "openvino": "openvino"}
