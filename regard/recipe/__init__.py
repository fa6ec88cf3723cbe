"""What decides a run, as it is written down, read and checked."""
