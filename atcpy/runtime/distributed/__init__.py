"""Ranks that run one package together: as processes of MPI, or simulated by threads."""
