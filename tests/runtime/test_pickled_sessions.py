"""A pickled session is opened again where it is unpickled."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from atcpy.errors import PackageCorrupt, Unsupported
from atcpy.runtime import InferenceSession
from tests.models_in_text import package
from tests.sources import REPO

PACKAGE = package("m (float[2,n] x) => (float[2,n] y) { y = Relu(x) }")
X = np.float32([[1, -1], [-2, 2]])

OPS = """
import atcpy

@atcpy.register_operator("Doubled", domain="com.tests")
class Doubled:
    @staticmethod
    def infer(ctx, x):
        return x

    @staticmethod
    def forward(ctx, x):
        return 2 * x
"""


def copied(session: InferenceSession) -> InferenceSession:
    again: InferenceSession = pickle.loads(pickle.dumps(session))
    return again


def test_the_copy_gives_the_same_and_has_the_same_arguments() -> None:
    session = InferenceSession(PACKAGE, threads=3, affinity=iter([0]), shape_cache=2, verify="header")
    again = copied(session)
    np.testing.assert_array_equal(again.run(None, {"x": X})[0], session.run(None, {"x": X})[0])
    assert again.threads == 3
    assert again._reopen.keywords == session._reopen.keywords
    assert again._reopen.keywords["affinity"] == (0,)


def test_a_path_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.om").write_bytes(PACKAGE)
    monkeypatch.chdir(tmp_path)
    written = pickle.dumps(InferenceSession("m.om"))
    monkeypatch.chdir("/")
    assert pickle.loads(written).run(None, {"x": X})[0][0, 0] == 1
    assert len(written) < 1000, "of a file it is the path alone"
    (tmp_path / "m.om").write_bytes(PACKAGE[:-1])
    with pytest.raises(PackageCorrupt):
        pickle.loads(written)


def test_another_process_opens_it(tmp_path: Path) -> None:
    (tmp_path / "m.om").write_bytes(PACKAGE)
    (tmp_path / "session").write_bytes(pickle.dumps(InferenceSession(tmp_path / "m.om", threads=1)))
    program = "import pickle; print(repr(pickle.load(open('session', 'rb'))))"
    environment = {**os.environ, "PYTHONPATH": str(REPO)}
    printed = subprocess.check_output([sys.executable, "-c", program], cwd=tmp_path, env=environment, text=True)
    assert printed == f"<InferenceSession {tmp_path / 'm.om'}: x [2, n] float32 → y [2, n] float32>\n"


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_session_of_several_ranks_is_not_pickled(ranks: int) -> None:
    session = InferenceSession(PACKAGE)
    session._world = SimpleNamespace(ranks=ranks)  # type: ignore[assignment]
    if ranks == 1:
        assert copied(session).threads == session.threads
        return
    with pytest.raises(Unsupported, match="several ranks cannot be pickled") as refused:
        pickle.dumps(session)
    assert refused.value.code == "E10055"


@pytest.mark.usefixtures("no_custom_ops")
def test_modules_of_custom_operators_are_their_files(tmp_path: Path) -> None:
    (tmp_path / "ops.py").write_text(OPS)
    session = InferenceSession(PACKAGE, custom_ops=str(tmp_path / "ops.py"))
    assert copied(session)._reopen.keywords["custom_ops"] == (str(tmp_path / "ops.py"),)
    session._reopen.keywords["custom_ops"] = type("Local", (), {"__module__": "__nowhere__"})
    with pytest.raises(Unsupported, match="Local has no file"):
        pickle.dumps(session)


def test_notebooks_show_ports_and_escape_names(monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = InferenceSession(PACKAGE)
    assert session._repr_html_() == (
        "<p>package</p><table><tr><td>input</td><td>x</td><td>[2, n] float32</td></tr>"
        "<tr><td>output</td><td>y</td><td>[2, n] float32</td></tr></table>"
    )
    session._inputs[0] = SimpleNamespace(name="<b>", shape=("<i>",), dtype=session._inputs[0].dtype)
    assert "&lt;b&gt;</td><td>[&lt;i&gt;] float32" in session._repr_html_()


def test_the_package_is_pickled_by_its_name() -> None:
    """Engines send functions of a notebook with the modules that they use."""
    import atcpy.verify

    for module in (atcpy, atcpy.verify):
        assert pickle.loads(pickle.dumps(module)) is module
