"""What stands around a search: prompts, alignments, batches beside each other."""
