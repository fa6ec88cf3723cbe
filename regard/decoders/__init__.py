"""Tokens and a state in, hidden vectors and the new state out."""
