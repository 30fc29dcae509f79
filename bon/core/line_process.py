"""A process of its own for what may take too long: a line of JSON in, a line out."""

import json
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from select import select
from typing import Any

from bon.core.errors import BonError

PATIENCE = 120.0
"""Seconds until a process that neither answers nor ends is stopped."""


class LineProcess:
    """A process, which limits its own time and memory; it is started on use, and anew if it ended.

    It prints a line when it is ready. `fix`: what to do if it does not start.
    """

    def __init__(
        self, command: Sequence[str], fix: str, env: Mapping[str, str] | None = None
    ) -> None:
        self._command, self._fix, self._env = command, fix, env
        self._lock = threading.Lock()
        self.process: subprocess.Popen[str] | None = None

    def ask(self, value: Any) -> str:
        """Return the line that answers a value; empty if that took too much."""
        with self._lock:
            if self.process is None or self.process.poll() is not None:
                self.process = subprocess.Popen(
                    self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL, text=True, bufsize=1, env=self._env,
                )  # fmt: skip
                if not self._read(self.process):
                    raise BonError(f"{self._command[2]} does not start", self._fix)
            assert self.process.stdin is not None
            with suppress(BrokenPipeError):
                self.process.stdin.write(f"{json.dumps(value, default=str)}\n")
                self.process.stdin.flush()
            return self._read(self.process)

    def _read(self, process: "subprocess.Popen[str]") -> str:
        """Return the next line; empty if the process has ended or does not answer."""
        assert process.stdout is not None
        line = ""
        if select([process.stdout], [], [], PATIENCE)[0]:
            line = process.stdout.readline()
        if not line.endswith("\n"):
            process.kill()
            process.communicate()
            self.process, line = None, ""
        return line
