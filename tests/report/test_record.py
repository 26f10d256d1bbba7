import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np

from atcpy.report.record import dumps, to_json


class Color(Enum):
    RED = "red"


@dataclass
class Point:
    x: float
    tags: tuple[str, ...] = ("a",)


def test_records_become_objects() -> None:
    assert to_json({"p": Point(1.5), 3: Color.RED}) == {"p": {"x": 1.5, "tags": ["a"]}, "3": "red"}
    assert to_json([np.float32(0.5), np.int64(3), Path("a/b"), None, True]) == [0.5, 3, "a/b", None, True]


def test_what_json_has_no_word_for_is_null() -> None:
    assert dumps([float("nan"), float("inf"), np.float64("-inf")]) == "[null, null, null]"


def test_text_is_one_line_of_ascii_and_comes_back_whole() -> None:
    text = "a\x1b[2J\n\u202eé\ud800"
    line = dumps(text)
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line) == text
