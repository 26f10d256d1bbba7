"""docs/om.md is true: its code runs, its numbers are the code's."""

import re
from pathlib import Path

import pytest

from atcpy.om import container, writer
from atcpy.om.schema.ge_ir_pb2 import ModelDef
from tests.om import sample

PAGE = (Path(__file__).parents[2] / "docs" / "om.md").read_text(encoding="utf-8")


def test_its_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    writer.write(tmp_path / "m.om", sample.small())
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "docs/om.md", "exec"), {})
    assert capsys.readouterr().out.startswith("['x'] 4 8192\natcpy convert --oo_level=O2 ['Const'")


def test_its_table_gives_the_sizes() -> None:
    assert f"| 0 | {container.HEADER_BYTES} | header" in PAGE
    assert f"| {container.HEADER_BYTES} | {container.TABLE_BYTES} | table" in PAGE
    assert f"| {container.HEADER_BYTES + container.TABLE_BYTES} | | MODEL_INOUT_INFO" in PAGE


def test_it_names_every_attribute_of_ours() -> None:
    written: set[str] = set()
    for compiled in (sample.small(), sample.odd()):
        package = container.parse(writer.to_bytes(compiled))
        model = ModelDef.FromString(bytes(package.partition(container.Partition.MODEL_DEF)))
        written |= set(model.attr)
        written |= {name for graph in model.graph for op in graph.op for name in op.attr}
    assert {name for name in written if name.startswith("_atcpy")} - set(re.findall(r"`(\w+)`", PAGE)) == set()
