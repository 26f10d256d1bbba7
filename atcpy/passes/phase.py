"""The phases of the passes: groups with one purpose each, in the order in which they run."""

from __future__ import annotations

from enum import Enum

from atcpy.options import Stage


class Phase(Enum):
    """A group of passes with one purpose. Phases run in the order of this list; `after` and `before` order passes
    within one phase.
    """

    INFER = (Stage.PREPARE, "infer types and shapes, fold constants")
    CUSTOM = (Stage.PREPARE, "fuse what the user's own operators replace")
    RECURRENT = (Stage.PREPARE, "turn loops over recurrent cells into layers")
    EXPAND = (Stage.PREPARE, "write ops that no engine runs as other ops")
    CLEAN_UP = (Stage.PREPARE, "remove nodes that do nothing")
    QUANTISE = (Stage.PREPARE, "compute on integers between DequantizeLinear and QuantizeLinear")
    MOVE = (Stage.PREPARE, "simplify what only moves elements")
    COMPACT = (Stage.PREPARE, "merge equal nodes, remove dead ones")
    RECOGNISE = (Stage.PREPARE, "name ops that exporters write as several")
    MERGE = (Stage.PREPARE, "join chains that recognition left")
    ABSORB = (Stage.PREPARE, "take affine steps, paddings and channel orders into products and convolutions")
    FINISH = (Stage.PREPARE, "prepare what remains for kernels and collectives")
    PRECISION_MODE = (Stage.PREPARE, "give nodes the types of the precision mode")

    PRECISION = (Stage.SPLIT, "insert casts where no kernel computes in 16 bits")
    OPERANDS = (Stage.SPLIT, "take views and scales of operands into products and attention")
    STRENGTH = (Stage.SPLIT, "replace powers, quotients and transposed convolutions by cheaper ops")
    PLACE = (Stage.SPLIT, "assign engines")

    EPILOGUE = (Stage.OPTIMIZE, "fuse bias, residual and activation into products and convolutions, by piece")
    FORMAT = (Stage.OPTIMIZE, "choose storage formats, by piece")
    CANCEL = (Stage.OPTIMIZE, "cancel changes of format between the merged pieces")
    FUSE = (Stage.OPTIMIZE, "fuse across the merged pieces")
    NARROW = (Stage.OPTIMIZE, "store activations in fewer bits")

    KERNELS = (Stage.COMPILE, "choose among kernels that compute the same")
    IN_PLACE = (Stage.COMPILE, "leave out copies")

    def __init__(self, stage: Stage, purpose: str) -> None:
        self.stage = stage
        self.purpose = purpose

    @staticmethod
    def of(stage: Stage) -> tuple[Phase, ...]:
        """Return the phases of a stage."""
        return tuple(phase for phase in Phase if phase.stage is stage)
