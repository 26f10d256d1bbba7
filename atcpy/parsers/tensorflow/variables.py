"""The variables of a graph: their content comes from the checkpoint that belongs to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from atcpy.errors import Unsupported, Where
from atcpy.ir import Tensor


@dataclass(frozen=True, slots=True)
class Variables:
    """Finds variables by the names of their nodes; a graph alone has none."""

    lookup: Callable[[str, Where], Tensor] | None = None

    def find(self, name: str, where: Where) -> Tensor:
        """The content of a variable; Unsupported if the graph came without a checkpoint."""
        if self.lookup is None:
            hint = "give the SavedModel's folder or the checkpoint, or freeze the graph first: atcpy freeze"
            raise Unsupported("E10055", f'the graph is not frozen: "{name}" is a variable', where=where, hint=hint)
        return self.lookup(name, where)
