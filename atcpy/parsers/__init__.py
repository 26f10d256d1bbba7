"""Readers of models, one package a framework."""
