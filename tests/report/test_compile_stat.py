"""fusion_result.json, as ATC writes it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import atcpy
from atcpy.errors import AtcError
from atcpy.report import compile_stat
from tests.models_in_text import model

TEXT = "m (float[1,4,4,4] x) => (float[1,4,4,4] y) <float[4,4,1,1] w> { a = Identity(x) c = Conv(a, w) y = Relu(c) }"
PLAIN = "m (float[2] x) => (float[2] y) { y = Abs(x) }"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory of its own, in a process that wrote nothing yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASCEND_WORK_PATH", raising=False)
    monkeypatch.setattr(compile_stat, "_written", {})
    yield tmp_path


def test_counts_are_texts_and_keys_are_sorted(folder: Path) -> None:
    atcpy.convert(model(TEXT), "m", export_compile_stat=1)
    text = (folder / "fusion_result.json").read_text()
    content = json.loads(text)
    assert list(content) == ["session_and_graph_id_0_0"]
    fusions = content["session_and_graph_id_0_0"]["graph_fusion"]
    assert fusions["ConvReluFusionPass"] == {"effect_times": "1", "match_times": "1"}
    assert list(fusions) == sorted(fusions)
    assert text == json.dumps(content, indent=4, sort_keys=True) + "\n"


def test_passes_that_are_off_do_not_appear(folder: Path) -> None:
    atcpy.convert(model(TEXT), "m", export_compile_stat="2", optimization_switch="ConvReluFusionPass:off")
    content = json.loads((folder / "fusion_result.json").read_text())
    assert "ConvReluFusionPass" not in content["session_and_graph_id_0_0"]["graph_fusion"]


def test_a_graph_without_fusion_has_no_entry_and_later_graphs_are_added(folder: Path) -> None:
    (folder / "fusion_result.json").write_text("of an earlier process")
    atcpy.convert(model(PLAIN), "m", export_compile_stat=1)
    assert json.loads((folder / "fusion_result.json").read_text()) == {}
    for _ in range(2):
        atcpy.convert(model(TEXT), "m", export_compile_stat=1)
    content = json.loads((folder / "fusion_result.json").read_text())
    assert list(content) == ["session_and_graph_id_0_0", "session_and_graph_id_0_1"]


def test_a_work_path_has_a_folder_for_each_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASCEND_WORK_PATH", str(folder / "work"))
    atcpy.convert(model(TEXT), "m", export_compile_stat=1)
    assert (folder / "work" / "FE" / str(os.getpid()) / "fusion_result.json").exists()
    assert not (folder / "fusion_result.json").exists()


def test_nothing_is_written_unless_asked(folder: Path) -> None:
    atcpy.convert(model(TEXT), "m")
    assert not (folder / "fusion_result.json").exists()
    with pytest.raises(AtcError):
        atcpy.convert(model(TEXT), "m", export_compile_stat=3)


def test_dumps_around_a_pass_are_numbered_in_the_order_of_the_runs(folder: Path) -> None:
    passes = ["IdentityPass", "ConvReluFusionPass"]
    atcpy.convert(model(TEXT), "m", dump_graph="d", dump_stages="compile", dump_passes=passes)
    names = sorted(path.name for path in (folder / "d").iterdir())
    assert next(name for name in names if "before" in name) == "01_before_IdentityPass.txt"
    assert names[0] == "01_after_IdentityPass.txt"
    assert "Identity(" in (folder / "d" / "01_before_IdentityPass.txt").read_text()
    assert "Identity(" not in (folder / "d" / "01_after_IdentityPass.txt").read_text()
    assert any(name.endswith("_after_ConvReluFusionPass.txt") for name in names)
    assert "04_Build.txt" in names


@pytest.mark.parametrize(
    ("options", "code"),
    [({"dump_passes": "IdentityPass"}, "E10057"), ({"dump_graph": "d", "dump_passes": "IdentityPas"}, "E10016")],
)
def test_passes_to_dump_are_checked(options: dict[str, object], code: str) -> None:
    with pytest.raises(AtcError) as raised:
        atcpy.convert(model(TEXT), "m", **options)
    assert raised.value.code == code
