"""The commands as Python functions: what `atcpy.check`, `atcpy.verify` and the others are."""
