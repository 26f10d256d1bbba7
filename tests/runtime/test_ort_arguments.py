"""What a session has of onnxruntime's: options, providers, what it says of the model."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnxruntime
import pytest

import atcpy
from atcpy.errors import UsageError
from atcpy.runtime import InferenceSession
from tests.models_in_text import package

PACKAGE = package("m (float[2,n] x) => (float[2,n] y) { y = Relu(x) }")
CPU = "CPUExecutionProvider"


def options(threads: Any) -> Any:
    return SimpleNamespace(intra_op_num_threads=threads)


def test_the_number_of_threads_is_that_of_the_options() -> None:
    theirs = onnxruntime.SessionOptions()
    theirs.intra_op_num_threads = 3
    assert InferenceSession(PACKAGE, theirs).threads == 3
    assert InferenceSession(PACKAGE, sess_options=options(3), threads=3).threads == 3
    assert InferenceSession(PACKAGE, sess_options=options(0), threads=2).threads == 2
    assert InferenceSession(PACKAGE, onnxruntime.SessionOptions()).threads == InferenceSession(PACKAGE).threads


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"sess_options": options(3), "threads": 2}, "E10047"),
        ({"sess_options": options("3")}, "E10014"),
        ({"sess_options": options(True)}, "E10014"),
        ({"sess_options": options(1025)}, "E10013"),
        ({"providers": CPU}, "E10003"),
        ({"providers": 7}, "E10003"),
        ({"providers": [7]}, "E10003"),
        ({"providers": [()]}, "E10003"),
    ],
)
def test_refusals(arguments: dict[str, Any], code: str) -> None:
    with pytest.raises(UsageError) as refused:
        InferenceSession(PACKAGE, **arguments)
    assert refused.value.code == code


@pytest.mark.parametrize("providers", [["CUDAExecutionProvider", CPU], [("Nothing", {"a": 1})]])
def test_other_providers_are_ignored_with_a_warning(providers: list[Any]) -> None:
    with pytest.warns(UserWarning, match="is not in available provider names") as seen:
        session = InferenceSession(PACKAGE, providers=providers)
    assert seen[0].filename != atcpy.__file__
    assert len(seen) == 1
    assert session.get_providers() == [CPU]


@pytest.mark.parametrize("providers", [None, [], [CPU], (CPU,), [(CPU, {})]])
def test_the_provider_of_the_cpu_is_no_reason_to_warn(providers: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert InferenceSession(PACKAGE, None, providers).get_providers() == [CPU]


def test_a_session_is_a_context_and_shows_what_it_is() -> None:
    with InferenceSession(PACKAGE, threads=1) as session:
        [y] = session.run(None, {"x": np.float32([[1, -1], [-2, 2]])})
    np.testing.assert_array_equal(y, np.float32([[1, 0], [0, 2]]))
    assert repr(session) == "<InferenceSession package: x [2, n] float32 → y [2, n] float32>"


def test_the_metadata_are_those_of_the_package() -> None:
    meta = InferenceSession(PACKAGE).get_modelmeta()
    theirs = {"producer_name", "graph_name", "domain", "description", "graph_description", "version"}
    assert {name for name in theirs if hasattr(meta, name)} == theirs
    assert meta.graph_name == "m"
    assert meta.custom_metadata_map["soc"] == "Ascend910"
