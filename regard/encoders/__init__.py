"""Sequence in, Sequence out."""
