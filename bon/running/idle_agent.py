"""Stands in for an agent that a raylet wants beside it and that nothing here uses.

A script of its own, with nothing but the standard library. A raylet ends when an agent of its does,
and must find this one ended when it is gone itself, however it went.
"""

import os
import time


def main() -> None:
    """Wait until the parent is another one: the raylet's is gone."""
    raylet = os.getppid()
    while os.getppid() == raylet:
        time.sleep(0.5)


if __name__ == "__main__":
    main()
