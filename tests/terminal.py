"""Commands run in a pseudo-terminal, as a person runs them, and what its screen then shows."""

import fcntl
import os
import pty
import select
import struct
import termios
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyte

LINES = 100
DEADLINE_SECONDS = 240.0
CTRL_C = b"\x03"


@dataclass(frozen=True)
class Ended:
    """What a command left: its exit code, all it wrote, and its screen, without trailing blanks."""

    code: int
    raw: str
    text: str
    cursor_hidden: bool

    @property
    def screen(self) -> list[str]:
        """The lines of the screen."""
        return self.text.split("\n")


class Terminal:
    """A command in a pseudo-terminal of `columns`; what it writes is drawn on a screen."""

    def __init__(
        self, command: Sequence[str], *, columns: int = 80, cwd: Path, **environment: str
    ) -> None:
        unset = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
        own = {key: value for key, value in os.environ.items() if key not in unset}
        own |= {"TERM": "xterm-256color", **environment}
        self._screen = pyte.Screen(columns, LINES)
        self._stream = pyte.ByteStream(self._screen)
        self._raw = b""
        self._text: str | None = ""
        sized, size_it = os.pipe()
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            try:
                os.chdir(cwd)
                os.read(sized, 1)
                os.execvpe(command[0], list(command), own)
            finally:
                os._exit(127)
        self.resize(columns)
        os.write(size_it, b".")
        os.close(sized)
        os.close(size_it)

    def resize(self, columns: int) -> None:
        """Make the window this wide; the command gets SIGWINCH."""
        size = struct.pack("HHHH", LINES, columns, 0, 0)
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)
        self._screen.resize(LINES, columns)
        self._text = None

    def press(self, keys: bytes) -> None:
        """Type these keys."""
        with suppress(OSError):  # the command has ended
            os.write(self._terminal, keys)

    def draw(self, seconds: float) -> bool:
        """Draw what is written within these seconds; False once the command has ended."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self._terminal], [], [], left)[0]:
                try:
                    data = os.read(self._terminal, 1 << 16)
                except OSError:  # nobody has the other end open
                    return False
                self._raw += data
                self._stream.feed(data)
                self._text = None
        return True

    def wait_until(self, true: Callable[[], object]) -> None:
        """Draw until this is true."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not true():
            assert self.draw(0.02), f"ended first: {self.text}"
            assert time.monotonic() < deadline, self.text

    @property
    def text(self) -> str:
        """What is on the screen."""
        if self._text is None:
            self._text = "\n".join(line.rstrip() for line in self._screen.display).rstrip()
        return self._text

    def wait(self) -> Ended:
        """Draw until the command ends."""
        while self.draw(1.0):
            pass
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self._terminal)
        return Ended(code, self._raw.decode(), self.text, self._screen.cursor.hidden)
