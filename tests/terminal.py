"""Commands run in a pseudo-terminal, as a person runs them, and what its screen then shows."""

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyte

LINES = 200
CTRL_C = b"\x03"


@dataclass(frozen=True)
class Ended:
    """What a command left: every line that was on its screen at the end, and its exit code."""

    code: int
    raw: bytes
    screen: list[str]
    cursor_hidden: bool

    @property
    def text(self) -> str:
        """The screen as one text."""
        return "\n".join(self.screen)


class Terminal:
    """A command in a pseudo-terminal of `columns`; what it writes is drawn on a screen."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        columns: int = 80,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        unset = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "CI")
        own = {key: value for key, value in os.environ.items() if key not in unset}
        own |= {"TERM": "xterm-256color", **(env or {})}
        self._screen = pyte.Screen(columns, LINES)
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            try:
                if cwd is not None:
                    os.chdir(cwd)
                signal.signal(signal.SIGINT, signal.SIG_DFL)  # a background shell ignores it
                time.sleep(0.05)  # until it has its size
                os.execvpe(command[0], list(command), own)
            finally:
                os._exit(127)
        self.resize(columns)

    def resize(self, columns: int) -> None:
        """Make the window this wide; the command gets SIGWINCH."""
        size = struct.pack("HHHH", LINES, columns, 0, 0)
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)
        self._screen.resize(LINES, columns)

    def press(self, keys: bytes) -> None:
        """Type these keys."""
        os.write(self._terminal, keys)

    def wait_for(self, there: str | Callable[[], object], seconds: float = 120.0) -> None:
        """Draw until this text is on the screen, or this is true."""
        end = time.monotonic() + seconds
        while not (there in "\n".join(self._screen.display) if isinstance(there, str) else there()):
            assert self._read(), f"ended first: {self.raw.decode(errors='replace')}"
            assert time.monotonic() < end, self.raw.decode(errors="replace")

    def wait(self, seconds: float = 240.0) -> Ended:
        """Draw until the command ends."""
        end = time.monotonic() + seconds
        while self._read():
            if time.monotonic() > end:
                os.kill(self._pid, signal.SIGKILL)
        status = os.waitpid(self._pid, 0)[1]
        os.close(self._terminal)
        screen = [line.rstrip() for line in self._screen.display]
        while screen and not screen[-1]:
            screen.pop()
        code = os.waitstatus_to_exitcode(status)
        return Ended(code, self.raw, screen, self._screen.cursor.hidden)

    def _read(self) -> bool:
        """Draw what there is within a moment; False once the command has ended."""
        if not select.select([self._terminal], [], [], 0.05)[0]:
            return True
        try:
            data = os.read(self._terminal, 1 << 16)
        except OSError:  # Linux: no process has the other end open
            return False
        self.raw += data
        self._stream.feed(data)
        return bool(data)


def run_in_terminal(
    command: Sequence[str],
    *,
    columns: int = 80,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Ended:
    """Run a command in a pseudo-terminal to its end."""
    return Terminal(command, columns=columns, cwd=cwd, env=env).wait()
