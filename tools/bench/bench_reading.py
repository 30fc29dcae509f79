"""How long a reply takes to read: every shipped rule, on replies made to be slow.

`python tools/bench/bench_reading.py`: the slowest of 10,240 characters (2,048 tokens), in
milliseconds of CPU; of each text the quickest of three.
"""

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from measured import Side, note

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.rewarders.test_reading_time import RULES, adversarial


def seconds(read: Callable[[], object]) -> float:
    """CPU time of the quickest of three."""
    times = []
    for _ in range(3):
        begun = time.thread_time()
        read()
        times.append(time.thread_time() - begun)
    return min(times)


def main() -> None:
    """Print the slowest text of every rule."""
    slowest = 0.0
    for rule in RULES:
        took, text = max((seconds(partial(rule.read, text)), text) for text in adversarial())
        print(f"{rule.name:40s} {1000 * took:6.1f} ms  {text[:40]!r}")
        slowest = max(slowest, took)
    note("reading the worst reply", "ms", Side("bon", 1000 * slowest), at_most=50)


if __name__ == "__main__":
    main()
