"""How the parts of a model learn: not at all, more slowly, layer by layer, or by adapters."""
