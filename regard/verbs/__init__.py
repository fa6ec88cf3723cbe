"""What `regard` can do: one function for each verb."""
