"""Fewer and cheaper Transposes and Reshapes: the order and grouping of dims."""
