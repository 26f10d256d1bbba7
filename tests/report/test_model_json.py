"""Models as JSON, in the form in which ATC writes them."""

from __future__ import annotations

import json
from pathlib import Path

from atcpy.report.model_json import dump_json

DUMP = r"""
name: "m"
graph {
  name: "g"
  output: "a:0"
  op {
    name: "a"
    type: "Data"
    id: 9007199254740993
    attr { key: "b" value { s: "\"x\"\377" } }
    attr { key: "a" value { f: 0.5 } }
    attr { key: "c" value { list { f: 0.5 f: nan s: "y" val_type: VT_LIST_FLOAT } } }
    attr { key: "d" value { list { val_type: 99 } } }
    output_desc { dtype: DT_FLOAT size: 8 shape { dim: 2 } }
    workspace_bytes: 4
  }
}
"""


def test_numbers_texts_and_attributes(tmp_path: Path) -> None:
    (tmp_path / "d.txt").write_text(DUMP)
    text = dump_json(tmp_path / "d.txt")
    assert json.loads(text) == {
        "name": "m",
        "graph": [
            {
                "name": "g",
                "op": [
                    {
                        "name": "a",
                        "type": "Data",
                        "id": 9007199254740993,
                        "attr": [
                            {"key": "a", "value": {"f": "0.5"}},
                            {"key": "b", "value": {"s": r"\"x\"\377"}},
                            {
                                "key": "c",
                                "value": {"list": {"f": [0.5, "nan"], "s": ["y"], "val_type": "VT_LIST_FLOAT"}},
                            },
                            {"key": "d", "value": {"list": {"val_type": 99}}},
                        ],
                        "output_desc": [{"dtype": "DT_FLOAT", "shape": {"dim": [2]}}],
                    }
                ],
            }
        ],
    }
