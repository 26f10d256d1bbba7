"""Constructors of operators follow from the records and the standard, and refuse what the op does not have."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import AttributeProto

from atcpy import ge
from atcpy.errors import AtcError, ModelInvalid, Unsupported
from atcpy.ge import op
from atcpy.ge.attribute import read_attribute
from atcpy.ge.constructors import UnknownOperator
from atcpy.ge.model import model_of
from atcpy.ge.operator import UnknownMember
from atcpy.ge.prototype import operator_types
from atcpy.ops import all_opdefs
from atcpy.parsers.onnx.rules import NEWEST
from tests.conformance.cases import SLOW_MODULES, load_cases

VECTOR = ge.TensorDesc([4])


def data(name: str) -> Any:
    return op.Data(name).update_output_desc_y(VECTOR)


def test_every_op_of_the_standard_and_every_record_that_says_how_nodes_look_has_a_constructor() -> None:
    types = set(operator_types().values())
    standard = {(s.domain, s.name) for s in onnx.defs.get_all_schemas() if s.domain in NEWEST and not s.deprecated}
    assert standard <= types
    assert {(opdef.domain, opdef.name) for opdef in all_opdefs() if opdef.signature is not None} <= types
    assert len(types) > 350


def test_each_constructor_has_methods_for_what_its_op_has() -> None:
    """Compared with the schemas of the `onnx` package, which records of other domains do not have."""
    compared = 0
    for name in ge.OperatorFactory.GetOpsTypeList():
        made = ge.OperatorFactory.CreateOperator("name", name)
        assert made.GetName() == "name"
        domain, op_type = made.prototype.domain, made.GetOpType()
        if name in ("Data", "Const") or not onnx.defs.has(op_type, NEWEST.get(domain, 1), domain):
            continue
        schema = onnx.defs.get_schema(op_type, NEWEST[domain], domain)
        variadic = onnx.defs.OpSchema.FormalParameterOption.Variadic
        for formal in schema.inputs:
            prefix = "set_dynamic_input_" if formal.option is variadic else "set_input_"
            assert callable(getattr(made, prefix + formal.name.lower()))
        for attr, entry in schema.attributes.items():
            if entry.type is onnx.defs.OpSchema.AttrType.GRAPH:
                assert callable(getattr(made, f"set_subgraph_builder_{attr}"))
            else:
                default = entry.default_value
                assert getattr(made, f"get_attr_{attr}")() == (read_attribute(default) if default.type else None)
        compared += 1
    assert compared > 220


@pytest.mark.slow
def test_every_node_of_the_standards_own_cases_can_be_written() -> None:
    """Each node is built again through the constructors; what comes out is the node."""
    written = set()
    for case in load_cases(without=SLOW_MODULES):
        if case.kind != "node":
            continue
        model = case.model()
        opsets = {entry.domain: entry.version for entry in model.opset_import}
        for node in model.graph.node:
            kinds = {attr.type for attr in node.attribute}
            if is_newest(node, opsets.get(node.domain, 0)) and AttributeProto.GRAPH not in kinds:
                assert rebuilt(node) == canonical(node), case.name
                written.add((node.domain, node.op_type))
    assert len(written) > 150


def is_newest(node: onnx.NodeProto, opset: int) -> bool:
    """Whether the op has not changed since."""
    newest = NEWEST.get(node.domain, 0)
    if not all(onnx.defs.has(node.op_type, version, node.domain) for version in (opset, newest)):
        return False
    versions = {onnx.defs.get_schema(node.op_type, v, node.domain).since_version for v in (opset, newest)}
    return len(versions) == 1


def rebuilt(node: onnx.NodeProto) -> onnx.NodeProto:
    full = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    made = ge.OperatorFactory.CreateOperator("node", full)
    sources = {name: data(name) for name in dict.fromkeys(node.input) if name}
    parameters, rest = made.prototype.inputs, list(node.input)
    for parameter in parameters:
        if parameter.is_dynamic:
            made.CreateDynamicInput(parameter.name, len(rest))
            for index, name in enumerate(rest):
                made.SetDynamicInput(parameter.name, index, sources[name])
        elif rest and (name := rest.pop(0)):
            made.SetInput(parameter.name, sources[name])
    if made.prototype.outputs[-1].is_dynamic:
        made.CreateDynamicOutput(made.prototype.outputs[-1].name, len(node.output))
    for attr in node.attribute:
        made.SetAttr(attr.name, read_attribute(attr))
    outputs = [index for index, name in enumerate(node.output) if name] or [0]
    model = model_of(ge.Graph().SetInputs(sources.values()).SetOutputs([(made, outputs)]))
    assert isinstance(model, onnx.ModelProto)
    return canonical(model.graph.node[0])


def canonical(node: onnx.NodeProto) -> onnx.NodeProto:
    """The node with its attributes in order, and without the names of outputs, of which each node has its own."""
    result = onnx.NodeProto(op_type=node.op_type, domain=node.domain)
    result.input.extend(node.input)
    while result.input and not result.input[-1]:
        result.input.pop()
    for attr in sorted(node.attribute, key=lambda attr: attr.name):
        added = result.attribute.add()
        added.CopyFrom(attr)
        added.ClearField("doc_string")
        if attr.type == AttributeProto.TENSOR:  # of which there are several spellings
            added.t.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(attr.t)))
    return result


@pytest.mark.parametrize(
    ("name", "op_type"),
    [
        ("Conv", "Conv"),
        ("Conv2D", "Conv"),
        ("DepthwiseConv2D", "Conv"),
        ("BatchMatMul", "MatMul"),
        ("MatMul", "MatMul"),
        ("MaxPoolV3", "MaxPool"),
        ("SoftmaxV2", "Softmax"),
        ("RealDiv", "Div"),
        ("Add", "Add"),  # GE's name of Sum as well
        ("FastGelu", "FastGelu"),
        ("HcomAllReduce", "HcomAllReduce"),
    ],
)
def test_an_op_has_the_name_of_onnx_and_those_of_ge(name: str, op_type: str) -> None:
    assert getattr(op, name).GetOpType() == op_type
    assert name in dir(op)


def test_an_op_of_another_domain_is_named_with_it() -> None:
    ours = ge.OperatorFactory.CreateOperator("g", "com.microsoft::Gelu")
    assert (ours.prototype.domain, op.Gelu("g").prototype.domain) == ("com.microsoft", "")


def test_names_of_inputs_and_attributes_are_those_of_onnx_or_of_ge() -> None:
    x, w, b = data("x"), data("w"), data("b")
    by_onnx = op.Conv("c").set_input_x(x).set_input_w(w).set_input_b(b).set_attr_group(2)
    by_ge = op.Conv2D("c").set_input_x(x).set_input_filter(w).set_input_bias(b).set_attr_groups(2)
    assert list(by_onnx.inputs()) == list(by_ge.inputs())
    assert by_onnx.get_attr_groups() == by_ge.get_attr_group() == 2
    added = op.Add("s").set_input_x1(x).set_input_x2(w)
    assert [link.source for link in added.inputs()] == [x, w]


def test_an_output_is_named_or_numbered() -> None:
    topk = op.TopK("t")
    assert topk.output("indices").index == topk.output(1).index == 1
    assert topk.output("y").index == topk.output("values").index == topk.output().index == 0


def test_attributes_have_the_defaults_of_the_standard() -> None:
    assert op.Softmax("s").get_attr_axis() == -1
    assert op.Gemm("g").get_attr_alpha() == 1.0
    assert op.Conv("c").get_attr_auto_pad() == "NOTSET"
    assert op.LSTM("l").get_attr_hidden_size() is None
    assert op.Conv("c").set_attr_pads((1, np.int64(1))).get_attr_pads() == [1, 1]


def test_an_element_type_is_a_number_of_onnx_or_a_constant_of_ge() -> None:
    assert op.Cast("c").set_attr_to(ge.DT_INT32).get_attr_to() == onnx.TensorProto.INT32


def test_values_that_are_set_come_back() -> None:
    assert op.Const("k").set_attr_value([[1.5]]).GetAttr("value").tolist() == [[1.5]]
    assert op.Constant("k").set_attr_value_strings(["a", "b"]).get_attr_value_strings() == ["a", "b"]


@pytest.mark.parametrize(
    ("action", "code", "text"),
    [
        (lambda: op.Conv("c").set_attr_stride([1, 1]), "E13014", 'no method "set_attr_stride"'),
        (lambda: op.Conv("c").SetAttr("stride", [1, 1]), "E13014", 'did you mean "strides"'),
        (lambda: op.Relu("r").set_input_w(data("x")), "E13014", 'no method "set_input_w"'),
        (lambda: op.Relu("r").SetInput("w", data("x")), "E13014", 'Relu has no input "w"'),
        (lambda: op.Relu("r").set_input_x(np.zeros(4)), "E13014", "is an operator, not ndarray"),
        (lambda: op.Relu("r").set_input_x(data("x"), 1), "E13014", 'there is no output "1"'),
        (lambda: op.Relu("r").set_input_x(data("x"), "z"), "E13014", 'there is no output "z"'),
        (lambda: op.Softmax("s").set_attr_axis("1"), "E13014", "is of type INT, not '1'"),
        (lambda: op.Softmax("s").set_attr_axis(1.5), "E13014", "is of type INT"),
        (lambda: op.Softmax("s").set_attr_axis(2**63), "E13014", "is of type INT"),
        (lambda: op.Conv("c").set_attr_pads("11"), "E13014", "is of type INTS"),
        (lambda: op.Conv("c").set_attr_pads(1), "E13014", "is of type INTS"),
        (lambda: op.Gemm("g").set_attr_alpha("1"), "E13014", "is of type FLOAT"),
        (lambda: op.Conv("c").set_attr_auto_pad(b"VALID"), "E13014", "is of type STRING"),
        (lambda: op.Const("k").set_attr_value(object()), "E13014", "is of type TENSOR"),
        (lambda: op.Optional("o").SetAttr("type", 1), "E13014", "is of type TYPE_PROTO"),
        (lambda: op.If("i").SetAttr("then_branch", ge.Graph()), "E13014", "set_subgraph_builder_then_branch"),
        (lambda: op.If("i").set_subgraph_builder_then_branch(ge.Graph()), "E13014", "no function"),
        (lambda: op.Relu("r").SetSubgraphBuilder("x", ge.Graph), "E13014", 'no attribute "x"'),
        (lambda: op.Concat("c").SetInput("inputs", data("x")), "E13014", "create_dynamic_input_inputs"),
        (lambda: op.Relu("r").CreateDynamicInput("x", 2), "E13014", "is one value"),
        (lambda: op.Concat("c").set_dynamic_input_inputs(0, data("x")), "E13014", "create_dynamic_input_inputs(1)"),
        (lambda: op.Concat("c").create_dynamic_input_inputs(-1), "E13014", "is no number of values"),
        (lambda: op.Concat("c").create_dynamic_input_inputs(1 << 17), "E13014", "is no number of values"),
        (lambda: op.Relu("r").CreateDynamicOutput("y", 2), "E13014", "stands for several values"),
        (lambda: op.Relu(""), "E13014", "needs a name"),
        (lambda: data("x").update_output_desc_y([4]), "E13014", "is a TensorDesc"),
        (lambda: ge.TensorDesc([-2]), "E10011", "a size is -2"),
        (lambda: ge.TensorDesc([1.0]), "E10003", "is no size"),
        (lambda: ge.TensorDesc([1], ge.FORMAT_NHWC), "E10001", "no format of an input"),
        (lambda: ge.TensorDesc([1], dtype=np.float32), "E10003", "no element type"),
        (lambda: ge.OperatorFactory.CreateOperator("x", "Relx"), "E19010", 'did you mean "Relu"'),
        (lambda: op.Conv2d, "E19010", 'did you mean "Conv2D"'),
    ],
)
def test_what_an_op_does_not_have_is_refused(action: Any, code: str, text: str) -> None:
    with pytest.raises(AtcError) as caught:
        action()
    assert caught.value.code == code
    assert text in str(caught.value)


def test_unknown_names_are_attribute_errors_for_python() -> None:
    assert not hasattr(op, "Conv2d")
    assert not hasattr(op.Relu("r"), "set_attr_alpha")
    assert issubclass(UnknownMember, ModelInvalid)
    assert issubclass(UnknownOperator, Unsupported)
    with pytest.raises(UnknownMember) as caught:
        op.Relu("r").set_attr_alpha(1)
    assert pickle.loads(pickle.dumps(caught.value)).code == "E13014"
    assert copy.copy(op.Relu("r")).GetName() == "r"
