"""Training: the loop, optimizer, schedule, checkpoints, and the curves that they leave behind."""
