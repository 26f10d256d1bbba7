"""Timing beside another engine, in turns."""
