"""How each kind of reward model is asked and how its reply is read."""
