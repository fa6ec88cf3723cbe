"""A field of the batch becomes a Sequence of vectors."""
