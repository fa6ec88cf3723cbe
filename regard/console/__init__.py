"""The terminal: its streams, and commands to be pasted into it."""
