"""Passes of the stage prepare, engine-neutral, by family."""

from atcpy.passes.prepare import (
    affine,
    attention,
    clean_up,
    collectives,
    fold,
    layout,
    quantised,
    recognise,
    recurrent,
)
