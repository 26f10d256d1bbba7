"""How the nodes of an op look that has no schema in the ONNX standard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

UNBOUNDED = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Signature:
    """The inputs and attributes of an op, and how many outputs its nodes have.

    attrs: the type of each attribute: i, f, s for one number or text, I, F, S for a list of them.
    updates: the index of an input that the op changes in place, by that of the output that is its new value.
    """

    inputs: tuple[str, ...]
    required_inputs: tuple[int, ...]
    input_count: tuple[int, int]
    attrs: Mapping[str, str]
    required_attrs: tuple[str, ...]
    output_count: tuple[int, int]
    updates: Mapping[int, int] = field(default_factory=dict)

    @property
    def is_variadic(self) -> bool:
        """Whether the last input stands for one or more."""
        return self.input_count[1] == UNBOUNDED

    @staticmethod
    def of(
        inputs: str, attrs: str = "", outputs: tuple[int, int] = (1, 1), updates: Mapping[int, str] | None = None
    ) -> Signature:
        """Read a signature from `A B? C+` and `alpha:f axis:i!`: `?` may be left out, `+` is one or more, `!` must be
        given. `updates` names the inputs that are changed in place.
        """
        names = inputs.split()
        plain = tuple(name.rstrip("?+") for name in names)
        # Inputs in front of one that must be there have an index even if they are left out.
        minimum = max(index for index, name in enumerate(names, 1) if not name.endswith("?"))
        typed = [(name, letter) for name, letter in (attr.rstrip("!").split(":") for attr in attrs.split())]
        return Signature(
            plain,
            tuple(index for index, name in enumerate(names) if not name.endswith("?")),
            (minimum, UNBOUNDED if inputs.endswith("+") else len(names)),
            dict(typed),
            tuple(attr.split(":")[0] for attr in attrs.split() if attr.endswith("!")),
            outputs,
            {index: plain.index(name) for index, name in (updates or {}).items()},
        )
