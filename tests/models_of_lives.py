"""Models of values whose sizes and lifetimes are listed: what a memory plan has to deal with."""

from collections.abc import Sequence

import onnx
from onnx import parser

from tests.models_in_text import HEAD

# Kilobytes of blocks, their first and their last step, for which the planner finds no plan within 5 % of the bound.
HARD_LIVES = (
    (1, 2, 8), (160, 1, 3), (1, 0, 1), (1, 0, 1), (40, 2, 9), (1, 11, 12),
    (1, 3, 7), (140, 4, 8), (40, 4, 5), (1, 3, 4), (20, 11, 12), (1, 2, 10),
)  # fmt: skip


def model_of_lives(lives: Sequence[tuple[int, int, int]]) -> onnx.ModelProto:
    """Return a model with a value `v<n>` for each (KiB, first step, last step), whose steps are in a fixed order."""
    lines = ["c0 = Identity(x)"]
    done = 0
    for step in range(1 + max(last for _, _, last in lives)):
        for number, (kilobytes, first, _) in enumerate(lives):
            if first == step:
                size = f"s{number} = Constant<value_ints = [{256 * kilobytes}]>()"
                lines.append(f"{size}  v{number} = Expand(c{done}, s{number})")
        for number, (_, _, last) in enumerate(lives):
            if last == step:
                sums = f"r{number} = ReduceSum<keepdims = 1>(v{number})"
                lines.append(f"{sums}  c{done + 1} = Add(c{done}, r{number})")
                done += 1
    body = "\n".join([*lines, f"y = Identity(c{done})"])
    return parser.parse_model(f"{HEAD}lives (float[1] x) => (float[1] y) {{ {body} }}")
