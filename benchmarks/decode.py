"""Times decoding with a KV cache token by token: states bound to a session against ONNX Runtime.

    python benchmarks/decode.py decoder.onnx … [--state present=past] [--tokens 64] [--prompt 8] [--rounds 5]

Four variants get the same prompt and continue with the most probable token: ONNX Runtime with fed caches and with
io_binding, which reuses its outputs without copies, and atcpy with fed caches and with bound states. Each round starts
every variant anew, atcpy with a new session that has run once at another length, so that all lengths of the round are
new to it; the variants alternate on one thread. Each prints a line: the shortest round, the median time per token over
all rounds, and whether its tokens equal those of the first variant.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import atcpy
from atcpy.cli.job import read_states

Feeds = dict[str, Any]
Step = Callable[[Feeds], Any]  # the inputs other than caches → the logits
_DTYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
}


class Decoder:
    """A model with caches and some of the inputs input_ids, position_ids and attention_mask."""

    def __init__(self, path: Path, states: list[str], prompt: int, tokens: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 4
        self.peer = onnxruntime.InferenceSession(str(path), options)
        self.package = Path(tempfile.mkdtemp()) / "decoder.om"
        atcpy.convert(path, self.package)
        self.states = read_states(states, self._session())
        self.inputs = {port.name: port for port in self.peer.get_inputs()}
        self.outputs = [port.name for port in self.peer.get_outputs()]
        self.logits = self.outputs.index(next(name for name in self.outputs if name not in self.states))
        self.prompt = np.arange(1, prompt + 1)
        self.warm_up = prompt + tokens + 1  # a length that decoding does not reach

    def variants(self) -> dict[str, Callable[[], Step]]:
        """By name, the functions that start each variant anew."""
        return {
            "ONNX Runtime, fed": lambda: self._fed(self.peer.run),
            "ONNX Runtime, io_binding": self._io_binding,
            "atcpy, fed": lambda: self._fed(self._warm_session().run),
            "atcpy, bound states": self._bound,
        }

    def decode(self, step: Step, tokens: int) -> Iterator[tuple[float, int]]:
        """Yield the seconds and the token of each step."""
        new, length = self.prompt, 0
        for _ in range(tokens):
            feeds = self._feeds(new, length)
            start = time.perf_counter()
            logits = step(feeds)
            seconds = time.perf_counter() - start
            length += len(new)
            new = logits[0, -1].argmax(keepdims=True)
            yield seconds, int(new[0])

    def _feeds(self, new: np.ndarray[Any, Any], length: int) -> Feeds:
        every = length + len(new)
        values = {
            "input_ids": new, "position_ids": np.arange(length, every), "attention_mask": np.ones(every)
        }  # fmt: skip
        return {
            name: value[None].astype(_DTYPES[self.inputs[name].type])
            for name, value in values.items()
            if name in self.inputs
        }

    def _session(self) -> atcpy.InferenceSession:
        return atcpy.InferenceSession(self.package, threads=1)

    def _warm_session(self) -> atcpy.InferenceSession:
        session = self._session()
        session.run(None, self._feeds(np.zeros(self.warm_up, np.int64), 0) | dict(self._caches()))
        return session

    def _caches(self) -> Mapping[str, np.ndarray[Any, Any]]:
        """The empty caches before the first token: size 0 along the axis in which outputs and inputs differ."""
        shapes = {port.name: port.shape for port in self.peer.get_outputs()}
        return {
            name: np.zeros(
                [
                    old if isinstance(old, int) else 1 if old == new else 0
                    for old, new in zip(self.inputs[name].shape, shapes[output], strict=True)
                ],
                _DTYPES[self.inputs[name].type],
            )
            for output, name in self.states.items()
        }

    def _fed(self, run: Callable[[None, Feeds], Any]) -> Step:
        caches = dict(self._caches())

        def step(feeds: Feeds) -> Any:
            results = dict(zip(self.outputs, run(None, feeds | caches), strict=True))
            caches.update((name, results[output]) for output, name in self.states.items())
            return results[self.outputs[self.logits]]

        return step

    def _io_binding(self) -> Step:
        caches = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in self._caches().items()}

        def step(feeds: Feeds) -> Any:
            binding = self.peer.io_binding()
            for name, array in feeds.items():
                binding.bind_cpu_input(name, array)
            for name, value in caches.items():
                binding.bind_ortvalue_input(name, value)
            for name in self.outputs:
                binding.bind_output(name)
            self.peer.run_with_iobinding(binding)
            results = dict(zip(self.outputs, binding.get_outputs(), strict=True))
            caches.update((name, results[output]) for output, name in self.states.items())
            return results[self.outputs[self.logits]].numpy()

        return step

    def _bound(self) -> Step:
        session = self._warm_session()
        session.bind_state(self.states, capacity=1024)
        return lambda feeds: session.run(None, feeds)[0]


def main() -> None:
    """Print a line per variant for each model."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--state", action="append", metavar="OUT=IN", help="default: present*=past*")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--prompt", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    for path in args.models:
        decoder = Decoder(path, args.state or ["present*=past*"], args.prompt, args.tokens)
        variants = decoder.variants()
        rounds = {name: list[list[tuple[float, int]]]() for name in variants}
        for _ in range(args.rounds):
            for name, start in variants.items():
                rounds[name].append(list(decoder.decode(start(), args.tokens)))
        print(f"{path.stem}, {args.tokens} tokens behind a prompt of {args.prompt}")
        [expected, *_] = ([token for _, token in results[0]] for results in rounds.values())
        for name, results in rounds.items():
            shortest = min(sum(seconds for seconds, _ in steps) for steps in results)
            median = statistics.median(seconds for steps in results for seconds, _ in steps)
            same = all([token for _, token in steps] == expected for steps in results)
            print(
                f"  {name:<26} {args.tokens / shortest:9.1f} tokens/s   a token {1e3 * median:8.3f} ms   "
                f"{'the same tokens' if same else 'OTHER TOKENS'}",
                flush=True,
            )


if __name__ == "__main__":
    main()
