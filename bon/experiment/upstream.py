"""Published prompts, downloaded and verified on the user's machine; read, never executed.

upstream.yaml names the files. Several have no licence or a non-commercial one, so their text is
not part of this project. Files are cached under their SHA-256, whatever mirror they came from.
"""

import ast
import hashlib
import re
import string
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from bon.core.errors import BonError, suggestion
from bon.core.files import cache_folder, write_atomic
from bon.core.validation import Location, Name, Strict, validate
from bon.experiment.prompts import Prompt
from bon.experiment.yamlfile import load_yaml, read_yaml

GITHUB = "https://raw.githubusercontent.com"
MAX_BYTES = 2_000_000
TIMEOUT = 30.0
REGISTRY = Path(__file__).parent / "upstream.yaml"

State = Literal["pulled", "not pulled", "damaged"]
Segment = tuple[str, str]
"""Literal text and the placeholder after it, or ""."""


class Upstream(Strict):
    """A published prompt: a file on GitHub at a commit, its placeholders and our names of them."""

    repository: Name
    commit: str = Field(pattern=r"^[0-9a-f]{40}$")
    path: Location
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    title: str
    licence: str
    template: str = Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of our template")
    values: dict[str, str] = Field(default_factory=dict)
    verdict: str = ""
    name: str = Field("", description="Python: variable that holds the text")
    function: str = Field("", description="Python: function around it")
    keys: tuple[str, ...] = Field((), description="YAML: keys that lead to the text")
    jinja: bool = Field(False, description="Other files: the whole is a template")
    markers: tuple[str, str] | None = Field(None, description="Other files: text between these")
    before: str = Field("", description="text that the source's code prepends")

    def url(self, base: str = GITHUB) -> str:
        """Return the file's URL on GitHub or on a mirror laid out like it."""
        return f"{base.rstrip('/')}/{self.repository}/{self.commit}/{self.path}"


@lru_cache(maxsize=1)
def registry() -> dict[str, Upstream]:
    """Return all known published prompts by name."""
    return {
        name: validate(Upstream, entry, f"{REGISTRY.name}: {name}")
        for name, entry in read_yaml(REGISTRY).items()
    }


def entry(name: str) -> Upstream:
    """Return one entry of the registry."""
    known = registry()
    if name not in known:
        hint = suggestion(name, known, cutoff=0.4)
        raise BonError(f"no published prompt {name!r}", f"{hint} (bon prompts list)")
    return known[name]


def published(name: str) -> Prompt:
    """Return a published prompt, with placeholders alone unless it was pulled."""
    source = entry(name)
    pulled = state(source) == "pulled"
    if pulled:
        wording = _registered(source, cache_path(source).read_text(encoding="utf-8"), name)
    else:
        wording = source.before + " ".join(f"{{{{ {ours} }}}}" for ours in source.values.values())
    return Prompt(f"upstream:{name}", wording, source.template, pulled)


def pull(name: str, base: str = GITHUB) -> Path:
    """Download, verify and cache a prompt's file, unless it is cached already."""
    source = entry(name)
    path = cache_path(source)
    if state(source) == "pulled":
        return path
    url = source.url(base)
    data = _fetch(url)
    digest = hashlib.sha256(data).hexdigest()
    if digest != source.sha256:
        raise BonError(
            f"{url} is not the registered file (SHA-256 {digest[:12]}…, "
            f"not {source.sha256[:12]}…): nothing was kept",
            "try again, or use another source with --mirror",
        )
    _registered(source, data.decode("utf-8"), name)  # raises if the prompt cannot be read
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, data)
    return path


def state(source: Upstream) -> State:
    """Compare the cached file with its registered SHA-256."""
    try:
        data = cache_path(source).read_bytes()
    except OSError:
        return "not pulled"
    return "pulled" if hashlib.sha256(data).hexdigest() == source.sha256 else "damaged"


def cache_path(source: Upstream) -> Path:
    """Return the cached file's path, named by its SHA-256."""
    return cache_folder() / "prompts" / source.sha256


def template(source: Upstream, text: str, name: str) -> str:
    """Convert the prompt in a file's text to a jinja2 template over our names."""
    node, split = _locate(source, text, name)
    parts: list[str] = []
    missing = set(source.values)
    for literal, placeholder in split(node):
        # Braces of the published text are not the template's.
        parts.append(f"{{% raw %}}{literal}{{% endraw %}}" if "{" in literal else literal)
        if placeholder:
            if placeholder not in source.values:
                raise BonError(f"published prompt {name!r}: unknown placeholder {placeholder!r}")
            missing.discard(placeholder)
            parts.append(f"{{{{ {source.values[placeholder]} }}}}")
    if missing:
        raise BonError(f"published prompt {name!r} has no placeholder {min(missing)!r}")
    joined = source.before + "".join(parts)
    return joined + "\n" if joined.endswith("\n") else joined  # jinja2 drops one newline


def _registered(source: Upstream, text: str, name: str) -> str:
    """Return the template, whose hash must be the one that keys rows where it is not pulled."""
    prompt = template(source, text, name)
    digest = hashlib.sha256(prompt.encode()).hexdigest()
    if digest != source.template:
        raise BonError(
            f"published prompt {name!r}: its template has SHA-256 {digest[:12]}…, "
            f"not the registered {source.template[:12]}…",
            "correct `template` of its entry in upstream.yaml",
        )
    return prompt


def _fetch(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as reply:  # an https or file URL
            data: bytes = reply.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # URLError is an OSError
        fix = "check the network, or use --mirror with a URL or folder laid out like GitHub"
        raise BonError(f"cannot fetch {url}: {getattr(error, 'reason', error)}", fix) from None
    if len(data) > MAX_BYTES:
        raise BonError(f"{url} is larger than {MAX_BYTES:,} bytes: nothing was kept")
    return data


Splitter = Callable[[ast.expr | str], Iterator[Segment]]


def _locate(source: Upstream, text: str, name: str) -> tuple[ast.expr | str, Splitter]:
    """Return the prompt within a file, and how to split it at placeholders."""
    if source.jinja:
        return text, _jinja_segments
    if source.keys:
        document = load_yaml(text)
        for key in source.keys:
            document = document.get(key) if isinstance(document, Mapping) else None
        if isinstance(document, str):
            return document, lambda node: iter([(str(node), "")])
        raise BonError(f"published prompt {name!r}: no text under {'.'.join(source.keys)}")
    if source.markers:
        start, end = source.markers
        _, opened, rest = text.partition(start)
        prompt, closed, _ = rest.partition(end)
        if opened and closed:
            return prompt, _format_segments
        raise BonError(f"published prompt {name!r}: its markers are not in the file")
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except SyntaxError as error:
        raise BonError(f"published prompt {name!r}: not Python ({error.msg})") from None
    if source.function:
        functions = (node for node in nodes if isinstance(node, ast.FunctionDef))
        named = next((node for node in functions if node.name == source.function), None)
        if named is None:
            raise BonError(f"published prompt {name!r}: no function {source.function!r}")
        nodes = list(ast.walk(named))
    for node in nodes:
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == source.name for target in node.targets
        ):
            fstring = any(isinstance(part, ast.JoinedStr) for part in ast.walk(node.value))
            return node.value, _fstring_segments if fstring else _format_segments
    raise BonError(f"published prompt {name!r}: no assignment to {source.name!r}")


def _fstring_segments(node: ast.expr | str) -> Iterator[Segment]:
    """Split an expression of string literals; `{x}` of an f-string is a placeholder."""
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
        raise BonError(f"a published prompt holds more than string literals ({kind})")


def _jinja_segments(node: ast.expr | str) -> Iterator[Segment]:
    """Split a template that only names values, also one that is rendered twice."""
    assert isinstance(node, str)
    once = re.sub(r"{%-? *(?:end)?raw *-?%}", "", node)
    pieces = re.split(r"""{{ *(\w+|""|'') *}}""", once)
    for text, name in zip(pieces[::2], [*pieces[1::2], ""], strict=True):
        if "{{" in text or "{%" in text:
            raise BonError("a published template does more than name values")
        yield text, name.strip("\"'")


def _format_segments(node: ast.expr | str) -> Iterator[Segment]:
    """Split a template for str.format."""
    text = node if isinstance(node, str) else "".join(t for t, _ in _fstring_segments(node))
    try:
        parsed = list(string.Formatter().parse(text))
    except ValueError as error:
        raise BonError(f"a published prompt cannot be read by str.format: {error}") from None
    for literal, field, _, _ in parsed:
        yield literal, field or ""
