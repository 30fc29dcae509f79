"""How a model is run. Each engine imports its heavy library only when it is built."""
