"""Writers of models, one package a framework."""
