"""Structured logs: one JSON object per line with the request's id, without secrets."""

import json
import logging
import os
import re
import sys
import time
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from bon.core.text import printable

request_id: ContextVar[str] = ContextVar("request_id", default="")

_SECRET = re.compile(
    r"(bon_[0-9a-f]{8}_[\w-]{20,}|sk-[\w-]{16,}|hf_\w{16,}|(?<=[Bb]earer )[\w.~+/-]{8,}=*)"
)
_SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD")
_STANDARD = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", "color_message"}
_FOLDERS: dict[str, str] = {}


def redact(text: str) -> str:
    """Remove tokens, keys and the values of secret environment variables."""
    text = _SECRET.sub("[redacted]", text)
    for name, value in os.environ.items():
        if len(value) >= 8 and name.endswith(_SECRET_NAMES):
            text = text.replace(value, "[redacted]")
    return text


def name_folder(folder: Path, name: str) -> None:
    """Replace a folder's path by `name` in public text."""
    for path in {str(folder.absolute()), str(folder.resolve())}:
        if path.count("/") > 1:  # never "/" or "/home", which begin too many paths
            _FOLDERS[path] = name


def public_text(text: str) -> str:
    """Text for HTTP clients: without secrets and without paths of this machine."""
    for folder in sorted(_FOLDERS, key=len, reverse=True):
        text = text.replace(folder, _FOLDERS[folder])
    return redact(text)


class JsonLines(logging.Formatter):
    """A record as one line of JSON, with each key of `extra` as its own key."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        row = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **({"request_id": request} if (request := request_id.get()) else {}),
            **_extra(record),
        }
        if record.exc_info:
            row["traceback"] = self.formatException(record.exc_info)
        return redact(json.dumps(row, default=str))


class TextLines(logging.Formatter):
    """A record as one line for a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, followed by the traceback if there is one."""
        extra = " ".join(f"{k}={v}" for k, v in _extra(record).items() if k != "route")
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        level = "" if record.levelno < logging.WARNING else f"{record.levelname.lower()}: "
        text = f"{clock} {level}{record.getMessage()} {extra}".rstrip()
        # Client text must neither start a new line nor control the terminal.
        text = printable(text.replace("\n", "\\n"))
        if record.exc_info:
            text = f"{text}\n{self.formatException(record.exc_info)}"
        return redact(text)


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    """The `extra` of a record; Ray adds private fields to every record."""
    items = vars(record).items()
    return {key: value for key, value in items if key not in _STANDARD and key[0] != "_"}


def set_up_logs(level: str = "INFO", *, human: bool = False) -> None:
    """Send all logs of this process to stderr, as JSON or as text for a terminal."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TextLines() if human else JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = name != "uvicorn.access"  # the guard writes the access log
    logging.getLogger("httpx").setLevel("WARNING")
    if human:  # the welcome names the address
        logging.getLogger("uvicorn.error").setLevel("WARNING")
