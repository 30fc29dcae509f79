"""Training data: preferences among candidates, in the layouts of trainers."""
