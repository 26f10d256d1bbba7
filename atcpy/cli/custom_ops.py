"""`--custom-ops`: the modules of users' operators, loaded before anything else is done."""

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from atcpy.options import read_custom_ops

if TYPE_CHECKING:
    from atcpy.ops.custom import CustomOps


def load(modules: Sequence[str] | None) -> "CustomOps":
    """The operators of the modules that the command line names. Their libraries run in this process: if one crashes,
    faulthandler prints the Python stack.
    """
    import faulthandler

    from atcpy.ops.custom import load_custom_ops

    if modules:
        with suppress(OSError, RuntimeError, AttributeError):  # stderr is no file
            faulthandler.enable()
    return load_custom_ops(read_custom_ops("custom_ops", modules or ()))
