"""Random graphs of typed nodes, compared with an evaluation in float64."""
