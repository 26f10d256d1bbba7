"""docs/operators.md: which op runs where, found out by asking the records."""
