"""The table of names in docs/ge-api.md: what is called the same is there."""

import re

from atcpy import ge
from atcpy.ge import op
from tests.sources import REPO

PLACES = (ge, ge.Session, ge.Graph, ge.Operator, op.Conv2D, op.Add, op.Concat, op.Split, op.If, op.Data)


def test_names_that_are_the_same_exist() -> None:
    table = (REPO / "docs" / "ge-api.md").read_text(encoding="utf-8").partition("## Names")[2]
    rows = re.findall(r"^\| (`.+?) \| the same", table, re.M)
    # Inputs are called as those of an op: Concat's are `inputs`, Split's outputs `outputs`.
    names = {name for row in rows for name in re.findall(r"[`:]([A-Za-z_]\w+)", row)} - {"op"}
    names = {re.sub(r"^((?:create|set)_dynamic_)(input|output)_\w+", r"\1\2_\2s", name) for name in names}
    assert {"GEInitialize", "RunGraphAsync", "SetInputs", "set_input_x", "create_dynamic_output_outputs"} <= names
    assert [name for name in sorted(names) if not any(hasattr(place, name) for place in PLACES)] == []
