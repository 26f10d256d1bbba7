"""Packages run in an interpreter that has neither the compiler nor `onnx`."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import atcpy
from atcpy.errors import Unsupported
from atcpy.ir.specialization import Specialize
from atcpy.om import writer
from atcpy.ops.custom import forget_all
from atcpy.options import convert_options
from atcpy.runtime import InferenceSession
from atcpy.runtime.on_demand import FindCompiler
from atcpy.stages.pipeline import compile_model
from tests.models_in_text import model, package
from tests.sources import REPO

# All that a run may import besides the standard library: what the wheel of the runtime holds and depends on.
ALLOWED = {
    "atcpy": [
        "errors",
        "deadline",
        "sizes",
        "threads",
        "files",
        "config_files",
        "precision_options",
        "aipp",
        "options",
        "discovery",
        "ir",
        "formats",
        "kernels",
        "ops",
        "om",
        "runtime",
    ],
    "numpy": [],
    "ml_dtypes": [],
    "xxhash": [],
    "google": ["protobuf", "_upb"],
}

ENVIRONMENT = os.environ | {"PYTHONPATH": str(REPO)}

# Runs each package of a pickled dict {name: (package, custom operators, feeds)} and pickles what came out.
CHILD = """
import pickle, sys
allowed = eval(sys.argv[1])

class OnlyTheRuntime:
    def find_spec(self, name, path=None, target=None):
        root, _, rest = name.partition(".")
        inside = allowed.get(root)
        if root in sys.stdlib_module_names or inside == [] or inside and (not rest or rest.split(".")[0] in inside):
            return None
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, OnlyTheRuntime())
import atcpy

def run(package, custom_ops, feeds):
    try:
        return atcpy.InferenceSession(package, threads=1, custom_ops=custom_ops).run(None, feeds)
    except atcpy.errors.AtcError as error:
        return f"{error.code}: {error.what} | {error.hint}"

def call(name):
    try:
        return getattr(atcpy, name)("model", "output")
    except atcpy.errors.AtcError as error:
        return f"{error.code}: {error.what} | {error.hint}"

jobs, names = pickle.load(sys.stdin.buffer)
results = {name: run(*job) for name, job in jobs.items()} | {name: call(name) for name in names}
pickle.dump(results, sys.stdout.buffer)
"""

CUSTOM_OP = """
import atcpy

@atcpy.register_operator("Twice", domain="alone")
class Twice:
    @staticmethod
    def infer(ctx, x):
        return x

    @staticmethod
    def forward(ctx, x):
        return 2 * x
"""

X = np.arange(6, dtype=np.float32).reshape(2, 3)
TEXTS = np.array(["a", "b"], np.object_)
# Model, options, feeds.
MODELS: dict[str, tuple[str, dict[str, object], dict[str, Any]]] = {
    "fixed": (
        "m (float[1,4,6,6] x) => (float[1,8,4,4] y) <float[8,4,3,3] w> { c = Conv(x, w) y = Relu(c) }",
        {},
        {"x": np.linspace(-1, 1, 144, dtype=np.float32).reshape(1, 4, 6, 6)},
    ),
    "open dims": (
        "m (float[b,n] x) => (float[b,b] y) { t = Transpose(x) p = MatMul(x, t) y = Softmax(p) }",
        {},
        {"x": X},
    ),
    "gears": (
        "m (float[b,3] x) => (float[b,3] y) { y = Exp(x) }",
        {"input_shape": "x:-1,3", "dynamic_batch_size": "1,2"},
        {"x": X},
    ),
    "a size that data decide": ("m (float[b,n] x) => (int64[2,k] y) { y = NonZero(x) }", {}, {"x": X}),
    "quantised": (
        """m (float[2,8] x) => (float[2,4] y) <uint8[8,4] w> {
            s = Constant<value_float = 0.1>() z = Constant<value = uint8 {3}>()
            q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) e = DequantizeLinear(w, s, z)
            y = MatMul(d, e)
        }""",
        {},
        {"x": np.linspace(0, 2, 16, dtype=np.float32).reshape(2, 8)},
    ),
    "if": (
        """m (float[2,3] x, bool c) => (float[2,3] y) {
            y = If(c) <then_branch = t () => (float[2,3] a) { a = Exp(x) },
                       else_branch = e () => (float[2,3] b) { b = Neg(x) }>
        }""",
        {},
        {"x": X, "c": np.array(True)},
    ),
    "loop": (
        """m (float[2,3] x, int64 n) => (float[2,3] y) { yes = Constant<value = bool {1}>()
            y = Loop(n, yes, x) <body = b (int64 i, bool c, float[2,3] v) => (bool d, float[2,3] w) {
                d = Identity(c) w = Add(v, v)
            }>
        }""",
        {},
        {"x": X, "n": np.array(3)},
    ),
    "allreduce": (
        'm (float[2,3] x) => (float[2,3] y) { s = HcomAllReduce<reduction = "sum">(x) y = Relu(s) }',
        {},
        {"x": X},
    ),
    "text": ("m (string[2] x) => (string[2] y) { y = StringConcat(x, x) }", {}, {"x": TEXTS}),
    "sequence": (
        "m (float[2,3] x) => (float[4,3] y) { s = SequenceConstruct(x, x) y = ConcatFromSequence<axis = 0>(s) }",
        {},
        {"x": X},
    ),
    "empty optional": (
        """m (float[2,3] x) => (float[2,3] y, optional(float[2]) o) {
            y = Exp(x) o = Optional<type: type_proto = float[2]>()
        }""",
        {},
        {"x": X},
    ),
}
COMPILER_NAMES = ["backend", "check_operator", "convert", "freeze", "ge", "optimize"]


RESHAPED = "m (float[b,n] x, int64[k] s) => (float[p,q] y) { r = Exp(x) y = Reshape(r, s) }"
# Of those that cannot run so: what the refusal says.
REFUSED = {
    "text": "E10055: the host runs StringConcat by the reference implementation of ONNX, which is not installed",
    "sequence": "the host runs SequenceConstruct by the reference implementation",
    "empty optional": "E10055: a node has an attribute that is a type of ONNX, which is not installed",
}
Job = tuple[bytes, list[str], dict[str, Any]]


def run_alone(jobs: dict[str, Job]) -> dict[str, Any]:
    """What the packages, and the functions of the compiler, give where there is nothing but the runtime; of what is
    refused, its code and reason.
    """
    done = subprocess.run(
        [sys.executable, "-c", CHILD, repr(ALLOWED)],
        input=pickle.dumps((jobs, COMPILER_NAMES)),
        capture_output=True,
        cwd=REPO,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    results: dict[str, Any] = pickle.loads(done.stdout)
    return results


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Any, list[Any]]]]:
    """What each package gives in an interpreter with the runtime alone, and what it gives here; the refusals of names
    that the compiler has.
    """
    operator = tmp_path_factory.mktemp("ops") / "twice.py"
    operator.write_text(CUSTOM_OP, encoding="utf-8")
    jobs: dict[str, Job] = {
        name: (package(text, options), [], feeds) for name, (text, options, feeds) in MODELS.items()
    }
    with_default = model("m (float[2,3] x, float[3] b) => (float[2,3] y) { y = Add(x, b) }")
    with_default.graph.initializer.append(numpy_helper.from_array(X[1], "b"))
    jobs["a default that counts"] = (_converted(with_default), [], {"x": X})
    jobs["a default that is replaced"] = (_converted(with_default), [], {"x": X, "b": X[0]})
    custom = model("m (float[2,3] x) => (float[2,3] y) { t = alone.Twice(x) y = Neg(t) }")
    custom.opset_import.append(helper.make_opsetid("alone", 1))
    jobs["custom operator"] = (_converted(custom, custom_ops=str(operator)), [str(operator)], {"x": X})
    alone = run_alone(jobs)
    yield {
        name: (alone[name], atcpy.InferenceSession(package, threads=1, custom_ops=custom_ops).run(None, feeds))
        for name, (package, custom_ops, feeds) in jobs.items()
    } | {name: (alone[name], []) for name in COMPILER_NAMES}
    forget_all()


def _converted(source: onnx.ModelProto, **options: object) -> bytes:
    return writer.to_bytes(compile_model(source, convert_options(options))[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", [*MODELS, "a default that counts", "a default that is replaced", "custom operator"])
def test_packages_run_without_compiler_and_onnx(name: str, results: dict[str, tuple[Any, list[Any]]]) -> None:
    alone, expected = results[name]
    if name in REFUSED:
        assert REFUSED[name] in alone
    else:
        assert not isinstance(alone, str), alone
        for ours, theirs in zip(alone, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs, strict=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPILER_NAMES)
def test_what_the_compiler_has_is_refused_by_its_name(name: str, results: dict[str, tuple[Any, list[Any]]]) -> None:
    refusal, _ = results[name]
    assert refusal.startswith(
        f"E10055: atcpy.{name} needs the compiler, which is not installed: No module named 'atcpy."
    )
    assert refusal.endswith("| install atcpy in place of atcpy-runtime")


def modules_of_a_run(name: str, folder: Path) -> list[str]:
    """What an interpreter that has numpy imports in order to load a package and to run it once."""
    text, options, feeds = MODELS[name]
    (folder / "m.om").write_bytes(package(text, options))
    np.save(folder / "x.npy", feeds["x"])
    program = "import sys, numpy; x = numpy.load('x.npy'); before = {*sys.modules}; import atcpy; "
    program += "atcpy.InferenceSession('m.om').run(None, {'x': x}); print(*({*sys.modules} - before))"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, env=ENVIRONMENT)
    return done.stdout.split()


@pytest.mark.slow
def test_a_package_of_fixed_shapes_loads_few_modules(tmp_path: Path) -> None:
    """The records of the operators, the graph and its schema are for packages that need them, and so is what takes the
    most time of the standard library and of the dependencies.
    """
    loaded = modules_of_a_run("fixed", tmp_path)
    ours = [name for name in loaded if name.partition(".")[0] == "atcpy"]
    assert len(ours) <= 35, ours
    unneeded = {"onnx", "atcpy.ops", "atcpy.options", "atcpy.om.schema.ge_ir_pb2", "atcpy.ir.node"}
    unneeded |= {"ml_dtypes", "difflib", "hashlib", "json", "pathlib"}
    assert unneeded.isdisjoint(loaded)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["open dims", "a size that data decide"])
def test_a_package_whose_plans_serve_all_sizes_runs_without_its_graph(name: str, tmp_path: Path) -> None:
    unneeded = {"onnx", "atcpy.ops", "atcpy.options", "atcpy.om.schema.ge_ir_pb2", "atcpy.ir.node"}
    assert unneeded.isdisjoint(modules_of_a_run(name, tmp_path))


def _no_compiler(_: str) -> Specialize:
    raise ImportError("No module named 'atcpy.stages'")


@pytest.mark.parametrize("find", [None, _no_compiler])
def test_a_missing_compiler_is_named_with_the_sizes_that_were_met(
    find: FindCompiler | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = atcpy.InferenceSession(package(RESHAPED, {"input_shape": "x:2~8,3;s:1~4"}), threads=1)
    monkeypatch.setattr(InferenceSession, "compiler", find)
    alone = InferenceSession(package(RESHAPED, {"input_shape": "x:2~8,3;s:1~4"}), threads=1)
    feeds = {"x": X, "s": np.array([3, 2])}
    with pytest.raises(Unsupported) as refused:
        alone.run(None, feeds)
    assert refused.value.code == "E10055"
    assert "no plan of the package serves x [2,3], s [2]" in refused.value.what
    assert "2 to 8" in refused.value.hint
    assert session.run(None, feeds)[0].shape == (3, 2)
    with pytest.raises(Unsupported):  # the session stays usable, and refuses again
        alone.run(None, feeds)
