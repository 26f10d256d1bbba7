"""Settings for every test: examples are drawn the same way each time, and no test is timed."""

from hypothesis import settings

settings.register_profile("atcpy", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("atcpy")
