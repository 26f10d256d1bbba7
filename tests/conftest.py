"""Settings for every test: examples are drawn the same way each time, and no test is timed.

`--hypothesis-profile=thorough`, which `make test-all` gives, tries as many examples as the tests name; otherwise
`tests.effort` divides them. `--shuffle=SEED` runs the tests in a random order.
"""

import gc
import os
import random
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from atcpy.bench import rounds
from atcpy.kernels import _kernels
from atcpy.passes.compile import emit_tasks
from atcpy.stages import symbolic
from tests.attribute_defaults import check_reads
from tests.effort import FAST, SAMPLED, THOROUGH, ci_sample, in_quick_grid, in_share, trials
from tests.grids import grid_points

MAX_VARIANTS = symbolic.MAX_VARIANTS
settings.register_profile("fast", FAST)
settings.register_profile("thorough", THOROUGH)
settings.load_profile("fast")
check_reads()
emit_tasks.ALWAYS_VERIFY = True
rounds.ROUND_SECONDS = 1e-3  # tests of `bench` look at what it says, not at how long it took
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let commands in the background ignore it
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and nohup this one
pytest.MonkeyPatch().setattr(os, "fsync", lambda fd: None)  # tests end processes, not machines
gc.set_threshold(50_000, 20, 100)  # tests keep little; to search them after each 700 objects takes a tenth of the time
_kernels.set_cores(8)  # work is split into as many parts as a test asks for, whatever the machine has


def pytest_sessionstart() -> None:
    """Quick tests plan a model for few of its unknown sizes; others are compiled when they are met."""
    symbolic.MAX_VARIANTS = trials(MAX_VARIANTS)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", metavar="SEED", help="run the tests in an order that this seed decides")
    parser.addoption("--quick", action="store_true", help="leave out slow tests, and most points of grids")
    parser.addoption("--one-in", metavar="N", type=int, help="run one of N tests, others each day")
    parser.addoption("--but-one-in", metavar="N", type=int, help="run all tests but those of --one-in N")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    quick, share, rest = (config.getoption(name) for name in ("--quick", "--one-in", "--but-one-in"))
    points = grid_points(items) if quick else {}

    def is_run(item: pytest.Item) -> bool:
        if quick and item.get_closest_marker("slow"):
            return False
        if quick and item.nodeid.startswith(SAMPLED):
            if not in_share(item.nodeid, 3):
                return False
        elif item in points and not in_quick_grid(*points[item]):
            return False
        return (share is None or in_share(item.nodeid, share)) and not (rest and in_share(item.nodeid, rest))

    run = [item for item in items if is_run(item)]
    if len(run) < len(items):
        config.hook.pytest_deselected(items=[*{*items} - {*run}])
        items[:] = run
    seed = config.getoption("--shuffle")
    if seed is not None:
        random.Random(seed).shuffle(items)


def pytest_collection_finish() -> None:
    """What is imported and collected stays: the garbage collector need not search it."""
    gc.collect()
    gc.freeze()


def pytest_report_header(config: pytest.Config) -> str:
    options = (f"{name}: {config.getoption(f'--{name}')}" for name in ("quick", "one-in", "but-one-in", "shuffle"))
    return f"effort: {settings.get_current_profile_name()}; CI_SAMPLE: {ci_sample()}; {'; '.join(options)}"


@pytest.fixture
def all_variants(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of the sizes that are planned ahead."""
    monkeypatch.setattr(symbolic, "MAX_VARIANTS", MAX_VARIANTS)


@pytest.fixture
def no_custom_ops() -> Iterator[None]:
    """What a test registers is gone afterwards."""
    from atcpy.ops.custom import forget_all

    forget_all()
    yield
    forget_all()
