"""Prompts by reference: shipped wording, a user's file, inline text, or a pulled upstream one.

A prompt is a jinja2 template. Its id and SHA-256 go into every judgement, so results under
different prompts are never mixed.
"""

import difflib
import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError, TemplateSyntaxError, nodes
from jinja2.meta import find_undeclared_variables
from jinja2.sandbox import ImmutableSandboxedEnvironment

from bon.core.errors import BonError

NAMES: dict[str, tuple[str, ...]] = {
    "policy": ("question", "options", "letters"),
    "pairwise": ("prompt", "first", "second"),
    "pointwise": ("prompt", "response"),
    "listwise": ("prompt", "responses"),
    "stepwise": ("prompt", "steps", "step", "number"),
    "scalar": ("prompt",),
    "likelihood": ("prompt",),
    "rerank": ("instruction", "query", "document"),
}
"""What a template may name, by who is asked; a rewarder class of one's own decides for itself."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A template's text with the name it came by and the hash of what it says.

    A published prompt that is not `here`, on this machine, has the hash of the `registered` one and
    a `wording` of its names alone, so that what was asked with it can be counted and reported, but
    nothing can be asked. `system` is the system turn that goes before it.
    """

    id: str
    wording: str
    registered: str = ""
    here: bool = True
    system: "Prompt | None" = None

    @property
    def text(self) -> str:
        """The template; BonError where it is not on this machine."""
        if not self.here:
            raise absent(self.unpulled)
        return self.wording

    @property
    def unpulled(self) -> tuple[str, ...]:
        """The names of published prompts that are not on this machine."""
        own = () if self.here else (self.id.partition(":")[2],)
        return own + (self.system.unpulled if self.system is not None else ())

    @property
    def sha256(self) -> str:
        """Hash of the wording."""
        own = self.registered or _sha256(self.text)
        return own if self.system is None else _sha256(f"{self.system.sha256} {own}")

    @property
    def ours(self) -> bool:
        """Whether it is a shipped wording, and not a published one or a user's."""
        return bool(self.id) and self.id != "inline" and ":" not in self.id

    def render(self, **values: Any) -> str:
        """The prompt with its values filled in; an unknown name in it is an error."""
        try:
            parts = _names_alone(self.text)
            if parts is None or not all(type(values.get(name)) is str for name, _ in parts if name):
                return _compile(self.text).render(**values)
            return "".join([values[name] if name else said for name, said in parts])
        except TemplateError as error:
            raise BonError(f"prompt {self.id!r}: {error}", "see `bon show` for its names") from None

    def check(self, names: Collection[str] | None) -> None:
        """Refuse a template that cannot be filled in with these names (None: any names).

        Nothing is rendered: a template may take as long as it likes.
        """
        fault = _fault(self.wording, None if names is None else frozenset(names))
        if fault is not None:
            reason, fix = fault
            raise BonError(f"prompt {self.id!r}: {' '.join(reason.split())}", fix)


_ENVIRONMENT = ImmutableSandboxedEnvironment(
    undefined=StrictUndefined, autoescape=False, keep_trailing_newline=False
)


@lru_cache(maxsize=256)
def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@lru_cache(maxsize=256)
def _fault(wording: str, names: frozenset[str] | None) -> tuple[str, str] | None:
    """What keeps a template from being filled in with these names, and the fix."""
    try:
        tree = _ENVIRONMENT.parse(wording)
    except TemplateSyntaxError as error:
        fix = "close every {{ }} and {% %}; a literal brace is written {{ '{' }}"
        return f"{error.message} (its line {error.lineno})", fix
    except (RecursionError, ValueError) as error:
        return f"cannot be read: {error}", "write it more simply"
    for node in tree.find_all((nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)):
        return f"line {node.lineno} reads another template", "write it out here"
    for kind, known in ((nodes.Filter, _ENVIRONMENT.filters), (nodes.Test, _ENVIRONMENT.tests)):
        for found in tree.find_all(kind):
            if found.name not in known:
                what = f"no {kind.__name__.lower()} {found.name!r} (its line {found.lineno})"
                return what, nearest(found.name, list(known))
    if names is not None:
        guarded = {
            test.node.name
            for test in tree.find_all(nodes.Test)
            if test.name in ("defined", "undefined") and isinstance(test.node, nodes.Name)
        }
        for name in sorted(find_undeclared_variables(tree) - names - guarded):
            return f"unknown name {name!r}", nearest(name, sorted(names))
    return None


@lru_cache(maxsize=256)
def _compile(text: str) -> Template:
    return _ENVIRONMENT.from_string(text)


@lru_cache(maxsize=256)
def _names_alone(text: str) -> tuple[tuple[str, str], ...] | None:
    """(name, "") or ("", literal text) of each part of a template that has nothing else in it.

    Putting those together takes a tenth of what rendering takes, for every item of a run.
    """
    parts = []
    for node in _ENVIRONMENT.parse(text).body:
        for part in node.nodes if isinstance(node, nodes.Output) else (node,):
            if isinstance(part, nodes.Name):
                parts.append((part.name, ""))
            elif isinstance(part, nodes.TemplateData):
                parts.append(("", part.data))
            else:
                return None
    return tuple(parts)


def absent(names: Iterable[str], cards: Sequence[str] = ()) -> BonError:
    """The refusal to ask with published prompts that are not on this machine."""
    found = sorted(set(names))
    which = ", ".join(map(repr, found))
    said = f"prompts {which} are" if len(found) > 1 else f"prompt {which} is"
    use = f"needed by {', '.join(cards)}: " if cards else ""
    return BonError(
        f"{use}the published {said} not on this machine", f"bon prompts pull {' '.join(found)}"
    )


def nearest(word: str, known: list[str]) -> str:
    """What to write instead of an unknown name."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known[:12])}"
