"""Kill the processes of a local Ray once its driver is gone: `python sentinel.py FOLDER`.

Ray's agents survive a killed driver by up to a minute. Their parents are dead by then and their
titles overwrite their arguments, but all hold log files in the folder of their Ray.
"""

import os
import shutil
import sys
import time
from contextlib import suppress

import psutil

SWEEPS = 8  # a second apart, for processes that were about to start


def kill_session(folder: str, since: float) -> None:
    """Kill every other process of the Ray in this folder, all of which started after `since`."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid == os.getpid() or process.create_time() < since:
                continue
            files = (file.path for file in process.open_files())
            if any(folder in name for name in (*process.cmdline(), *files)):
                process.kill()


def main() -> None:
    """Wait until stdin closes, however the driver ends, then kill its Ray and remove its folder."""
    folder, since = sys.argv[1], psutil.Process().create_time()
    sys.stdin.read()
    for sweep in range(SWEEPS):
        time.sleep(min(sweep, 1))
        kill_session(folder, since)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
