"""`bon curate freeze`: an immutable version of the benchmark, with its audit, card and checksums.

The public part is one folder; held-out questions lie in a folder next to it, so that they are not
published by mistake.
"""

import hashlib
import hmac
import re
import secrets
import shutil
from collections import Counter
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

import bon
from bon.core.errors import BonError, some
from bon.core.files import write_atomic
from bon.curating.audit import CurationAudit, write_audit
from bon.curating.draw import STRATEGIES
from bon.curating.items import CuratedItem, write_pairs
from bon.curating.judged_runs import judged_runs
from bon.curating.label_audit import UNRESOLVED, Labelling, load_labelling
from bon.curating.workbench import Workbench
from bon.exports.licences import Licence, licence_of, licence_of_dataset
from bon.exports.pool import card_metadata

_CARD = Path(__file__).with_name("dataset_card.md")


@dataclass(frozen=True)
class Frozen:
    """Folders and item counts of a version; `left_out` counts excluded items by reason.

    labelled: items of the workbench with an answer of an annotator.
    """

    folder: Path
    held_out: Path | None
    public: int
    num_held_out: int
    left_out: dict[str, int]
    licence: str
    labelled: int


@dataclass(frozen=True)
class Freezing:
    """One version of a workbench. `anyway`: the reason to freeze against the audit."""

    bench: Workbench
    version: str
    requested_licence: str = ""
    private: bool = False
    anyway: str = ""

    def write(self) -> Frozen:
        """Write everything to a temporary folder first, so that a version is complete or absent."""
        self._check()
        licence = self.licence
        folder, held_out = self.folder, self.folder.with_name(f"{self.folder.name}-held-out")
        temporary = folder.with_name(f".{folder.name}.tmp")
        shutil.rmtree(temporary, ignore_errors=True)
        parts = temporary / "public", temporary / "held-out"
        counts = [self._write_split(part, part.name) for part in parts]
        if not counts[0]:
            raise BonError(
                "no item is left to publish", f"see the annotations: {self.bench.audit_path}"
            )
        self._write_proof(parts[0], licence)
        for part, count in zip(parts, counts, strict=True):
            if count:
                _write_checksums(part)
        shutil.rmtree(held_out, ignore_errors=True)  # of an interrupted freeze
        if counts[1]:
            parts[1].replace(held_out)
        parts[0].replace(folder)
        shutil.rmtree(temporary)
        return Frozen(
            folder,
            held_out if counts[1] else None,
            counts[0],
            counts[1],
            left_out=dict(Counter(self.left_out.values())),
            licence=licence,
            labelled=len(self.labelling.answers),
        )

    @property
    def folder(self) -> Path:
        """The public folder."""
        return self.bench.directory / f"v{self.version}"

    @cached_property
    def audit(self) -> CurationAudit:
        """The audit of the current items and annotations."""
        return write_audit(self.bench)

    @cached_property
    def labelling(self) -> Labelling:
        """The items with their annotations."""
        return load_labelling(self.bench)

    @cached_property
    def left_out(self) -> dict[str, str]:
        """Items that annotations exclude, and why."""
        reasons = {}
        for key, outcome in self.labelling.outcomes.items():
            if self.labelling.against.get(key):
                reasons[key] = "annotators chose another response than the label"
            elif outcome == UNRESOLVED:
                reasons[key] = "annotators disagree"
            elif not outcome.isdigit():
                reasons[key] = f"annotators say: {outcome}"
        return reasons

    @cached_property
    def sources(self) -> list[tuple[str, str, Licence]]:
        """Part, name and licence of the sets, or of the runs' questions and policies."""
        sources = {
            ("pairs", spec.title): licence_of_dataset(spec) for spec in self.bench.recipe.pairs
        }
        with judged_runs(self.bench) as runs:
            for run in runs:
                for spec in run.setup.experiment.questions:
                    sources["questions", spec.title] = licence_of_dataset(spec)
                for policy in run.setup.policies:
                    sources["answers", policy.card.name] = licence_of(policy.card.licence)
        return [(*source, licence) for source, licence in sources.items()]

    @cached_property
    def licence(self) -> str:
        """The licence that was named for the version; `other` if it is private.

        Whether the sources permit it is for whoever names it to read: the card has their terms.
        """
        if self.private:
            return "other"
        for part, name, licence in self.sources:
            if not licence.shareable:
                raise BonError(
                    f"{part} of {name} may not be passed on ({licence.name}: {licence.terms})",
                    "remove its run from recipe.yaml, or keep the benchmark in the team: --private",
                )
        if not self.requested_licence:
            names = sorted({licence.name for _, _, licence in self.sources})
            raise BonError(
                f"no licence is named; its sources have: {some(names)}",
                "name one that all of them permit: --licence NAME, or keep it in the team: "
                "--private",
            )
        return self.requested_licence

    def _pseudonym(self, annotator: str) -> str:
        """Hash a name with a salt that is kept in the workbench and never published."""
        path = self.bench.directory / ".salt"
        if not path.is_file():
            write_atomic(path, secrets.token_hex(16))
        return hmac.new(path.read_bytes(), annotator.encode(), hashlib.sha256).hexdigest()[:12]

    def _check(self) -> None:
        if not re.fullmatch(r"[0-9A-Za-z][0-9A-Za-z.-]*", self.version):
            raise BonError(f"{self.version!r} is not a version", "use one like 1 or 1.2")
        if self.folder.exists():
            raise BonError(
                f"{self.folder} is frozen already", "freeze the next version: versions never change"
            )
        if self.audit.blocks and not self.anyway:
            raise BonError(
                f"the audit objects: {some(self.audit.blocks)}",
                "fix it, or freeze with --anyway REASON, which the card will repeat",
            )

    def _items(self, split: str) -> list[CuratedItem]:
        items = (item for item in self.bench.items if item.split == split)
        return [item for item in items if item.key not in self.left_out]

    def _write_split(self, folder: Path, split: str) -> int:
        items = self._items(split)
        if not items:
            return 0
        write_pairs(items, self.bench.directory, folder / "pairs.parquet", self.labelling.tags)
        keys = {item.key for item in items}
        rows = [
            asdict(row) | {"annotator": self._pseudonym(row.annotator)}
            for row in self.labelling.annotations
            if row.item in keys
        ]
        if rows:
            pd.DataFrame(rows).to_parquet(folder / "annotations.parquet", index=False)
        return len(items)

    def _write_proof(self, folder: Path, licence: str) -> None:
        bench = self.bench
        for path in (bench.recipe_path, bench.proposal_path):
            if path.is_file():
                shutil.copyfile(path, folder / path.name)
        here = str(bench.directory)  # no path of this machine is published
        missing = tuple(line.replace(here, bench.name) for line in self.audit.missing)
        audit = self.audit.model_copy(update={"missing": missing})
        write_atomic(folder / "audit.json", audit.model_dump_json(indent=1))
        write_atomic(folder / "README.md", self._card(licence))

    def _card(self, licence: str) -> str:
        """Return the card of the published items, with metadata for `datasets` and the hub."""
        audit, items = self.audit, self._items("public")
        pairs = {"config_name": "pairs", "data_files": [{"split": "test", "path": "pairs.parquet"}]}
        held_out = f" {audit.held_out} more, on unpublished questions, are held out."
        left_out = Counter(self.left_out.values())
        reasons = "; ".join(f"{count}: {reason}" for reason, count in left_out.items())
        override = f"\n**Frozen although the audit objected:** {self.anyway}\n"
        counts: Counter[Any] = Counter(item.strategy for item in items)
        lines = [*audit.findings, *audit.warnings]
        lines[:0] = [] if audit.answered else ["No annotator has checked its labels."]
        return _CARD.read_text("utf-8").format(
            metadata=card_metadata(licence, ["reward-model", "preference", "benchmark"], [pairs]),
            name=self.bench.name,
            version=self.version,
            bon=bon.__version__,
            items=len(items),
            held_out=held_out if audit.held_out else "",
            private=" **Not to be passed on:** its sources do not permit it." * self.private,
            anyway=override if self.anyway else "",
            strategies="\n".join(
                f"| {name} | {count} | {STRATEGIES.get(name, 'a pair of this set')} |"
                for name, count in counts.most_common()
            ),
            left_out=f" Excluded after annotation: {reasons}." if reasons else "",
            quality="\n".join(f"- {line}" for line in lines),
            licences="\n".join(
                f"| {part} | {name} | {licence.name} | {licence.terms or '–'} |"
                for part, name, licence in self.sources
            ),
        )


def _write_checksums(folder: Path) -> None:
    """Write SHA256SUMS as `sha256sum -c` reads it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder).as_posix()}\n"
        for path in files
    ]
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
