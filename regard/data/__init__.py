"""Readers, tokenizers, store, batching, catalogue, phrasebook: from files to batches."""
