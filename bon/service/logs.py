"""Structured logs, one JSON object a line, with the id of the request; no secrets."""

import json
import logging
import os
import re
import sys
import time
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Any

request_id: ContextVar[str] = ContextVar("request_id", default="")

_SECRET = re.compile(
    r"(bon_[0-9a-f]{8}_[\w-]{20,}|sk-[\w-]{16,}|hf_\w{16,}|(?<=[Bb]earer )[\w.~+/-]{8,}=*)"
)
_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {
    "message",
    "asctime",
    "taskName",
    "color_message",
}


def redact(text: str) -> str:
    """The text without tokens, keys, or the values of secret environment variables."""
    text = _SECRET.sub("[redacted]", text)
    for value in _secret_values(len(os.environ)):
        text = text.replace(value, "[redacted]")
    return text


_FOLDERS: dict[str, str] = {}


def name_folder(folder: Path, name: str) -> None:
    """Call a folder of this machine by a name in whatever `told` answers."""
    for path in {str(folder.absolute()), str(folder.resolve())}:
        if path.count("/") > 1:  # never "/" or "/home": too much would be called so
            _FOLDERS[path] = name


def told(text: str) -> str:
    """Text for those who ask over HTTP: no secrets, and no place of this machine."""
    for folder in sorted(_FOLDERS, key=len, reverse=True):
        text = text.replace(folder, _FOLDERS[folder])
    return redact(text)


@lru_cache(maxsize=4)
def _secret_values(_size: int) -> tuple[str, ...]:
    """Read once, and again when the environment has grown: this is asked for every line."""
    pairs = os.environ.items()
    return tuple(v for name, v in pairs if len(v) >= 8 and _SECRET_NAME.search(name))


class JsonLines(logging.Formatter):
    """A record as one line of JSON; what was given as `extra` are keys of their own."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        row = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if found := request_id.get():
            row["request_id"] = found
        row |= _given(record)
        if record.exc_info:
            row["traceback"] = self.formatException(record.exc_info)
        return redact(json.dumps(row, ensure_ascii=True, default=str))


class Lines(logging.Formatter):
    """A record as one line for a person at a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """The time, what happened, and what came of it."""
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        extra = {key: value for key, value in _given(record).items() if key != "route"}
        told = " ".join(f"{key}={value}" for key, value in extra.items())
        level = "" if record.levelno < logging.WARNING else f"{record.levelname.lower()}: "
        text = _one_line(f"{clock} {level}{record.getMessage()} {told}".rstrip())
        if record.exc_info:
            text = f"{text}\n{self.formatException(record.exc_info)}"
        return redact(text)


def _given(record: logging.LogRecord) -> dict[str, Any]:
    """What was given as `extra`; Ray marks every record of a process with fields of its own."""
    return {
        key: value
        for key, value in vars(record).items()
        if key not in _STANDARD and not key.startswith("_")
    }


def _one_line(text: str) -> str:
    """Without what would begin a line or command the terminal: it may be a stranger's."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def set_up_logs(level: str = "INFO", *, human: bool = False) -> None:
    """Send every log line of this process to stderr: as JSON, or as text for a person."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines() if human else JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = name != "uvicorn.access"  # the guard writes the access log
    logging.getLogger("httpx").setLevel("WARNING")
    if human:  # the server says itself where it is
        logging.getLogger("uvicorn.error").setLevel("WARNING")
