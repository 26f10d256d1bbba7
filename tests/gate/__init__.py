"""The gate of a release: models that must be refused, and odd ones that must not. `python -m tests.gate.models`."""
