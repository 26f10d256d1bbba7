"""Absorption of y = k · x + c, channel by channel, into the op beside it."""
