"""Kill the processes of a local Ray once its driver is gone: `python sentinel.py DRIVER_PID`.

Ray's agents survive a killed driver by up to a minute. Their parents are dead by then and their
titles overwrite their arguments, but all hold log files of the session named after the driver.
"""

import os
import re
import sys
import time
from contextlib import suppress

import psutil

SWEEPS = 8  # a second apart, for processes that were about to start


def kill_session(driver: int, since: float) -> None:
    """Kill every process of the Ray sessions of `driver` started after `since`, except itself."""
    session = re.compile(rf"session_[0-9_-]*_{driver}(?!\d)")
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid in (driver, os.getpid()) or process.create_time() < since:
                continue
            paths = (file.path for file in process.open_files())
            if session.search(" ".join(process.cmdline())) or any(map(session.search, paths)):
                process.kill()


def main() -> None:
    """Wait until stdin closes, however the driver ends, then kill its session."""
    since = psutil.Process().create_time()
    sys.stdin.read()
    for sweep in range(SWEEPS):
        time.sleep(min(sweep, 1))
        kill_session(int(sys.argv[1]), since)


if __name__ == "__main__":
    main()
