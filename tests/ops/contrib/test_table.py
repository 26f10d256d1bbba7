"""The table of ONNX Runtime's ops against ONNX Runtime's own schema registry."""

import re
from pathlib import Path

import onnx
import onnxruntime.capi.onnxruntime_pybind11_state as ort
import pytest

from atcpy.errors import ModelInvalid, Unsupported
from atcpy.ops.collectives import COLLECTIVES as COLLECTIVE_OPS
from atcpy.ops.contrib.collectives import DOMAINS
from atcpy.ops.contrib.record import REFUSED
from atcpy.parsers.onnx.contrib_rules import RULES
from atcpy.parsers.onnx.rules import find_rule
from tests.ops.contrib.cases import expanded, floats, make_model
from tests.parsers.onnx.canonical import ops_of, parsed

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "contrib-ops.md"
SCHEMAS = {(schema.domain, schema.name): schema for schema in ort.get_all_operator_schema()}

# ONNX Runtime's CPU build has schemas neither of multi-device collectives nor of GE's ops.
COLLECTIVES = {("com.microsoft", "AllReduce"), ("com.microsoft", "AllGather")} | {
    (domain, op) for domain in ("", *DOMAINS) for op in COLLECTIVE_OPS
}

# ONNX Runtime's inference build has no schemas of training ops.
TRAINING = {
    op
    for module in (ROOT / "atcpy/ops/contrib/training").glob("*.py")
    for ops in re.findall(r'@contrib\(\s*"([^"]+)"', module.read_text())
    for op in ops.split()
} - {"IsAllFinite"}


def test_the_registry_has_all_but_collectives_and_training() -> None:
    assert {op for _, op in RULES.keys() - SCHEMAS.keys() - COLLECTIVES} == TRAINING


@pytest.mark.parametrize("key", sorted(RULES.keys() & SCHEMAS.keys()), ids=":".join)
def test_a_rule_agrees_with_the_schema(key: tuple[str, str]) -> None:
    rule, schema = RULES[key], SCHEMAS[key]
    attrs = {name: onnx.AttributeProto.AttributeType.Value(str(attr.type).split(".")[-1])
             for name, attr in schema.attributes.items()}  # fmt: skip
    assert dict(rule.attrs) == attrs
    assert set(rule.required) == {name for name, attr in schema.attributes.items() if attr.required}
    assert rule.inputs == (schema.min_input, schema.max_input)
    assert rule.outputs == (schema.min_output, schema.max_output)


def test_records_of_ops_created_by_passes_do_not_shadow_the_table() -> None:
    assert [key for key in RULES if find_rule(key[1], key[0], 1) != RULES[key]] == []


def test_every_op_is_documented() -> None:
    page = PAGE.read_text()
    names = set(re.findall(r"\b[A-Z]\w+", page))
    assert {op for _, op in RULES} - names == set()
    assert REFUSED.keys() - names == set()


@pytest.mark.parametrize(
    ("domain", "op", "hint"),
    [
        ("com.microsoft", "BeamSearch", "without ONNX Runtime's optimization"),
        ("com.microsoft.nchwc", "Conv", 'level "extended"'),
        ("ai.onnx.contrib", "BertTokenizer", "do that step before the model"),
    ],
)
def test_unsupported_ops_are_refused_with_a_hint(domain: str, op: str, hint: str) -> None:
    with pytest.raises(Unsupported) as raised:
        parsed(make_model(op, [floats(2, 3)], domain=domain))
    assert (raised.value.code, raised.value.what) == ("E19010", f"{domain}::{op} is not a known operator")
    assert hint in raised.value.hint


def test_a_missing_input_is_reported() -> None:
    with pytest.raises(ModelInvalid, match="input skip is missing"):
        parsed(make_model("SkipLayerNormalization", [floats(2, 3), None, floats(3)]))


def test_expanded_nodes_keep_the_name_and_source_of_the_original() -> None:
    graph = expanded(make_model("FastGelu", [floats(2, 3), floats(3)]))
    assert [value.name for value in graph.outputs] == ["o0"]
    assert {node.sources for node in graph.nodes if node.op_type in ("Add", "Gelu")} == {("node",)}


def test_the_domain_needs_no_import() -> None:
    model = make_model("FastGelu", [floats(2, 3)])
    del model.opset_import[1:]
    assert ops_of(expanded(model)) == ["Gelu"]
