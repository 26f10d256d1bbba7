"""The stages, one a module; `pipeline.py` is their table."""
