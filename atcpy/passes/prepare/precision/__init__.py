"""The types that the precision mode gives to nodes, inputs and outputs."""
