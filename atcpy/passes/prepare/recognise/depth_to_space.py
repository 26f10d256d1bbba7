"""Name the exchange of channels and pixels that exporters spell out.

Reshape(Transpose(Reshape(x, [N, b, b, C, H, W]), [0, 3, 4, 1, 5, 2]))  →  DepthToSpace(x) {DCR}
Reshape(Transpose(Reshape(x, [N, C, b, b, H, W]), [0, 1, 4, 2, 5, 3]))  →  DepthToSpace(x) {CRD}
Reshape(Transpose(Reshape(x, [N, C, H, b, W, b]), [0, 3, 5, 1, 2, 4]))  →  SpaceToDepth(x)
"""

from __future__ import annotations

from collections.abc import Iterator

from atcpy.ir import Match, Reject, Rewriter, Value
from atcpy.ir.pattern import const, op, var
from atcpy.passes.fusion import Fusion, only_read_within

# The order of the six dims, and which two of them are the block.
_FORMS: dict[tuple[int, ...], tuple[str, dict[str, str], tuple[int, int]]] = {
    (0, 3, 4, 1, 5, 2): ("DepthToSpace", {"mode": "DCR"}, (1, 2)),
    (0, 1, 4, 2, 5, 3): ("DepthToSpace", {"mode": "CRD"}, (2, 3)),
    (0, 3, 5, 1, 2, 4): ("SpaceToDepth", {}, (3, 5)),
}


class DepthToSpace(Fusion, switch="DepthToSpaceFusionPass", makes=("DepthToSpace", "SpaceToDepth")):
    """Replace Reshape, Transpose, Reshape by DepthToSpace or SpaceToDepth."""

    pattern = op(
        "Reshape",
        op("Transpose", op("Reshape", var("x"), const("apart"), name="before"), name="transpose"),
        const("together"),
        name="after",
    )

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from only_read_within(m, m.node("after"))
        if m.once(_form) is None:
            yield Reject("no-block-of-pixels", m.node("after").name)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        form = m.once(_form)
        assert form is not None
        op_type, attrs, block = form
        return rw.op(op_type, m["x"], blocksize=block, **attrs)


def _form(m: Match) -> tuple[str, dict[str, str], int] | None:
    """Return the op, its attributes and the size of its blocks; None for other dims."""
    form = _FORMS.get(m.node("transpose").ints_attr("perm"))
    x, apart, y = (value.desc.shape for value in (m["x"], m.node("before").output, m.node("after").output))
    if form is None or x is None or apart is None or y is None or len(x) != 4 or len(y) != 4:
        return None
    op_type, attrs, (first, second) = form
    block, (_, c, h, w) = apart[first], (dim for axis, dim in enumerate(apart) if axis not in (first, second))
    if not (isinstance(block, int) and isinstance(c, int) and isinstance(h, int) and isinstance(w, int)):
        return None
    deep, wide = (x, y) if op_type == "DepthToSpace" else (y, x)
    fits = deep[1:] == (c * block * block, h, w) and wide[1:] == (c, h * block, w * block)
    return (op_type, attrs, block) if fits and apart[second] == block and x[0] == apart[0] == y[0] else None
