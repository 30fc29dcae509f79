"""Structured logs: one JSON object per line with the request's id, without secrets."""

import json
import logging
import os
import re
import sys
import time
from contextvars import ContextVar
from pathlib import Path

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
        fields = vars(record).items()
        row = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **({"request_id": request} if (request := request_id.get()) else {}),
            # Ray adds private fields to every record.
            **{key: value for key, value in fields if key not in _STANDARD and key[0] != "_"},
        }
        if record.exc_info:
            row["traceback"] = self.formatException(record.exc_info)
        return redact(json.dumps(row, default=str))


def set_up_logs() -> None:
    """Send all logs of this process to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel("INFO")
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = name != "uvicorn.access"  # the guard writes the access log
    logging.getLogger("httpx").setLevel("WARNING")
