"""Packages of custom operators, damaged behind a recomputed checksum: user code is called with what fits, or not."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import atcpy
from atcpy.errors import AtcError
from atcpy.om.container import Partition
from tests.effort import trials
from tests.om.mutator import mutate_message, mutate_partition
from tests.ops.custom.models import ONE_NODE, double, model, module

# `forward` believes its types, as users' code does.
CHECKED = double(infer="assert x.dtype == np.float32; return x", forward="assert x.shape == (2, 3); return x + x")


@pytest.mark.usefixtures("no_custom_ops")
@pytest.mark.parametrize("partition", [Partition.MODEL_DEF, Partition.TASK_INFO])
def test_mutants_are_run_or_refused(tmp_path: Path, partition: Partition) -> None:
    atcpy.convert(model(ONE_NODE), tmp_path / "m.om", custom_ops=module(tmp_path, CHECKED))
    whole = (tmp_path / "m.om").read_bytes()
    rng = random.Random(11)
    seen = set()
    for _ in range(trials(300)):
        mutant = mutate_partition(whole, partition, lambda message: mutate_message(message, rng))
        try:
            session = atcpy.InferenceSession(mutant, threads=1)
            session.run(None, {port.name: np.zeros((2, 3), np.float32) for port in session.get_inputs()})
            seen.add("ok")
        except AtcError as error:
            assert error.exit_code in (2, 4, 6, 7) or error.code == "D0001", error
            seen.add(error.code)
    assert {"ok", "P0005"} <= seen
