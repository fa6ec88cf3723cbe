"""What `regard` can be told to do: one function for each verb."""
