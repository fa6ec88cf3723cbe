"""Other engines and other formats."""
