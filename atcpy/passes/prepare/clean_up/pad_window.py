"""Let convolutions and pools pad for themselves.

Conv(Pad(x, 0))                →  Conv(x) {pads = both}
AveragePool(Pad(x, 0))         →  AveragePool(x) {pads = both, count_include_pad = 1}
MaxPool(Pad(x, −∞))            →  MaxPool(x) {pads = both}
MaxPool(Pad(x, v)), v ≤ 0 ≤ x  →  MaxPool(x) {pads = both}

The zeros of a Pad count in the average; those that AveragePool pads itself must, too. A window of a pool must hold at
least one element that is no padding: borders are smaller than the window.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from atcpy.ir import Match, Node, Reject, Rewriter, Value
from atcpy.ir.pattern import const, op, var
from atcpy.ops import Trait, has_trait
from atcpy.passes.formula import number
from atcpy.passes.fusion import Fusion, constant_is, only_read_by
from atcpy.passes.phase import Phase

_PAD = op("Pad", var("x"), const("pads"), const("value", optional=True), const("axes", optional=True), name="pad")


def _borders(m: Match) -> tuple[int, ...] | None:
    """What the Pad and the window pad together, begins before ends; None where that is no window's padding."""
    rank, pads = len(m["x"].desc.shape or ()), [int(item) for item in m["pads"].array]
    axes_input = m.get("axes")
    axes = range(rank) if axes_input is None else [int(axis) % max(rank, 1) for axis in axes_input.array]
    if len(pads) != 2 * len(axes) or rank < 3:
        return None
    begins, ends = dict(zip(axes, pads, strict=False)), dict(zip(axes, pads[len(axes) :], strict=True))
    if min(pads) < 0 or any(begins.get(axis, 0) or ends.get(axis, 0) for axis in (0, 1)):
        return None
    own = m.root.ints_attr("pads", (0,) * 2 * (rank - 2))
    whole = [begins.get(axis, 0) for axis in range(2, rank)] + [ends.get(axis, 0) for axis in range(2, rank)]
    return tuple(a + b for a, b in zip(whole, own, strict=True))


def _requirements(m: Match) -> Iterator[Reject]:
    pad, root = m.node("pad"), m.root
    yield from only_read_by(pad.output, root)
    if pad.str_attr("mode", "constant") != "constant":
        yield Reject("mode", pad.name, pad.str_attr("mode", "constant"))
    if root.str_attr("auto_pad", "NOTSET") not in {"NOTSET", "VALID"}:
        yield Reject("auto-pad", root.name)
    if _borders(m) is None:
        yield Reject("not-spatial-padding", pad.name)


def _attrs(root: Node, borders: tuple[int, ...] | None) -> dict[str, object]:
    return {name: value for name, value in root.attrs.items() if name != "auto_pad"} | {"pads": borders}


class PadConv(
    Fusion,
    switch="PadConv2dFusionPass",
    phase=Phase.ABSORB,
    after=("ConvInputFusionPass",),
    makes=("Conv",),
    repeats=True,
):
    """Let a Conv add the border of zeros that a Pad makes."""

    pattern = op("Conv", _PAD, var("w"), var("b", optional=True))

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from _requirements(m)
        if m.get("value") is not None:
            yield from constant_is(m["value"], 0.0)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        bias = [] if m.get("b") is None else [m["b"]]
        return rw.op("Conv", m["x"], m["w"], *bias, **_attrs(m.root, _borders(m)))


class PadPool(Fusion, switch="PadPoolFusionPass", phase=Phase.ABSORB, makes=("AveragePool", "MaxPool")):
    """Let a pool pad for itself."""

    pattern = op(("AveragePool", "MaxPool"), _PAD, name="pool")

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        pool, borders = m.root, _borders(m)
        yield from _requirements(m)
        kernel = pool.ints_attr("kernel_shape")
        is_whole = pool.int_attr("ceil_mode", 0) or any(step != 1 for step in pool.ints_attr("dilations"))
        if is_whole or (borders is not None and any(b >= k for b, k in zip(borders, (*kernel, *kernel), strict=True))):
            yield Reject("empty-window", pool.name)
        yield from _max_requirements(m) if pool.op_type == "MaxPool" else _average_requirements(m)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        counted = {"count_include_pad": 1} if m.root.op_type == "AveragePool" else {}
        return rw.op(m.root.op_type, m["x"], **_attrs(m.root, _borders(m)), **counted)


def _average_requirements(m: Match) -> Iterator[Reject]:
    if m.get("value") is not None:
        yield from constant_is(m["value"], 0.0)
    if any(m.root.ints_attr("pads")) and not m.root.int_attr("count_include_pad", 0):
        yield Reject("padding-not-counted", m.root.name)


def _max_requirements(m: Match) -> Iterator[Reject]:
    value = 0.0 if m.get("value") is None else number(m["value"])
    if any(output.use_count for output in m.root.outputs[1:]):
        yield Reject("indices-used", m.root.name)
    if value != -inf and not (value <= 0 and has_trait(m["x"].producer, Trait.NON_NEGATIVE)):
        yield Reject("other-constant", m.node("pad").name, f"{value:.7g} could be the largest")
