"""Published prompts: fetched on the user's machine, checked, cached; read, never run.

upstream.yaml says where each one is. Several have no licence or a non-commercial one, so their
wording is not part of this project. A file is kept under its SHA-256, so where it came from
(GitHub, a mirror, a folder) does not matter.
"""

import ast
import difflib
import hashlib
import os
import re
import string
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from bon.core.errors import BonError
from bon.core.files import cache_folder
from bon.experiment.config import Strict
from bon.experiment.prompts import Prompt
from bon.experiment.refusals import validate
from bon.experiment.yamlfile import load_yaml, read_yaml

GITHUB = "https://raw.githubusercontent.com"
MAX_BYTES = 2_000_000
TIMEOUT = 30.0
REGISTRY = Path(__file__).parent / "upstream.yaml"

State = Literal["pulled", "not pulled", "damaged"]
Segment = tuple[str, str]
"""Literal text, and the placeholder after it ("" where there is none)."""


class Upstream(Strict):
    """Where one published prompt is and how its placeholders map to ours."""

    title: str
    repository: str
    commit: str = Field(pattern=r"^[0-9a-f]{40}$")
    path: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    licence: str
    template: str = Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of it over our names")
    values: dict[str, str] = Field(default_factory=dict)
    verdict: str = ""
    name: str = Field("", description="Python: the string assigned to this name")
    function: str = Field("", description="Python: the function that assigns it")
    keys: tuple[str, ...] = Field((), description="YAML: the keys that lead to the text")
    jinja: bool = Field(False, description="Other files: the whole is a jinja template of values")
    markers: tuple[str, str] | None = Field(None, description="Other files: around the text")
    before: str = Field("", description="what the source's code puts before it, over our names")

    def url(self, base: str = GITHUB) -> str:
        """Where the file is, on GitHub or on a mirror laid out like it."""
        return f"{base.rstrip('/')}/{self.repository}/{self.commit}/{self.path}"


def registry(path: Path = REGISTRY) -> dict[str, Upstream]:
    """Every known published prompt by name."""
    return {
        name: validate(Upstream, entry, f"{path.name}: {name}")
        for name, entry in read_yaml(path).items()
    }


def entry(name: str) -> Upstream:
    """One published prompt of the registry."""
    known = _registry()
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
        hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
        raise BonError(f"no published prompt {name!r}", f"{hint} (bon prompts list)")
    return known[name]


def published(name: str) -> Prompt:
    """A published prompt, with its wording where the user has pulled it."""
    found = entry(name)
    here = state(found) == "pulled"
    if here:
        wording = _registered(found, cache_path(found).read_text(encoding="utf-8"), name)
    else:
        wording = found.before + " ".join(f"{{{{ {ours} }}}}" for ours in found.values.values())
    return Prompt(f"upstream:{name}", wording, found.template, here)


def pull(name: str, base: str = GITHUB) -> Path:
    """Fetch a prompt's file, check it and keep it; a copy in the cache is not fetched again."""
    found = entry(name)
    path = cache_path(found)
    if state(found) == "pulled":
        return path
    url = found.url(base)
    data = _fetch(url)
    digest = hashlib.sha256(data).hexdigest()
    if digest != found.sha256:
        raise BonError(
            f"{url} is not the file that was registered (SHA-256 {digest[:12]}…, "
            f"not {found.sha256[:12]}…): nothing was kept",
            "try again, or take it from another place with --mirror",
        )
    _registered(found, data.decode("utf-8"), name)  # before it is kept: it must be readable
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".")
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    os.replace(temporary, path)
    return path


def state(found: Upstream) -> State:
    """Whether the cached file is there and is what was registered."""
    try:
        data = cache_path(found).read_bytes()
    except OSError:
        return "not pulled"
    return "pulled" if hashlib.sha256(data).hexdigest() == found.sha256 else "damaged"


def cache_path(found: Upstream) -> Path:
    """Where the file is kept: by what is in it, in the user's cache folder."""
    return cache_folder() / "prompts" / found.sha256


def template(found: Upstream, source: str, where: str) -> str:
    """The prompt in `source` as a jinja2 template over our names."""
    text, read = _locate(found, source, where)
    parts: list[str] = []
    used: set[str] = set()
    for literal, placeholder in read(text):
        # A brace of the published text must not be taken for one of the template's.
        parts.append(f"{{% raw %}}{literal}{{% endraw %}}" if "{" in literal else literal)
        if placeholder:
            if placeholder not in found.values:
                raise BonError(f"published prompt {where!r}: unknown placeholder {placeholder!r}")
            used.add(placeholder)
            parts.append(f"{{{{ {found.values[placeholder]} }}}}")
    if missing := set(found.values) - used:
        raise BonError(f"published prompt {where!r} has no placeholder {sorted(missing)[0]!r}")
    joined = found.before + "".join(parts)
    return joined + "\n" if joined.endswith("\n") else joined  # jinja2 drops one line end


def _registered(found: Upstream, source: str, where: str) -> str:
    """The template, known to be the one that rows are filed under where it is not pulled."""
    text = template(found, source, where)
    digest = hashlib.sha256(text.encode()).hexdigest()
    if digest != found.template:
        raise BonError(
            f"published prompt {where!r}: its text makes the template {digest[:12]}…, "
            f"not {found.template[:12]}…, which was registered",
            "correct `template` of its entry in upstream.yaml",
        )
    return text


@lru_cache(maxsize=1)
def _registry() -> dict[str, Upstream]:
    return registry()


def _fetch(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as reply:  # an https or file URL
            data: bytes = reply.read(MAX_BYTES + 1)
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise BonError(
            f"cannot fetch {url}: {reason}",
            "check the network, or use --mirror with a URL or folder laid out like GitHub",
        ) from None
    if len(data) > MAX_BYTES:
        raise BonError(f"{url} is larger than {MAX_BYTES:,} bytes: nothing was kept")
    return data


Reader = Callable[[ast.expr | str], Iterator[Segment]]


def _locate(found: Upstream, source: str, where: str) -> tuple[ast.expr | str, Reader]:
    """The prompt's text and how to read it."""
    if found.jinja:
        return source, _jinja_segments
    if found.keys:
        return _under(found.keys, load_yaml(source), where), _as_it_is
    if found.markers:
        start, end = found.markers
        _, opened, rest = source.partition(start)
        text, closed, _ = rest.partition(end)
        if not (opened and closed):
            raise BonError(f"published prompt {where!r}: its markers are not in the file")
        return text, _format_segments
    try:
        body: ast.AST = ast.parse(source)
    except SyntaxError as error:
        raise BonError(f"published prompt {where!r}: not Python ({error.msg})") from None
    if found.function:
        functions = [n for n in ast.walk(body) if isinstance(n, ast.FunctionDef)]
        named = [n for n in functions if n.name == found.function]
        if not named:
            raise BonError(f"published prompt {where!r}: no function {found.function!r}")
        body = named[0]
    for node in ast.walk(body):
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == found.name for target in node.targets
        ):
            fstring = any(isinstance(part, ast.JoinedStr) for part in ast.walk(node.value))
            return node.value, _fstring_segments if fstring else _format_segments
    raise BonError(f"published prompt {where!r}: nothing is assigned to {found.name!r}")


def _under(keys: Sequence[str], document: Any, where: str) -> str:
    """The text that a YAML file has under these keys."""
    for key in keys:
        document = document.get(key) if isinstance(document, Mapping) else None
    if not isinstance(document, str):
        raise BonError(f"published prompt {where!r}: no text under {'.'.join(keys)}")
    return document


def _fstring_segments(node: ast.expr | str) -> Iterator[Segment]:
    """Texts of an expression of string literals; `{x}` of an f-string is a placeholder."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value, ""
    elif isinstance(node, ast.JoinedStr):
        for part in node.values:
            yield from _fstring_segments(part)
    elif isinstance(node, ast.FormattedValue):
        yield "", ast.unparse(node.value)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _fstring_segments(node.left)
        yield from _fstring_segments(node.right)
    else:
        kind = type(node).__name__
        raise BonError(f"a published prompt is not made of string literals alone ({kind})")


def _as_it_is(text: ast.expr | str) -> Iterator[Segment]:
    """A text without placeholders."""
    yield str(text), ""


def _jinja_segments(node: ast.expr | str) -> Iterator[Segment]:
    """Texts of a template that does no more than name values, also if it is filled in twice."""
    assert isinstance(node, str)
    once = re.sub(r"{%-? *(?:end)?raw *-?%}", "", node)
    pieces = re.split(r"""{{ *(\w+|""|'') *}}""", once)
    for text, name in zip(pieces[::2], [*pieces[1::2], ""], strict=True):
        if "{{" in text or "{%" in text:
            raise BonError("a published template does more than name values")
        yield text, name.strip("\"'")


def _format_segments(node: ast.expr | str) -> Iterator[Segment]:
    """Texts of a template for str.format."""
    text = node if isinstance(node, str) else "".join(t for t, _ in _fstring_segments(node))
    try:
        parsed = list(string.Formatter().parse(text))
    except ValueError as error:
        raise BonError(f"a published prompt cannot be read by str.format: {error}") from None
    for literal, field, _, _ in parsed:
        yield literal, field or ""
