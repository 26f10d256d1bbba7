"""The picture of an arena: what is drawn, how large it may be, and names that are hostile."""

from __future__ import annotations

import random
import xml.etree.ElementTree as ET

import pytest

from atcpy.passes.compile.memory_bound import Block, find_peak
from atcpy.report.memory_plan import ArenaBuffer, ArenaPlan
from atcpy.report.memory_svg import MAX_DRAWN, MAX_LISTED, MAX_MERGED, draw_arena

SVG = "{http://www.w3.org/2000/svg}"


def plan_of(blocks: list[Block], names: list[str] | None = None, streams: int = 1) -> ArenaPlan:
    buffers = tuple(
        ArenaBuffer(((block.first, names[number] if names else f"v{number}"),), block, number % streams)
        for number, block in enumerate(blocks)
    )
    tasks = tuple(f"n{number}" for number in range(1 + max((block.last for block in blocks), default=0)))
    arena = max((block.offset + block.nbytes for block in blocks), default=0)
    return ArenaPlan("", arena, tasks, (), buffers, find_peak(blocks))


def rectangles(picture: str) -> list[tuple[str, ET.Element]]:
    """The tooltips of buffers with their rectangles."""
    found = []
    for element in ET.fromstring(picture).iter(f"{SVG}rect"):
        title = element.find(f"{SVG}title")
        if title is not None and title.text:
            found.append((title.text, element))
    return found


def texts(picture: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(picture).iter(f"{SVG}text")]


def test_each_buffer_is_a_rectangle_over_its_tasks_and_bytes() -> None:
    plan = plan_of([Block(1024, 0, 1, 0), Block(1024, 1, 3, 1024), Block(512, 3, 3, 0)], ["a", "b", "c"], 2)
    drawn = rectangles(draw_arena(plan, "m.om"))
    assert [tooltip.split("\n")[0] for tooltip, _ in drawn] == ["a", "b", "c"]
    assert drawn[1][0] == "b\n1.0 KB, 1024 bytes at 1024\ntasks 1 (n1) to 3 (n3), stream 1"
    boxes = [[float(box.attrib[key]) for key in ("x", "y", "width", "height")] for _, box in drawn]
    (ax, ay, aw, ah), (bx, by, bw, bh), (cx, cy, cw, ch) = boxes
    assert (aw, bw, cw) == (2 * cw, 3 * cw, cw) and (ah, bh, ch) == (ah, ah, ah / 2)
    assert (bx, cx) == (ax + cw, ax + 3 * cw) and by + bh == ay and cy + ch == ay + ah
    assert drawn[0][1].attrib["fill"] == drawn[2][1].attrib["fill"] != drawn[1][1].attrib["fill"]  # the streams


def test_the_peak_is_marked_and_its_buffers_are_named() -> None:
    plan = plan_of([Block(64, 0, 1, 0), Block(128, 1, 2, 64), Block(64, 2, 3, 0)], ["a", "b", "c"])
    picture = draw_arena(plan, "m.om")
    outlined = [tooltip[0] for tooltip, box in rectangles(picture) if box.attrib["stroke"] == "#c81e1e"]
    assert outlined == ["a", "b"]
    shown = texts(picture)
    assert "in use at the peak, task 1 (n1): 192 bytes in 2 buffers" in shown
    listed = shown[shown.index("in use at the peak, task 1 (n1): 192 bytes in 2 buffers") + 1 :]
    assert [line.split() for line in listed] == [
        ["128", "B", "b", "(tasks", "1", "to", "2)"], ["64", "B", "a", "(tasks", "0", "to", "1)"],
    ]  # fmt: skip


def test_a_gap_above_the_lower_bound_is_shown() -> None:
    plan = plan_of([Block(64, 0, 1, 64), Block(64, 2, 3, 0)])
    picture = draw_arena(plan, "m.om")
    assert any("lower bound 64, 100.0 % above it" in text for text in texts(picture))
    assert "<title>lower bound 64</title>" in picture
    assert "<title>lower bound" not in draw_arena(plan_of([Block(64, 0, 1, 0)]), "m.om")


@pytest.mark.slow
def test_ten_thousand_tasks_are_a_small_file_that_leaves_nothing_out() -> None:
    rng = random.Random(7)
    blocks = [
        Block(
            64 * rng.randrange(1, 40), first, min(first + rng.choice((1, 2, 3, 400)), 9_999), 64 * rng.randrange(4000)
        )
        for first in range(10_000)
    ]
    plan = plan_of(blocks, [f"/a/rather/long/name/of/a/layer/{n}/output_0" for n in range(10_000)])
    picture = draw_arena(plan, "m.om")
    assert picture == draw_arena(plan, "m.om")
    assert len(picture) < 1_500_000
    boxes = list(ET.fromstring(picture).iter(f"{SVG}rect"))
    assert len(rectangles(picture)) <= MAX_DRAWN + len(plan.peak.blocks)
    assert len(boxes) - len(rectangles(picture)) <= MAX_MERGED + 1
    [head] = [text for text in texts(picture) if "10000 buffers of 10000 tasks" in text]
    assert f"{10_000 - len(rectangles(picture))} too small to see one by one" in head
    grey = [box.attrib for box in boxes if box.attrib["fill"] == "#9aa5b1"]
    drawn = {tooltip.split("\n")[0] for tooltip, _ in rectangles(picture)}
    for buffer in plan.buffers[::113]:
        if buffer.names[0] not in drawn:
            x = 96 + 1120 * (buffer.block.first + 0.5) / 10_000
            y = 688 - 600 * (buffer.block.offset + buffer.block.nbytes / 2) / plan.arena_bytes
            assert any(
                float(box["x"]) - 1 <= x <= float(box["x"]) + float(box["width"]) + 1
                and float(box["y"]) - 1 <= y <= float(box["y"]) + float(box["height"]) + 1
                for box in grey
            )


def test_long_names_do_not_make_the_file_large() -> None:
    blocks = [Block(1024, number // 50, number // 50, 1024 * (number % 50)) for number in range(5000)]
    assert len(draw_arena(plan_of(blocks, ["x" * 5_000] * 5000), "m.om")) < 2_500_000


def test_long_lists_are_cut() -> None:
    plan = plan_of([Block(64, 0, 0, 64 * number) for number in range(100)])
    assert sum(" (tasks 0 to 0)" in text for text in texts(draw_arena(plan, "m.om"))) == MAX_LISTED
    assert any(text.endswith(", and 80 more") for text in texts(draw_arena(plan, "m.om")))


def test_names_cannot_leave_their_text() -> None:
    name = "</title></svg><script>\x00\x1b[31m&\ud800" + "x" * 100_000
    plan = plan_of([Block(64, 0, 0, 0)], [name])
    picture = draw_arena(plan, name).encode("utf-8", "replace").decode()
    assert len(picture) < 5_000
    assert ET.fromstring(picture).find(f".//{SVG}script") is None
    assert rectangles(picture)[0][0].startswith("</title></svg><script>\ufffd\ufffd[31m&")


def test_an_arena_without_buffers_is_a_picture_too() -> None:
    plan = ArenaPlan("", 0, (), (), (), find_peak([]))
    assert rectangles(draw_arena(plan, "m.om")) == []
