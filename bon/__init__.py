"""bon: does a reward-model benchmark predict which reward model picks better answers?"""

__version__ = "0.1.0"
