"""Whether the model that an endpoint names in a reply is the one that was requested."""

import re

_VARIANT = re.compile(r":(?:latest|free|nitro|floor|exacto|online|extended|beta)$")  # OpenRouter
_BEDROCK = re.compile(r"^(?:[a-z-]+\.){1,2}(?=[a-z])|-v\d+:\d+$")  # us.anthropic.NAME-v1:0
_MONTH, _DAY = r"(?:0[1-9]|1[0-2])", r"(?:[0-2]\d|3[01])"
_SNAPSHOT = re.compile(
    rf"[-@](20\d\d-?{_MONTH}-?{_DAY}|{_MONTH}-20\d\d|2\d{_MONTH}(?:{_DAY})?|{_MONTH}{_DAY}"
    r"|0\d\d|latest|default)$"
)


def is_same_model(requested: str, served: str) -> bool:
    """Whether both name one model: equal, or one a dated snapshot of the other.

    Providers' prefixes (openai/, us.anthropic.), case, and dots for hyphens do not count, nor do a
    path before a folder's name, as vLLM serves it, and the routes of OpenRouter (:free). Two dates
    have to agree.
    """
    if requested == served:
        return True
    (name, date), (other_name, other_date) = _parts(requested), _parts(served)
    return name == other_name and (date == other_date or not date or not other_date)


def _parts(name: str) -> tuple[str, str]:
    """Return a model's name without its snapshot, and the snapshot's date or number."""
    name = _VARIANT.sub("", name.lower().rstrip("/").rpartition("/")[2])
    name = re.sub(r"[._]", "-", _BEDROCK.sub("", name))
    snapshot = _SNAPSHOT.search(name)
    if snapshot is None:
        return name, ""
    date = snapshot[1].replace("-", "")
    return name[: snapshot.start()], "" if date in ("latest", "default") else date
