"""The process that compares formulas: lines [first, second] in, true or false out.

    python -m bon.graders.formulas SECONDS

It ends itself at a formula that takes more CPU time, and with its input. Only LaTeX is parsed:
other expressions would be evaluated as Python.
"""

import json
import logging
import resource
import signal
import sys

from math_verify import LatexExtractionConfig, parse, verify

MEMORY = 4 << 30


def equal(first: str, second: str) -> bool:
    """Return whether two formulas have the same value, in either direction."""
    own, right = (
        parse(f"${text}$", [LatexExtractionConfig()], "no_fallback", parsing_timeout=None)
        for text in (first, second)
    )
    return bool(own and right and verify(right, own, timeout_seconds=None))


def main() -> None:
    """Answer lines until the input ends."""
    seconds = int(sys.argv[1])
    logging.disable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    equal("(x+1)^2", "x^2+2x+1")  # imports what is imported on use
    print("ready", flush=True)
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            same = equal(*json.loads(line))
        except Exception:
            same = False
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps(same), flush=True)


if __name__ == "__main__":
    main()
