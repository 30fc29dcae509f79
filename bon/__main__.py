"""The command `bon`, and `python -m bon`: it can be stopped before anything else is imported."""

import atexit
import os
import signal
import sys
import time

PATIENCE_SECONDS = 2.0


class Stop:
    """Handle Ctrl-C and SIGTERM.

    The first unwinds, so that rows in progress are stored and a local Ray is shut down. More of
    them at once change nothing; after PATIENCE_SECONDS one ends the process.
    """

    def __init__(self) -> None:
        self.number = 0
        self._since = 0.0
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as in the background of a shell
            signal.signal(signal.SIGINT, self)
        signal.signal(signal.SIGTERM, self)
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # runs last

    def __call__(self, number: int, _: object) -> None:
        """Handle a signal."""
        if not self.number:
            self.note(number)
            raise KeyboardInterrupt  # calls of Ray would turn a SystemExit into one with code 1
        if time.monotonic() > self._since + PATIENCE_SECONDS:
            self.report()
            os._exit(128 + self.number)

    def note(self, number: int) -> None:
        """Unwind for no further signal."""
        self.number, self._since = number, time.monotonic()

    def report(self) -> None:
        """Say that the command was stopped, in place of the echoed ^C."""
        in_terminal = os.isatty(2) and os.environ.get("TERM") != "dumb"
        start = "\r\x1b[K\x1b[?25h" if in_terminal else ""  # erase the line, show the cursor
        os.write(2, f"{start}bon: stopped; the same command resumes from here\n".encode())


def main() -> None:
    """Run the command line until it ends or is stopped."""
    stop = Stop()
    try:
        from bon.commands.main import main as run

        run()
    except BaseException as error:
        if stop.number and getattr(error, "code", 1):  # whatever became of the KeyboardInterrupt
            stop.report()
            sys.exit(128 + stop.number)
        stop.note(signal.SIGINT)  # too late to stop
        raise


if __name__ == "__main__":
    main()
