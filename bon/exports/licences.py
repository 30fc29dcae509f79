"""What licences permit, judged by their names.

An unknown licence permits nothing: ask the holder of the rights. Not legal advice.
"""

import re
from dataclasses import dataclass

from bon.benchmarks import BENCHMARKS
from bon.experiment.config import IMPORTED, DatasetSpec


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
