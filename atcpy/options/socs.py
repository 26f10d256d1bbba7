"""The names of chips."""

import re

from atcpy.errors import Unsupported, Where, did_you_mean
from atcpy.options.readers import mismatch, text_of

SOCS: tuple[str, ...] = (
    "Ascend310", "Ascend310B1", "Ascend310B2", "Ascend310B3", "Ascend310B4",
    "Ascend310P1", "Ascend310P3", "Ascend310P5", "Ascend310P7",
    "Ascend310P3Vir01", "Ascend310P3Vir02", "Ascend310P3Vir04", "Ascend310P3Vir08",
    "Ascend610", "Ascend910", "Ascend910A", "Ascend910B", "Ascend910ProA", "Ascend910ProB", "Ascend910PremiumA",
    "Ascend910B1", "Ascend910B2", "Ascend910B2C", "Ascend910B3", "Ascend910B4", "Ascend910B4-1",
    "Ascend910_9362", "Ascend910_9372", "Ascend910_9381", "Ascend910_9382", "Ascend910_9391", "Ascend910_9392",
    "Ascend950", "BS9SX1AA",
)  # fmt: skip


_BY_FOLDED_SOC = {soc.lower(): soc for soc in SOCS}


def read_soc(option: str, value: object) -> str:
    """The canonical name of a chip; the case does not matter."""
    word = text_of(option, value)
    if re.fullmatch(r"ascend035[ab]?", word.lower()):
        why = "it takes single-operator firmware only, which ATC makes with --mode=30"
        raise Unsupported("E10055", f"{word} is not supported: {why}", where=Where(option=option))
    if word.lower() in _BY_FOLDED_SOC:
        return _BY_FOLDED_SOC[word.lower()]
    # The 950 family is named <chip>_<NPU>, with no list of either.
    if match := re.fullmatch(r"ascend950([a-z0-9]{0,8})(_[a-z0-9-]{1,16})?", word.lower()):
        return "Ascend950" + (match[1] + (match[2] or "")).upper()
    hint = did_you_mean("Ascend" + word if word[:1].isdigit() else word, SOCS)
    raise mismatch(option, word, "a chip that is known", hint or "as npu-smi prints it: Ascend310P3, Ascend910B3 …")
