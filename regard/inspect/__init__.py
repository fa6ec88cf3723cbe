"""Looking into a model: capture, intervene, reports and plots."""
