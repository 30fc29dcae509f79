"""Under which licence a benchmark may be passed on, as far as those of its sources say.

The strictest source decides, and some cannot go together at all. What a licence's name says is
known to `bon.exports.licences`; none of this is a lawyer's advice.
"""

import re
from collections.abc import Mapping

from bon.core.errors import BonError
from bon.exports.licences import Licence

OTHER = "other"
_SHARE_ALIKE = re.compile(r"\bby[- ](?:nc[- ])?sa\b|share-?alike", re.I)
_STRICTEST_LAST = (
    ("apache-2.0", re.compile(r"^(?:apache-2\.0|mit\b|bsd|cc0)", re.I)),
    ("cc-by-4.0", re.compile(r"^cc[ -]by(?![ -](?:nc|sa|nd))", re.I)),
    ("cc-by-nc-4.0", re.compile(r"^cc[ -]by[ -]nc(?![ -](?:sa|nd))|non-?commercial", re.I)),
)
"""What is made of sources up to this one may be passed on under; then come terms of their own."""


def licence_for(sources: Mapping[str, Licence], wanted: str = "") -> str:
    """The licence of what is made of these sources (what: its licence), as the hub names it.

    Args:
        wanted: what its maker wants instead; it may permit less than the sources, not more.

    Raises:
        BonError: a source may not be passed on, two cannot go together, or `wanted` permits more.
    """
    for what, licence in sources.items():
        if not licence.share:
            raise BonError(
                f"{what} may not be passed on ({licence.name}: {licence.says})",
                "leave its run out of recipe.yaml, or keep it in the team: --private",
            )
    alike = {what: one.name for what, one in sources.items() if _SHARE_ALIKE.search(one.name)}
    if alike:
        return _under_its_own(alike, sources, wanted)
    ranked = {what: _strictness(one.name) for what, one in sources.items()}
    strictest = max(ranked, key=ranked.__getitem__)
    if not wanted:
        return _name(ranked[strictest])
    if _strictness(wanted) < ranked[strictest]:
        raise BonError(
            f"{wanted} permits more than {strictest} ({sources[strictest].name}) does",
            f"say --licence {_name(ranked[strictest])}, or leave its run out of recipe.yaml",
        )
    return wanted


def _under_its_own(alike: Mapping[str, str], sources: Mapping[str, Licence], wanted: str) -> str:
    """Share-alike: all of it under the one licence, which no other source may forbid."""
    one, name = next(iter(alike.items()))
    plain = _plain(name)
    commercial = "-nc" not in plain
    for what, licence in sources.items():
        forbids = commercial and _strictness(licence.name) > 1 and what not in alike
        if forbids or (what in alike and _plain(licence.name) != plain):
            raise BonError(
                f"{one} ({name}) must be passed on under its own licence, which {what} "
                f"({licence.name}) does not permit",
                "leave one of their runs out of recipe.yaml",
            )
    if wanted and _plain(wanted) != plain:
        raise BonError(f"{one} must be passed on under {name}", f"say --licence {plain}")
    return plain


def _strictness(name: str) -> int:
    """The place in `_STRICTEST_LAST`; beyond it for terms of their own."""
    found = (rank for rank, (_, pattern) in enumerate(_STRICTEST_LAST) if pattern.search(name))
    return next(found, len(_STRICTEST_LAST))


def _name(strictness: int) -> str:
    return _STRICTEST_LAST[strictness][0] if strictness < len(_STRICTEST_LAST) else OTHER


def _plain(name: str) -> str:
    return re.sub(r"[\s-]+", "-", name.strip().lower())
