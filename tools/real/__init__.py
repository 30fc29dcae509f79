"""A study with pretrained language models that a CPU can run: `python -m tools.real`."""
