"""The package file `.om`: written whole or not at all, read without trusting a byte."""
