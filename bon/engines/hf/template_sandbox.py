"""Chat templates of checkpoints, rendered by a process of their own with limits.

transformers renders every template through two functions, which `confine_templates` replaces.
"""

import json
import os
import sys
from functools import lru_cache
from typing import Any

from jinja2 import TemplateError

from bon.core.errors import BonError
from bon.core.line_process import LineProcess
from bon.engines.hf import template_process

_PASSED = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ")
"""Variables that the process gets: no key and no token."""
_SANDBOX = LineProcess(
    [sys.executable, "-P", template_process.__file__],
    "pip install 'bon[transformers]'",
    {name: os.environ[name] for name in _PASSED if name in os.environ},
)


def ask(template: str, values: dict[str, Any] | None) -> Any:
    """Return what a template makes of the values; without values, the names that it uses.

    Raises:
        BonError: it takes too much time or memory.
        TemplateError: it fails.
    """
    if not (line := _SANDBOX.ask([template, values])):
        seconds, memory = template_process.SECONDS, template_process.MEMORY >> 20
        problem = f"a chat template takes more than {seconds:g} s or {memory} MB"
        raise BonError(problem, "use a checkpoint whose template you know")
    answer = json.loads(line)
    if "error" in answer:
        raise TemplateError(answer["error"])
    return answer["reply"]


@lru_cache(maxsize=16)
def _names(template: str | None) -> frozenset[str]:
    """Return the names that a template uses; transformers asks for them at every prompt."""
    return frozenset(ask(template, None) if template else ())


class _Confined:
    """Stands for a compiled template."""

    def __init__(self, template: str) -> None:
        self._template = template

    def render(self, **values: Any) -> str:
        """Render it in the sandbox."""
        return str(ask(self._template, values))


def confine_templates() -> None:
    """Have transformers render templates, and list what they use, in the sandbox alone."""
    from transformers import processing_utils
    from transformers.utils import chat_template_utils

    chat_template_utils._compile_jinja_template = _Confined
    processing_utils._get_template_variables = _names
