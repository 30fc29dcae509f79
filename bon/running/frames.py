"""From a run's store to the tables that analysis reads: only what counts for today's settings."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from bon.analysis.data.tables import COLUMNS, PAIR_EXTRAS, Tables
from bon.benchmarks import adapter
from bon.core.text import unicode_only
from bon.experiment.cards import Loaded
from bon.experiment.config import IMPORTED
from bon.formats.tabled import WITHOUT_TEXT
from bon.policies.ask import text_key
from bon.policies.reader import NOTHING, BothRead, both
from bon.rewarders import judge
from bon.rewarders.asking import POSING
from bon.rewarders.stepwise import reaggregated
from bon.running.door import NOT_UNICODE, readable
from bon.running.filed import changed
from bon.running.setup import Setup
from bon.running.stakes import drawn, look_order
from bon.running.store import Store

HANDICAPS = {"drop": "sees no image", "gray": "sees no colour", "blur": "sees a blurred image"}
_CLEANED = "held characters that are not Unicode; they were replaced"


def run_tables(setup: Setup, store: Store) -> Tables:
    """The tables of a run.

    Rows of earlier settings stay in the store and are left out here: other specs, questions
    no longer asked, candidates beyond n, votes beyond the number wanted.
    """
    questions = _questions(store)
    candidates = _candidates(setup, store, questions)
    pairs = _pairs(store)
    return Tables(
        questions=questions,
        candidates=candidates,
        pairs=pairs,
        judgements=_judgements(setup, store, candidates, pairs),
        rewarders=_rewarders(setup),
        meta=_meta(setup, store),
    ).check()


def _questions(store: Store) -> pd.DataFrame:
    leaked = dict(store.query("SELECT key, leaked FROM questions WHERE active > 0"))
    rows = []
    for question in store.questions():
        label = (question.key, question.id, question.dataset, question.subject)
        shape = (question.difficulty, len(question.options), question.answer)
        rows.append((*label, *shape, bool(leaked[question.key])))
    return _frame("questions", rows)


def _pairs(store: Store) -> pd.DataFrame:
    leaked = dict(store.query("SELECT key, leaked FROM pairs WHERE active > 0"))
    rows: list[tuple[Any, ...]] = []
    metas: list[dict[str, Any]] = []
    for benchmark, pair in store.pairs():
        one, two = pair.responses
        label = (pair.key, pair.id, benchmark, pair.group, pair.tag, pair.preferred)
        lengths = (None, None) if pair.meta.get(WITHOUT_TEXT) else (len(one), len(two))
        texts = (text_key(one), text_key(two), *lengths)
        rows.append((*label, *texts, bool(leaked[pair.key])))
        metas.append(pair.meta)
    frame = _frame("pairs", rows)
    for column, missing in PAIR_EXTRAS.items():
        if any(column in meta for meta in metas):
            frame[column] = [meta.get(column, missing) for meta in metas]
    return frame


def _candidates(setup: Setup, store: Store, questions: pd.DataFrame) -> pd.DataFrame:
    right = dict(zip(questions["question"], questions["answer"], strict=True))
    options = store.options()
    rows: list[tuple[Any, ...]] = []
    read: list[BothRead] = []
    for policy in setup.policies:
        mode = policy.card.reader
        for row in store.query(
            'SELECT question, "index", text_key, answer, outcome, '
            "CASE WHEN finish = ? THEN NULL ELSE text END, num_tokens, logprob "
            'FROM candidates WHERE spec = ? AND "index" < ? ORDER BY question, "index"',
            (WITHOUT_TEXT, policy.spec, policy.card.n),
        ):
            question, index, key, answer, outcome, text, *numbers = row
            if question in right:
                correct = outcome == "parsed" and answer == right[question]
                label = (question, policy.card.name, index, key)
                length = None if text is None else len(text)
                rows.append((*label, answer, outcome, correct, length, *numbers))
                known = text is not None and outcome != "error"
                read.append(both(text, options[question], mode, answer) if known else NOTHING)
    frame = _frame("candidates", rows)
    if all(one is NOTHING for one in read):
        return frame
    return frame.assign(**dict(zip(BothRead._fields, zip(*read, strict=True), strict=True)))


def _judgements(
    setup: Setup, store: Store, candidates: pd.DataFrame, pairs: pd.DataFrame
) -> pd.DataFrame:
    asked = set(zip(candidates["question"], candidates["text_key"], strict=True))
    benchmark = dict(zip(pairs["pair"], pairs["benchmark"], strict=True))
    rows: list[tuple[Any, ...]] = []
    for rewarder in setup.rewarders:
        card, votes = rewarder.card, setup.pair_votes(rewarder)
        again = setup.experiment.analysis.aggregate if card.kind == "stepwise" else None
        for *row, shown, text in store.query(
            "SELECT item_kind, item, first, second, vote, outcome, score, num_tokens, seconds, "
            f"cost, shown, {'text' if again else repr('')} FROM judgements WHERE spec = ? "
            "ORDER BY item, first, second, vote, key",
            (rewarder.spec,),
        ):
            kind, item, first, second, vote = row[:5]
            if kind == "pair":
                counts = item in benchmark and judge.asked_today(
                    card.orders, votes[benchmark[item]], item, first, second, vote
                )
            else:
                counts = judge.asked_today(
                    card.orders, card.votes, item, first, second, vote
                ) and all((item, key) in asked for key in (first, second) if key is not None)
            if counts:
                if again and row[5] == "scored":
                    row[6] = reaggregated(again, text)
                    row[5] = "unparsed" if row[6] is None else "scored"
                listed = shown.count(",") + 1 if shown else 0
                row[5:7] = readable(row[5], row[6], two=second is not None, listed=listed)[:2]
                rows.append((card.name, *row))
    return _frame("judgements", rows)


def _rewarders(setup: Setup) -> pd.DataFrame:
    rows = [
        (loaded.card.name, loaded.card.kind, loaded.card.family, loaded.card.size)
        for loaded in setup.rewarders
    ]
    return _frame("rewarders", rows)


def _meta(setup: Setup, store: Store) -> dict[str, Any]:
    versions = store.meta("versions", {})
    files = store.meta("files")
    return {
        "name": setup.experiment.name,
        "seed": setup.experiment.seed,
        "judging": judging(setup, store),
        "readers": {policy.card.name: policy.card.reader for policy in setup.policies},
        "created": store.meta("started", ""),
        "bon_version": versions.get("bon", ""),
        "sources": sources(setup, store),
        "citations": citations(setup),
        "handicaps": {
            rewarder.card.name: HANDICAPS[rewarder.card.image_filter.partition(":")[0]]
            for rewarder in setup.rewarders
            if rewarder.card.image_filter != "none"
        },
        "candidate_labels": {setup.policies[0].card.name: files} if files else {},
        "before": {r.card.name: r.card.before for r in setup.rewarders if r.card.before},
        "ensembles": {e.card.name: e.card.members for e in setup.ensembles},
        "warnings": warnings(setup, store),
    }


def judging(setup: Setup, store: Store) -> dict[str, Any]:
    """Which comparisons were made, and which questions were drawn to be judged for what."""
    said, subset = setup.experiment.judging, setup.experiment.questions.subset
    made: dict[str, Any] = {"design": said.design}

    def those(share: float) -> list[str]:
        return [row.key for row in store.questions() if drawn(row.key, min(share, subset))]

    if subset < 1:
        made["drawn"] = those(subset)
    if said.decide is not None:
        order = look_order(setup, store)
        made["decide"] = {"what": said.decide, "looks": said.looks, "order": order}
    if said.design == "race":
        race = said.race
        made |= {"stop": race.stop, "complete": race.complete, "in_full": those(race.complete)}
        if race.lead is not None:
            sure = max(race.complete, race.audit)
            made |= {"lead": race.lead, "pairs": race.pairs, "audited": those(sure)}
    return made


def sources(setup: Setup, store: Store) -> list[dict[str, Any]]:
    """All that came from outside, as the report lists it: datasets, models, prompts, programs."""
    rows: list[dict[str, Any]] = []
    for found in store.meta("datasets", []):
        files = {Path(name).name: digest for name, digest in (found.get("files") or {}).items()}
        details = {"hub": found["hub"]} if found.get("hub") else files
        revision = found.get("commit") or found.get("revision") or ""
        rows.append(_source("dataset", found["benchmark"], revision, details))
    engines = store.meta("engines", {})
    for loaded in setup.models:
        card = loaded.card
        seen = {str(key): str(value) for key, value in engines.get(card.name, {}).items()}
        details = {"licence": card.licence, "engine": card.engine, **asked_with(loaded), **seen}
        rows.append(_source(card.role, card.name, card.revision or "", details))
    for program, version in store.meta("versions", {}).items():
        rows.append(_source("program", program, version, {}))
    return rows


def asked_with(loaded: Loaded[Any]) -> dict[str, str]:
    """What a card's model is and what it is asked, in the words of the results."""
    card = loaded.card
    return {
        "model": card.model,
        "images": getattr(card, "image_filter", "none"),
        "prompt": f"{loaded.prompt.id} sha256:{loaded.prompt.sha256[:16]}",
        "sampling": ", ".join(f"{k} {v}" for k, v in card.sampling.model_dump().items()),
    }


def citations(setup: Setup) -> list[str]:
    """BibTeX of every benchmark and model that the run used and that says what to cite."""
    datasets = (setup.experiment.questions, *setup.experiment.pairs)
    known = (spec.benchmark for spec in datasets if spec.benchmark != IMPORTED)
    said = [adapter(benchmark).citation for benchmark in known]
    said += [loaded.card.citation for loaded in setup.models]
    return list(dict.fromkeys(filter(None, said)))


def warnings(setup: Setup, store: Store) -> list[str]:
    """What a reader must know of how the run went."""
    found = list(store.meta("notes", []))
    if shard := store.meta("shard"):
        found.append(f"this is shard {shard[0]} of {shard[1]} of its experiment (bon merge)")
    found += [
        f"the card or code of {model} is another one today: shown is what was asked before, and "
        "`bon run` asks again"
        for model in changed(setup, store)
    ]
    found += [f"{model} failed: {why}" for model, why in store.meta("failed", {}).items()]
    bad = store.query("SELECT dataset, COUNT(*), MIN(reason) FROM bad_rows GROUP BY dataset")
    found += [f"{count} rows of {name} were left out ({why})" for name, count, why in bad]
    for table in ("questions", "pairs"):
        if count := store.meta(f"cleaned_{table}", 0):
            found.append(f"{count} {table} {_CLEANED}")
    for loaded in setup.models:
        table = loaded.table
        if count := store.errors(table, loaded.spec):
            found.append(f"{count} {table} of {loaded.card.name} are errors")
        where = "spec = ? AND outcome != 'error' AND INSTR(error, ?)"
        if count := store.count(table, where, (loaded.spec, NOT_UNICODE)):
            found.append(f"{count} {table} of {loaded.card.name} {_CLEANED}")
        if count := store.count(table, where, (loaded.spec, POSING)):
            found.append(f"{count} {table} of {loaded.card.name}: {POSING}")
    return found


def _source(kind: str, name: str, revision: str, details: dict[str, Any]) -> dict[str, Any]:
    shown = {
        key: unicode_only(str(value)) for key, value in details.items() if value not in ("", None)
    }
    return {"kind": kind, "name": name, "revision": revision, "details": shown}


def _frame(table: str, rows: Sequence[tuple[Any, ...]]) -> pd.DataFrame:
    return pd.DataFrame.from_records(list(rows), columns=list(COLUMNS[table]))
