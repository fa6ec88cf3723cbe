"""Hidden vectors become logits, or loss terms."""
