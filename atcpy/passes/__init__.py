"""The passes, one a file, by stage."""
