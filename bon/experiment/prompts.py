"""Prompts: jinja2 templates, whose id and SHA-256 are stored with every judgement."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateSyntaxError, UndefinedError, nodes
from jinja2.meta import find_undeclared_variables
from jinja2.sandbox import ImmutableSandboxedEnvironment

from bon.core.errors import BonError, one_line, suggestion
from bon.core.registry import Registry

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
"""Names that a template may use, by kind of model; a user's rewarder class has its own."""


PROMPTS: Registry[Path] = Registry(
    "prompt",
    "bon.prompts",
    lambda part: isinstance(part, Path),
    {
        path.stem: path
        for room in ("policies", "rewarders")
        for path in sorted(Path(str(resources.files(f"bon.{room}"))).glob("prompts/*.jinja"))
    },
)
"""The file of every prompt that a card can give by name."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A template with its name; `system` is the system turn before it.

    A published prompt that is not on this machine (`here`) has the `registered` hash and a
    `wording` of its names alone: its rows can be counted and reported, but not computed.
    """

    id: str
    wording: str
    registered: str = ""
    here: bool = True
    system: "Prompt | None" = None

    @property
    def text(self) -> str:
        """Return the template; BonError if it is not on this machine."""
        if not self.here:
            raise absent(self.unpulled)
        return self.wording

    @property
    def unpulled(self) -> tuple[str, ...]:
        """List the published prompts that are not on this machine."""
        own = () if self.here else (self.id.partition(":")[2],)
        return own + (self.system.unpulled if self.system is not None else ())

    @property
    def sha256(self) -> str:
        """Hash of the text."""
        own = self.registered or _sha256(self.text)
        return own if self.system is None else _sha256(f"{self.system.sha256} {own}")

    @property
    def ours(self) -> bool:
        """Whether the prompt ships with bon."""
        return self.id in PROMPTS.shipped

    def render(self, **values: Any) -> str:
        """Render the template; an unknown name raises BonError."""
        try:
            return _compile(self.text).render(**values)
        except UndefinedError as error:
            raise BonError(f"prompt {self.id!r}: {error}", "see `bon show` for its names") from None
        except Exception as error:
            raise BonError(
                f"prompt {self.id!r}: {one_line(error)}", "correct its template"
            ) from None

    def check(self, kind: str) -> None:
        """Refuse a template that a kind of model, or `system`, cannot fill."""
        names = () if kind == "system" else NAMES.get(kind)
        fault = _fault(self.wording, None if names is None else frozenset(names))
        if fault is not None:
            reason, fix = fault
            raise BonError(f"prompt {self.id!r}: {' '.join(reason.split())}", fix)


_ENVIRONMENT = ImmutableSandboxedEnvironment(
    undefined=StrictUndefined, autoescape=False, keep_trailing_newline=False
)


_SAMPLE = {"responses": ["A"] * 64, "steps": ["A"] * 64, "number": 1}
"""Values of the names that are no text."""


@lru_cache(maxsize=256)
def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@lru_cache(maxsize=256)
def _fault(wording: str, names: frozenset[str] | None) -> tuple[str, str] | None:
    """Return what is wrong with a template, and the fix."""
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
        for use in tree.find_all(kind):
            if use.name not in known:
                what = f"no {kind.__name__.lower()} {use.name!r} (its line {use.lineno})"
                return what, suggestion(use.name, known)
    if names is not None:
        try:  # what fails whatever the item says
            _compile(wording).render({name: _SAMPLE.get(name, "A") for name in names})
        except UndefinedError:
            pass
        except Exception as error:
            return f"cannot be filled in: {one_line(error)}", "correct its template"
        guarded = {
            test.node.name
            for test in tree.find_all(nodes.Test)
            if test.name in ("defined", "undefined") and isinstance(test.node, nodes.Name)
        }
        for name in sorted(find_undeclared_variables(tree) - names - guarded):
            return f"unknown name {name!r}", suggestion(name, sorted(names))
        both = {"first", "second"}
        if both <= names and len(lacking := both - find_undeclared_variables(tree)) == 1:
            (other,) = lacking
            return f"shows no `{other}`", f"write {{{{ {other} }}}} where the model reads it"
    return None


@lru_cache(maxsize=256)
def _compile(text: str) -> Template:
    return _ENVIRONMENT.from_string(text)


def absent(names: Iterable[str], cards: Sequence[str] = ()) -> BonError:
    """Return the error for published prompts that are not on this machine."""
    missing = sorted(set(names))
    which = ", ".join(map(repr, missing))
    subject = f"prompts {which} are" if len(missing) > 1 else f"prompt {which} is"
    use = f"needed by {', '.join(cards)}: " if cards else ""
    return BonError(
        f"{use}the published {subject} not on this machine", f"bon prompts pull {' '.join(missing)}"
    )
