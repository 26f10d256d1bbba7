"""The ops beyond the standard that ONNX Runtime's optimizer and quantizer write: how their nodes look.

`@microsoft("FusedMatMul", "A B", "alpha:f transA:i")` registers the function that writes a node of
the op in ops of the standard. The signature names the inputs (`?` may be left out, `+` one or more)
and the attributes with their types: i, f, s for one, I, F, S for a list, `!` for those that must be
given. Outputs are counted.
"""

from collections.abc import Callable

from onnx import AttributeProto

from atcpy.ops import all_opdefs
from atcpy.ops.contrib.record import REFUSED as REFUSED
from atcpy.ops.contrib.record import refuses as refuses
from atcpy.ops.core.signature import UNBOUNDED, Signature
from atcpy.parsers.onnx.microsoft.expansion import Expansion
from atcpy.parsers.onnx.op_rule import OpRule
from atcpy.parsers.onnx.upgrade import Upgrade, normalizes, op_key

DOMAIN = "com.microsoft"
# Ops of ONNX Runtime that its models have in the standard's own domain.
STANDARD = ""
_TYPES = {
    "i": AttributeProto.INT, "f": AttributeProto.FLOAT, "s": AttributeProto.STRING,
    "I": AttributeProto.INTS, "F": AttributeProto.FLOATS, "S": AttributeProto.STRINGS,
}  # fmt: skip
MANY = UNBOUNDED
RULES: dict[tuple[str, str], OpRule] = {}
# The ops of each module.
OF_FAMILY: dict[str, list[tuple[str, str]]] = {}
# Those that change an input where it lies: their nodes do something even if nobody reads them.
IN_PLACE: set[tuple[str, str]] = set()
Expand = Callable[[Expansion], None]


def microsoft(
    op_types: str,
    inputs: str,
    attrs: str = "",
    *,
    outputs: tuple[int, int] = (1, 1),
    domain: str = DOMAIN,
    in_place: bool = False,
) -> Callable[[Expand], Expand]:
    """Registers a function that replaces a node of these ops (space-separated), and how such a node must look."""
    signature = Signature.of(inputs, attrs, outputs)
    names, rule = signature.inputs, _rule_of(signature)

    def register(expand: Expand) -> Expand:
        def run(up: Upgrade) -> None:
            expand(Expansion(up, names))

        for op_type in op_types.split():
            RULES[(domain, op_type)] = rule
            if in_place:
                IN_PLACE.add((domain, op_type))
            OF_FAMILY.setdefault(expand.__module__, []).append((domain, op_type))
            normalizes(op_key(op_type, domain))(run)
        return expand

    return register


def _rule_of(signature: Signature) -> OpRule:
    attrs = {name: _TYPES[letter] for name, letter in signature.attrs.items()}
    return OpRule(attrs, signature.required_attrs, signature.input_count, signature.output_count)


def extra_rule(op_type: str, domain: str) -> OpRule | None:
    """How a node of an op that only ONNX Runtime knows must look."""
    return RULES.get((domain, op_type))


RULES.update(
    ((opdef.domain, opdef.name), _rule_of(opdef.signature)) for opdef in all_opdefs() if opdef.signature is not None
)
