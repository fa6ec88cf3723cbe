"""word2vec: vectors of words from plain text, by an engine of its own."""
