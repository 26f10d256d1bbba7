"""Records of com.microsoft's ops: a signature, and the ops of the standard that compute the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from atcpy.ir import Builder, Node, Value
from atcpy.ops.core.opdef import OpDef, register_operator
from atcpy.ops.core.signature import Signature

DOMAIN = "com.microsoft"
Expand = Callable[[Node, Builder], Sequence[Value]]


def contrib(
    op_types: str, inputs: str, attrs: str = "", *, outputs: tuple[int, int] = (1, 1)
) -> Callable[[Expand], Expand]:
    """Register a function that expands the nodes of these ops (space-separated): `Signature.of` reads `inputs` and
    `attrs`. It may return fewer values than a node has outputs, and refuses a node whose other outputs are read.
    """
    signature = Signature.of(inputs, attrs, outputs)

    def register(expand: Expand) -> Expand:
        def run(node: Node, b: Builder) -> Sequence[Value]:
            for index in signature.required_inputs:
                if node.input(index) is None:
                    raise b.invalid(f"{node.op_type}: input {signature.inputs[index]} is missing")
            return expand(node, b)

        for op_type in op_types.split():
            register_operator(OpDef(name=op_type, domain=DOMAIN, ge_type="", signature=signature, expand=run))
        return expand

    return register
