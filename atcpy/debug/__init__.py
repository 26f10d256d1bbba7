"""Looking for causes: the pass that breaks a model, the smallest model that shows it, what differs between two."""
