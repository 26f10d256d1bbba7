"""docs/opsets.md and the opset adapters against the schema history in `onnx`."""

import itertools
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import onnx

from atcpy.parsers.onnx.opsets.changes import CHANGES

PAGE = Path(__file__).parents[3] / "docs" / "opsets.md"
OLDEST = 7  # the oldest opset that must be covered; below it only changes named in an adapter are


def form(schema: onnx.defs.OpSchema) -> Any:
    """The signature of an op version: attributes with defaults, inputs and outputs with their options."""
    attrs = {
        name: (str(attr.type), attr.required, onnx.helper.get_attribute_value(attr.default_value))
        if attr.default_value.type
        else (str(attr.type), attr.required)
        for name, attr in schema.attributes.items()
    }
    return attrs, [str(param.option) for param in schema.inputs], [str(param.option) for param in schema.outputs]


def changes_of_form() -> set[tuple[str, int]]:
    history: dict[str, dict[int, onnx.defs.OpSchema]] = defaultdict(dict)
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            history[schema.name][schema.since_version] = schema
    found = set()
    for name, versions in history.items():
        numbers = sorted(versions)
        for before, after in itertools.pairwise(numbers):
            if after >= OLDEST and form(versions[before]) != form(versions[after]):
                found.add((name, after))
    return found


def rows_without_step() -> set[tuple[str, int]]:
    return {(op, int(version)) for op, version in re.findall(r"^\| (\w+) \| (\d+) \| ", PAGE.read_text(), re.MULTILINE)}


def steps() -> set[tuple[str, int]]:
    return {(op, change.version) for change in CHANGES if change.has_step_up for op in change.ops.split()}


def test_every_schema_change_has_an_adapter_or_a_reason() -> None:
    assert changes_of_form() - steps() - rows_without_step() == set()


def test_no_reason_is_stale() -> None:
    assert rows_without_step() - changes_of_form() == set()
    assert rows_without_step() & steps() == set()


def test_every_adapter_is_documented() -> None:
    page = PAGE.read_text()
    named = {int(version) for version in re.findall(r"^\| (\d+) \| ", page, re.MULTILINE)}
    assert named == {version for _, version in steps()}
