"""Generates text byte by byte with a decoder whose keys and values stay in the session.

python examples/generate_text.py decoder.om "To be " [tokens] [top_k]
"""

import sys
import time

import numpy as np

import atcpy


def generate(package: str, prompt: str, tokens: int = 64, top_k: int = 1) -> str:
    """Return the continuation of a prompt, sampled from the `top_k` most probable tokens at each step."""
    session, rng = atcpy.InferenceSession(package), np.random.default_rng(0)
    caches = [output.name for output in session.get_outputs() if output.name.startswith("present.")]
    states = {name: name.replace("present.", "past_key_values.") for name in caches}
    session.bind_state(states, capacity=len(prompt.encode()) + tokens)
    text, new, start = bytearray(prompt.encode()), prompt.encode(), time.perf_counter()
    for _ in range(tokens):
        [logits] = session.run(None, {"input_ids": np.frombuffer(new, np.uint8)[None].astype(np.int64)})
        scores = logits[0, -1]
        best = np.argsort(scores)[-top_k:]
        chances = np.exp(scores[best] - scores[best].max())
        new = bytes([rng.choice(best, p=chances / chances.sum())])
        text += new
    print(f"{tokens / (time.perf_counter() - start):.0f} tokens/s")
    return text.decode("latin-1")


if __name__ == "__main__":
    _, package, prompt, *numbers = sys.argv
    print(generate(package, prompt, *map(int, numbers)))
