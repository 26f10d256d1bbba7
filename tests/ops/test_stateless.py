"""Random numbers of seeds: the generator by the vectors of its authors, the draws by what TensorFlow's guide prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atcpy.errors import AtcError
from atcpy.ops.stateless import philox
from tests.parsers.tensorflow.graphs import Array, TfBuilder, Type

# https://www.tensorflow.org/guide/random_numbers: stateless_normal(shape=[2, 3], seed=[1, 2])
OF_SEEDS = [[0.5441101, 0.20738031, 0.07356433], [0.04643455, -1.30159, -0.95385665]]
# Generator.from_seed(1).normal([2, 3]), whose key is 0 and whose counter is 1
OF_GENERATOR = [[0.43842277, -0.53439844, -0.07710262], [1.5658045, -0.1012345, -0.2744976]]
MODES = ("constant", "open")


@pytest.mark.parametrize(
    ("counter", "key", "block"),
    [
        ([0, 0, 0, 0], 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ([2**32 - 1] * 4, 2**64 - 1, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            0x299F31D0A4093822,
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_the_known_answers_of_random123(counter: list[int], key: int, block: str) -> None:
    assert [f"{word:08x}" for word in philox(np.array([counter], np.uint32), key)[0]] == block.split()


def draw(folder: Path, op: str, mode: str, shape: list[int], inputs: list[Array], **attrs: Any) -> Array:
    g, feeds = TfBuilder(), {}
    names = []
    for index, array in enumerate([np.array(shape, np.int32), *inputs]):
        if mode == "constant":
            names.append(g.const(array))
        else:
            names.append(g.input(f"x{index}", str(array.dtype), array.shape))
            feeds[names[-1]] = array
    if op.endswith("V2"):
        names.insert(3, g.const(np.int32(1)))
    g.add(op, *names, name="y", **attrs)
    zero = g.input("zero", "float32", ())  # a graph of constants has no inputs
    g.add("Identity", zero, name="z")
    drawn, _ = g.run(folder, {**feeds, "zero": np.float32(0)}, "y", "z")
    return drawn


@pytest.mark.parametrize("mode", MODES)
def test_what_tensorflow_draws(tmp_path: Path, mode: str) -> None:
    seed = np.array([1, 2], np.int32)
    y = draw(tmp_path, "StatelessRandomNormal", mode, [2, 3], [seed], dtype=Type("float32"))
    np.testing.assert_allclose(y, np.float32(OF_SEEDS), 3e-7)
    key, counter = np.array([0], np.uint64), np.array([1, 0], np.uint64)
    y = draw(tmp_path, "StatelessRandomNormalV2", mode, [2, 3], [key, counter], dtype=Type("float32"))
    np.testing.assert_allclose(y, np.float32(OF_GENERATOR), 3e-7)


def test_both_versions_draw_the_same(tmp_path: Path) -> None:
    g = TfBuilder()
    seed = g.input("seed", "int64", (2,))
    shape = g.const(np.array([5], np.int32))
    g.add("StatelessRandomGetKeyCounter", seed, name="made")
    g.add("StatelessRandomGetAlg", name="algorithm")
    g.add("StatelessRandomUniform", shape, seed, name="old", dtype=Type("float32"))
    g.add("StatelessRandomUniformV2", shape, "made", "made:1", "algorithm", name="new", dtype=Type("float32"))
    run = g.converted(tmp_path, "old", "new")
    old, new = run({"seed": np.array([-5, 2**40])})
    other, _ = run({"seed": np.array([-5, 2**40 + 1])})
    assert np.array_equal(old, new) and not np.array_equal(old, other) and (old >= 0).all() and (old < 1).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_distributions(tmp_path: Path, dtype: str) -> None:
    seed = np.array([3, 4], np.int64)
    y = draw(tmp_path, "StatelessRandomUniform", "open", [3, 3333], [seed], dtype=Type(dtype))
    assert y.dtype == dtype and y.shape == (3, 3333)
    assert np.histogram(y, 10, (0, 1))[0].min() > 900 and np.unique(y).size > 9900
    y = draw(tmp_path, "StatelessRandomNormal", "open", [9999], [seed], dtype=Type(dtype))
    assert y.dtype == dtype and abs(y.mean()) < 0.04 and abs(y.std() - 1) < 0.03


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers(tmp_path: Path, dtype: str) -> None:
    inputs = [np.array([3, 4], np.int64), np.array(-2, dtype), np.array(3, dtype)]
    y = draw(tmp_path, "StatelessRandomUniformInt", "open", [1000], inputs)
    assert y.dtype == dtype and np.unique(y).tolist() == [-2, -1, 0, 1, 2] and np.bincount(y + 2).min() > 150
    with pytest.raises(AtcError, match="from 3 below 3: there are none"):
        draw(tmp_path, "StatelessRandomUniformInt", "open", [4], [inputs[0], inputs[2], inputs[2]])


def test_a_counter_that_overflows_its_low_half(tmp_path: Path) -> None:
    key, counter = np.array([7], np.uint64), np.array([2**64 - 1, 8], np.uint64)
    y = draw(tmp_path, "StatelessRandomUniformV2", "open", [8], [key, counter], dtype=Type("float32"))
    following = draw(
        tmp_path, "StatelessRandomUniformV2", "open", [4], [key, np.array([0, 9], np.uint64)], dtype=Type("float32")
    )
    assert np.array_equal(y[4:], following)


def test_what_is_refused(tmp_path: Path) -> None:
    seed = np.array([3, 4, 5], np.int64)
    with pytest.raises(AtcError, match=r"a seed of shape \[3\]"):
        draw(tmp_path, "StatelessRandomUniform", "open", [2], [seed], dtype=Type("float32"))
    with pytest.raises(AtcError, match=r"(?s)random numbers of float16.*cast them"):
        draw(tmp_path, "StatelessRandomUniform", "open", [2], [seed[:2]], dtype=Type("float16"))
    with pytest.raises(AtcError, match=r"shape \[-1\]"):
        draw(tmp_path, "StatelessRandomUniform", "open", [-1], [seed[:2]], dtype=Type("float32"))
