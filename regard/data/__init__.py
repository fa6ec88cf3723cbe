"""Readers, tokenizers, store, batching, catalogue: from files to batches."""
