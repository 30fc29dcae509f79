"""Chat templates of checkpoints, rendered by a process of their own with limits.

transformers renders every template through two functions, which `confine_templates` replaces.
"""

import atexit
import json
import os
import subprocess
import sys
import threading
from typing import Any

from jinja2 import TemplateError

from bon.core.errors import BonError
from bon.engines import template_process

_PASSED = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ")
"""Variables that the process gets: no key and no token."""


class TemplateSandbox:
    """Renders templates in one process, which is started again if a template broke its limits."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        atexit.register(self.close)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def ask(self, template: str, values: dict[str, Any] | None) -> Any:
        """Return what the template makes of the values; without values, the names it uses.

        Raises:
            BonError: it takes too much time or memory.
            TemplateError: it fails.
        """
        request = json.dumps({"template": template, "values": values}, default=str)
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", template_process.__file__],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env={name: os.environ[name] for name in _PASSED if name in os.environ},
                )
            stdin, stdout = self._process.stdin, self._process.stdout
            assert stdin is not None
            assert stdout is not None
            try:
                stdin.write(f"{request}\n".encode())
                stdin.flush()
                line = stdout.readline()
            except BrokenPipeError:
                line = b""
            if not line.endswith(b"\n"):
                self.close()
                seconds, memory = template_process.SECONDS, template_process.MEMORY >> 20
                problem = f"a chat template takes more than {seconds:g} s or {memory} MB"
                raise BonError(problem, "use a checkpoint whose template you know")
        answer = json.loads(line)
        if "error" in answer:
            raise TemplateError(answer["error"])
        return answer["reply"]


_SANDBOX = TemplateSandbox()


class _Confined:
    """Stands for a compiled template."""

    def __init__(self, template: str) -> None:
        self._template = template

    def render(self, **values: Any) -> str:
        """Render it in the sandbox."""
        return str(_SANDBOX.ask(self._template, values))


def confine_templates() -> None:
    """Have transformers render templates, and list what they use, in the sandbox alone."""
    from transformers import processing_utils
    from transformers.utils import chat_template_utils

    chat_template_utils._compile_jinja_template = _Confined
    processing_utils._get_template_variables = lambda template: frozenset(
        _SANDBOX.ask(template, None) if template else ()
    )
