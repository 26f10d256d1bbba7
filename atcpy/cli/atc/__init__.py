"""`atcpy atc`: the command line of ATC."""
