"""A process that ends soon trades memory for time."""

import subprocess
import sys
import textwrap

PROGRAM = textwrap.dedent(
    """
    import gc, resource
    import numpy as np
    from bon.core.shortlived import ends_soon

    def faults():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(5):
            held = [np.ones(2 << 20) for _ in range(6)]  # of 16 MB each
            del held
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    ends_soon()
    faults()
    assert not gc.isenabled()
    print(faults())
    """
)


def test_memory_that_was_freed_is_not_asked_for_again():
    command = [sys.executable, "-c", PROGRAM]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(said.stdout) < 1_000  # else thousands each time
