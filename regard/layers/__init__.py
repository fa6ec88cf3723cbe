"""Equations as modules: what the parts are made of."""
