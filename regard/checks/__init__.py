"""What can be wrong with data, by modality; fields ask for it."""
