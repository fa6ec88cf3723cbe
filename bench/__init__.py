"""Side by side with other toolkits, in one run: `python -m bench NAME`."""
