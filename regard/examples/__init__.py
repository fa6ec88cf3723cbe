"""Examples of a data set: as they stand in files, prepared to be learnt from, and stored."""
