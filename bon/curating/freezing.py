"""The last step: a version of the benchmark that does not change any more, and all that proves it.

What may be published lies in one folder; the questions that were held out lie beside it, so that
nobody publishes them by mistake.
"""

import hashlib
import hmac
import re
import secrets
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import ValidationError

from bon.analysis.report.audit_page import audit_page
from bon.analysis.results.audited import CurationAudit
from bon.core.errors import BonError, some
from bon.core.files import write_atomic
from bon.curating.annotations import Annotation
from bon.curating.audit import labelling_of, suspected
from bon.curating.consensus import UNRESOLVED, Labelling
from bon.curating.dataset_card import FrozenSource, dataset_card
from bon.curating.frozen_rows import PAIRS, TIES, pair_rows, tie_rows, write_rows
from bon.curating.items import CuratedItem
from bon.curating.judged_runs import judged_runs
from bon.curating.stubs import write_lmms_eval, write_vlmevalkit
from bon.curating.terms import OTHER, licence_for
from bon.curating.workbench import Workbench
from bon.exports.licences import licence_of, licence_of_dataset
from bon.exports.scored import name_of


@dataclass(frozen=True)
class Frozen:
    """What was frozen, and where. `left_out`: why items are not in it -> how many."""

    folder: Path
    held_out: Path | None
    public: int
    kept_back: int
    left_out: dict[str, int]
    licence: str


@dataclass(frozen=True)
class Freezing:
    """One version of a workbench. `anyway`: why it is frozen although the audit says no."""

    bench: Workbench
    version: str
    wanted_licence: str = ""
    private: bool = False
    anyway: str = ""

    def write(self) -> Frozen:
        """Everything, first into a temporary folder, so that a version is whole or not there.

        Raises:
            BonError: the audit is missing, old or says no; a licence forbids it; it exists.
        """
        self._check()
        licence = self.licence
        folder, back = self.folder, self.folder.with_name(f"{self.folder.name}-held-out")
        temporary = folder.with_name(f".{folder.name}.tmp")
        shutil.rmtree(temporary, ignore_errors=True)
        public, held = temporary / "public", temporary / "held-out"
        counts = {where: self._write_split(where, split) for where, split in (
            (public, "public"), (held, "held-out")
        )}  # fmt: skip
        self._write_proof(public, licence)
        for where in (public, held):
            if where.is_dir():
                _write_sums(where)
        shutil.rmtree(back, ignore_errors=True)  # of a freeze that was stopped before its last step
        if held.is_dir():
            held.replace(back)
        public.replace(folder)
        shutil.rmtree(temporary)
        return Frozen(
            folder,
            back if counts[held] else None,
            counts[public],
            counts[held],
            dict(Counter(self.left_out.values())),
            licence,
        )

    @property
    def folder(self) -> Path:
        """What may be published."""
        return self.bench.directory / f"v{self.version}"

    @cached_property
    def audit(self) -> CurationAudit:
        """What the audit found of the items and annotations as they are now."""
        path, again = self.bench.audit_path, f"bon curate audit {self.bench.directory}"
        try:
            found = CurationAudit.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            raise BonError(f"{self.bench.directory} was not audited yet", again) from None
        except ValidationError:
            raise BonError(f"{path} is not of this version", again) from None
        made = path.stat().st_mtime
        for other in (self.bench.items_path, self.bench.annotations_path, self.bench.recipe_path):
            if other.is_file() and other.stat().st_mtime > made:
                raise BonError(f"{other.name} changed after the audit", again)
        return found

    @cached_property
    def labelling(self) -> Labelling:
        """The items with what people said of them."""
        return labelling_of(self.bench)

    @cached_property
    def left_out(self) -> dict[str, str]:
        """Item -> why people's answers keep it out."""
        found = {}
        for key, outcome in self.labelling.outcomes.items():
            if self.labelling.against.get(key):
                found[key] = "people chose another response than the label"
            elif outcome == UNRESOLVED:
                found[key] = "people disagree"
            elif not outcome.isdigit() and self._items[key].better is not None:
                found[key] = f"people say: {outcome}"
        return found

    @cached_property
    def _items(self) -> dict[str, CuratedItem]:
        return {item.key: item for item in self.bench.items}

    @cached_property
    def sources(self) -> list[FrozenSource]:
        """The questions and policies of the runs, with their licences, each once."""
        found: dict[str, FrozenSource] = {}
        with judged_runs(self.bench) as runs:
            for run in runs:
                spec = run.setup.experiment.questions
                made = [FrozenSource("questions", name_of(spec), licence_of_dataset(spec))]
                made += [
                    FrozenSource("answers", one.card.name, licence_of(one.card.licence))
                    for one in run.setup.policies
                ]
                found |= {f"{source.what} of {source.name}": source for source in made}
        return list(found.values())

    @cached_property
    def licence(self) -> str:
        """Under what it may be passed on; `other` for one that is not passed on."""
        if self.private:
            return OTHER
        named = {f"{one.what} of {one.name}": one.licence for one in self.sources}
        return licence_for(named, self.wanted_licence)

    def _hashed(self, annotator: str) -> str:
        """Who it was, to everybody who has the workbench and to nobody else."""
        return hmac.new(self._salt, annotator.encode(), hashlib.sha256).hexdigest()[:12]

    @cached_property
    def _salt(self) -> bytes:
        """Kept in the workbench, so that versions agree, and never published."""
        path = self.bench.directory / ".salt"
        if not path.is_file():
            write_atomic(path, secrets.token_hex(16))
            path.chmod(0o600)
        return path.read_bytes()

    def _check(self) -> None:
        if not re.fullmatch(r"[0-9A-Za-z][0-9A-Za-z.-]*", self.version):
            raise BonError(f"{self.version!r} is no version", "say one like 1 or 1.2")
        if self.folder.exists():
            raise BonError(
                f"{self.folder} is frozen already",
                "freeze the next version: a version never changes",
            )
        if self.audit.blocks and not self.anyway:
            raise BonError(
                f"the audit says no: {some(self.audit.blocks)}",
                "mend it, or freeze with --anyway REASON, which the card will repeat",
            )

    def _kept(self, split: str) -> list[CuratedItem]:
        return [
            item
            for item in self.bench.items
            if item.split == split and item.key not in self.left_out
        ]

    def _write_split(self, where: Path, split: str) -> int:
        items = self._kept(split)
        if not items:
            return 0
        tags = {key: ", ".join(sorted(some)) for key, some in self.labelling.tags.items()}
        images = self.bench.directory

        def rows() -> Iterator[dict[str, Any]]:
            return pair_rows(items, images, tags)

        write_rows(rows(), PAIRS, where / "pairs.parquet")
        if any(item.better is None for item in items):
            write_rows(tie_rows(items, images), TIES, where / "ties.parquet")
        if split == "public":
            name = re.sub(r"\W+", "_", self.bench.name).strip("_") or "benchmark"
            write_lmms_eval(rows(), where / "lmms_eval", name, self.version)
            write_vlmevalkit(rows(), where / "vlmevalkit", name)
        self._write_annotations({item.key for item in items}, where)
        return len(items)

    def _write_annotations(self, keys: set[str], where: Path) -> None:
        """One row per label; who gave it is a hash that only the workbench can make."""
        rows = [
            _annotation_row(row, self._hashed(row.annotator))
            for row in self.labelling.annotations
            if row.item in keys
        ]
        if rows:
            pd.DataFrame(rows).to_parquet(where / "annotations.parquet", index=False)

    def _write_proof(self, where: Path, licence: str) -> None:
        if not where.is_dir():
            raise BonError(
                "no item is left to publish", f"see what people said: {self.bench.audit_path}"
            )
        for path in (self.bench.recipe_path, self.bench.proposal_path):
            if path.is_file():
                shutil.copyfile(path, where / path.name)
        found = _without_names(self.audit, self._hashed)
        here = str(self.bench.directory)
        found = found.model_copy(
            update={"missing": tuple(one.replace(here, self.bench.name) for one in found.missing)}
        )
        public = {item.id for item in self.bench.items if item.split == "public"}
        shown = [one for one in suspected(self.bench, found) if one.id in public]
        write_atomic(where / "audit.json", found.model_dump_json(indent=1))
        write_atomic(where / "audit.html", audit_page(found, shown))
        prediction = self.bench.prediction_path
        if (
            prediction.is_file()
            and prediction.stat().st_mtime > self.bench.items_path.stat().st_mtime
        ):
            shutil.copyfile(prediction, where / prediction.name)
        card = dataset_card(
            self.bench,
            self.audit,
            self._kept("public"),
            version=self.version,
            licence=licence,
            sources=self.sources,
            left_out=Counter(self.left_out.values()),
            anyway=self.anyway,
            private=self.private,
        )
        write_atomic(where / "README.md", card)


def _annotation_row(row: Annotation, annotator: str) -> dict[str, Any]:
    said = asdict(row) | {"shown": list(row.shown), "tags": list(row.tags)}
    return said | {"annotator": annotator, "saw_draft": bool(row.first)}


def _without_names(audit: CurationAudit, hashed: Callable[[str], str]) -> CurationAudit:
    """The audit with the hashes of its annotators."""
    if audit.labels is None:
        return audit
    labels = audit.labels.model_copy(
        update={
            "annotators": tuple(
                one.model_copy(update={"annotator": hashed(one.annotator)})
                for one in audit.labels.annotators
            ),
            "kappas": tuple(
                one.model_copy(update={"a": hashed(one.a), "b": hashed(one.b)})
                for one in audit.labels.kappas
            ),
        }
    )
    return audit.model_copy(update={"labels": labels})


def _write_sums(folder: Path) -> None:
    """SHA256SUMS as `sha256sum -c` reads it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder).as_posix()}\n"
        for path in files
    ]
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
