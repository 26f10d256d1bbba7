"""JitConfig and the context: what they change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import atcpy
from atcpy.errors import UsageError
from atcpy.jit import execution
from atcpy.options import OoLevel

pytest.importorskip("ndonnx")
X = np.random.default_rng(7).standard_normal((3, 4), np.float32)


def chain(x: Any) -> Any:
    n = x.__array_namespace__()
    return n.exp(x * 2.0 + 1.0) / n.sum(n.exp(x), axis=1, keepdims=True)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The options and the task counts of what is compiled meanwhile."""
    found: list[Any] = []
    compile_model = execution.compile_model

    def noted(model: Any, options: Any) -> Any:
        result = compile_model(model, options)
        found.append((options.optimize.level, len(result[0].tasks)))
        return result

    monkeypatch.setattr(execution, "compile_model", noted)
    return found


@pytest.mark.parametrize("level", ["O0", "O1", "O2"])
@pytest.mark.parametrize("mode", ["auto", "sink", "op"])
def test_each_level_and_mode_computes_the_same(level: Any, mode: Any) -> None:
    config = atcpy.JitConfig(jit_level=level, exec_mode=mode)
    found, expected = atcpy.jit(chain, jit_config=config)(X), chain(X)
    np.testing.assert_allclose(found, expected, rtol=3e-6)


def test_op_mode_runs_nodes_with_bodies() -> None:
    """ndonnx asks with an If whether an array is empty before it takes the largest element."""
    largest = atcpy.jit(lambda x: x.__array_namespace__().max(x, axis=0), jit_config=atcpy.JitConfig(exec_mode="op"))
    assert "If" in [node.op_type for node in largest.to_model_proto(X).graph.node]
    np.testing.assert_array_equal(largest(X), X.max(axis=0))


def test_levels_are_those_of_the_compiler(compiled: list[Any]) -> None:
    for level in ("O0", "O1", "O2"):
        atcpy.jit(chain, jit_config=atcpy.JitConfig(jit_level=level))(X)
    levels, tasks = zip(*compiled, strict=True)
    assert levels == (OoLevel.O0, OoLevel.O1, OoLevel.O2)
    assert tasks[2] < tasks[1] <= tasks[0]


def test_op_mode_compiles_each_node_once(compiled: list[Any]) -> None:
    by_op = atcpy.jit(lambda x: x * x + x, jit_config=atcpy.JitConfig(exec_mode="op"), input_shape={"x": ["n", 4]})
    for _ in range(2):
        np.testing.assert_allclose(by_op(X), X * X + X, rtol=1e-6)
    assert len(compiled) == 3  # Mul, Add and the Identity of the output
    np.testing.assert_allclose(by_op(X[:2]), X[:2] * X[:2] + X[:2], rtol=1e-6)
    assert by_op.signatures == 1


def test_options_of_convert_reach_the_compiler(compiled: list[Any]) -> None:
    for switch in (True, False):
        atcpy.jit(chain, jit_config=atcpy.JitConfig(options={"enable_graph_kernel": switch}))(X)
    (_, fused), (_, unfused) = compiled
    assert fused < unfused


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"jit_level": "O4"}, "E10001"),
        ({"exec_mode": "sunk"}, "E10001"),
        ({"jit_syntax_level": "lax"}, "E10001"),
        ({"options": {"oo_level": "O1"}}, "E10047"),
        ({"options": {"input_shape": "x:1"}}, "E10047"),
        ({"options": {"enable_graf_kernel": True}}, "E10001"),
    ],
)
def test_wrong_configurations_are_refused(arguments: Any, code: str) -> None:
    with pytest.raises(UsageError) as caught:
        atcpy.JitConfig(**arguments)
    assert caught.value.code == code


def test_the_context_holds_for_functions_without_a_configuration(caplog: pytest.LogCaptureFixture) -> None:
    def branch(x: Any) -> Any:
        return x if x.sum() > 0 else -x

    free, strict = atcpy.jit(branch), atcpy.jit(branch, jit_config=atcpy.JitConfig(jit_syntax_level="STRICT"))
    atcpy.set_context(jit_config=atcpy.JitConfig(jit_syntax_level="LAX"))
    np.testing.assert_array_equal(free(X), branch(X))
    with pytest.raises(atcpy.errors.Unsupported):
        strict(X)
    atcpy.set_context(jit_config=atcpy.JitConfig(jit_syntax_level="STRICT"))
    with pytest.raises(atcpy.errors.Unsupported):
        free(X)


def test_a_wrong_mode_is_refused() -> None:
    with pytest.raises(UsageError, match="mode"):
        atcpy.set_context(mode=2)  # type: ignore[arg-type]
