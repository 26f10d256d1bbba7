"""Clean-up: nodes that do nothing, that repeat others, or that one node can do."""
