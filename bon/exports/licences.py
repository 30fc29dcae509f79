"""What licences permit, judged by their names, and the licence of what combines several.

An unknown licence permits nothing: ask the holder of the rights. Not legal advice.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from bon.benchmarks import BENCHMARKS
from bon.core.errors import BonError
from bon.experiment.config import IMPORTED, DatasetSpec

OTHER = "other"


@dataclass(frozen=True, slots=True)
class Licence:
    """The terms of a licence; `shareable`: texts and images under it may be passed on."""

    name: str
    terms: str
    shareable: bool


_TERMS = (
    # pattern of the name, terms, shareable; the first match counts
    (r"research use only", "its page allows research use only: ask before you pass it on", False),
    (r"\bnd\b", "no derivatives: what is made of it may not be published", False),
    (r"\bnc\b|non-commercial|free for research", "no commercial use", True),
    (r"terms of service", "a provider's terms: most forbid training competing models on outputs",
     True),
    (r"research licence", "research only: no commercial use", True),
    (r"community|qwen licence|qianwen licence|llama",
     "its own conditions, on naming and size of use: read them", True),
    (r"as the data|as your", "that of your own data or model, which only you know", True),
    (r"^apache-2\.0|^mit\b|^bsd|^cc0|^cc by 4\.0|^cc by-sa", "", True),
)  # fmt: skip
_STRICTEST_LAST = (
    ("apache-2.0", re.compile(r"^(?:apache-2\.0|mit\b|bsd|cc0)", re.I)),
    ("cc-by-4.0", re.compile(r"^cc[ -]by(?![ -](?:nc|sa|nd))", re.I)),
    ("cc-by-nc-4.0", re.compile(r"^cc[ -]by[ -]nc(?![ -](?:sa|nd))|non-?commercial", re.I)),
)
"""The hub's licence for works that combine sources up to this one; beyond them it is OTHER."""
_SHARE_ALIKE = re.compile(r"\bby[- ](?:nc[- ])?sa\b|share-?alike", re.I)


def licence_of(name: str) -> Licence:
    """Return the licence of this name."""
    for pattern, terms, shareable in _TERMS:
        if re.search(pattern, name.lower()):
            return Licence(name, terms, shareable)
    return Licence(name, "not stated: nothing is known to be permitted", False)


def licence_of_dataset(spec: DatasetSpec) -> Licence:
    """Return the licence of a benchmark's data; that of imported questions is theirs."""
    imported = spec.benchmark == IMPORTED
    return licence_of("as the data" if imported else BENCHMARKS[spec.benchmark].licence)


def combined_licence(sources: Mapping[str, Licence], requested: str = "") -> str:
    """Return the hub's name of the licence for what combines these sources.

    requested: may permit less than the sources, not more.
    """
    for source, licence in sources.items():
        if not licence.shareable:
            raise BonError(
                f"{source} may not be passed on ({licence.name}: {licence.terms})",
                "remove its run from recipe.yaml, or keep the benchmark in the team: --private",
            )
    alike = {source: one.name for source, one in sources.items() if _SHARE_ALIKE.search(one.name)}
    if alike:
        return _share_alike(alike, sources, requested)
    ranks = {source: _strictness(licence.name) for source, licence in sources.items()}
    strictest = max(ranks, key=ranks.__getitem__)
    name = (*(name for name, _ in _STRICTEST_LAST), OTHER)[ranks[strictest]]
    if requested and _strictness(requested) < ranks[strictest]:
        raise BonError(
            f"{requested} permits more than {strictest} ({sources[strictest].name}) does",
            f"use --licence {name}, or remove its run from recipe.yaml",
        )
    return requested or name


def _share_alike(alike: Mapping[str, str], sources: Mapping[str, Licence], requested: str) -> str:
    """Everything is under the one share-alike licence, which no other source may forbid."""
    first, name = next(iter(alike.items()))
    slug = _slug(name)
    for source, licence in sources.items():
        forbids = "-nc" not in slug and _strictness(licence.name) > 1 and source not in alike
        if forbids or (source in alike and _slug(licence.name) != slug):
            raise BonError(
                f"{first} ({name}) must be passed on under its own licence, which {source} "
                f"({licence.name}) does not permit",
                "remove one of their runs from recipe.yaml",
            )
    if requested and _slug(requested) != slug:
        raise BonError(f"{first} must be passed on under {name}", f"use --licence {slug}")
    return slug


def _strictness(name: str) -> int:
    ranks = (rank for rank, (_, pattern) in enumerate(_STRICTEST_LAST) if pattern.search(name))
    return next(ranks, len(_STRICTEST_LAST))


def _slug(name: str) -> str:
    return re.sub(r"[\s-]+", "-", name.strip().lower())
