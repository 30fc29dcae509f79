"""Build the analysis tables from a run's store under the current settings."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bon.analysis.data.tables import COLUMNS, PAIR_EXTRAS, Tables
from bon.benchmarks import BENCHMARKS
from bon.choosing.race import EarlyStopping
from bon.core.base_models import guessed_base
from bon.core.errors import UNANSWERED
from bon.core.keys import text_key
from bon.core.records import PreferencePair, Question
from bon.core.text import unicode_only
from bon.experiment.cards import Loaded
from bon.experiment.config import IMPORTED, RewarderCard
from bon.formats.score_tables import WITHOUT_TEXT
from bon.graders import grades
from bon.rewarders import item_judging
from bon.rewarders.reply_parsing import STATES_VERDICT
from bon.rewarders.stepwise import reaggregate
from bon.storage.row_validation import NOT_UNICODE, validate_outcome
from bon.storage.store import Store
from bon.work.grading import grader_note
from bon.work.judging_scope import drawn, stakes_of
from bon.work.reading import reader_note
from bon.work.setup import Setup
from bon.work.step_verdicts import NO_RESPONSE, has_steps, parts_of, rows_of
from bon.work.stored_models import changed_models

HANDICAPS = {"drop": "sees no image", "gray": "sees no colour", "blur": "sees a blurred image"}
_CLEANED = "held characters that are not Unicode; they were replaced"


def run_tables(setup: Setup, store: Store) -> Tables:
    """Return the tables of a run.

    Rows of earlier settings are left out: other specs, inactive questions, candidates beyond n,
    surplus votes.
    """
    state = store.state  # before the rows, which a driver may add to
    asked = {question.key: question for question in store.questions()}
    candidates = _candidates(setup, store, asked)
    pairs, solutions = _pairs(store)
    return Tables(
        questions=_questions(store, asked),
        candidates=candidates,
        pairs=pairs,
        judgements=_judgements(setup, store, asked, candidates, pairs, solutions),
        rewarders=_rewarders(setup),
        meta={**_meta(setup, store), "state": state},
    ).check()


def deep_tables(setup: Setup, store: Store) -> Tables | None:
    """Return the tables of the questions and rewarders of `judging.deep`; None without it."""
    deep, subset = setup.experiment.judging.deep, setup.experiment.subset
    if deep is None:
        return None
    policies = (policy for policy in setup.policies if not policy.card.imported)
    deepened = (
        replace(p, card=p.card.model_copy(update={"n": max(p.card.n, deep.n)})) for p in policies
    )
    rewarders = tuple(filter(setup.is_deep, setup.rewarders))
    setup = replace(setup, policies=tuple(deepened), rewarders=rewarders)
    share = min(deep.share, subset)
    asked = {row.key: row for row in store.questions() if drawn(row.key, share)}
    candidates, pairs = _candidates(setup, store, asked), _frame("pairs", [])
    return Tables(
        questions=_questions(store, asked),
        candidates=candidates,
        pairs=pairs,
        judgements=_judgements(setup, store, asked, candidates, pairs, {}),
        rewarders=_rewarders(setup),
        meta={"judging": {"design": setup.experiment.judging.design}},
    )


_Asked = Mapping[str, Question]
"""The questions of a table, by key."""
_RESPONSE = ("question", "text_key")


def _questions(store: Store, asked: _Asked) -> pd.DataFrame:
    leaked = dict(store.query("SELECT key, leaked FROM questions WHERE active > 0"))
    rows, clusters = [], []
    for question in asked.values():
        label = (question.key, question.id, question.dataset, question.subject)
        shape = (question.difficulty, len(question.options), question.answer)
        rows.append((*label, *shape, bool(leaked[question.key])))
        clusters.append(str(question.meta.get("cluster") or ""))
    frame = _frame("questions", rows)
    return frame.assign(cluster=clusters) if any(clusters) else frame


def _pairs(store: Store) -> tuple[pd.DataFrame, dict[str, PreferencePair]]:
    """Return the table, and by key the pairs that stand for solutions with steps."""
    solutions: dict[str, PreferencePair] = {}
    leaked = dict(store.query("SELECT key, leaked FROM pairs WHERE active > 0"))
    rows: list[tuple[Any, ...]] = []
    words: list[tuple[int | None, int | None]] = []
    metas: list[dict[str, Any]] = []
    for benchmark, pair in store.pairs():
        first, second = pair.responses
        if has_steps(pair):
            solutions[pair.key] = pair
            for key, group in parts_of(pair):
                label = (key, pair.id, benchmark, group, pair.tag, 0)
                texts = (text_key(first), NO_RESPONSE, None, None)
                rows.append((*label, *texts, bool(leaked[pair.key])))
                words.append((None, None))
                metas.append({"f1": "steps" if key != pair.key else "solutions"})
            continue
        label = (pair.key, pair.id, benchmark, pair.group, pair.tag, pair.preferred)
        known = not pair.meta.get(WITHOUT_TEXT)
        lengths = (len(first), len(second)) if known else (None, None)
        words.append((len(first.split()), len(second.split())) if known else (None, None))
        texts = (text_key(first), text_key(second), *lengths)
        rows.append((*label, *texts, bool(leaked[pair.key])))
        metas.append(pair.meta)
    frame = _frame("pairs", rows)
    frame["words_0"], frame["words_1"] = zip(*words, strict=True) if words else ((), ())
    for column, missing in PAIR_EXTRAS.items():
        if any(column in meta for meta in metas):
            frame[column] = [meta.get(column, missing) for meta in metas]
    return frame, solutions


def _candidates(setup: Setup, store: Store, asked: _Asked) -> pd.DataFrame:
    rows: list[tuple[Any, ...]] = []
    for policy in setup.policies:
        stored = store.query(
            'SELECT question, "index", text_key, answer, outcome, '
            "CASE WHEN finish = ? THEN NULL ELSE text END, num_tokens, logprob "
            'FROM candidates WHERE spec = ? AND "index" < ? AND error NOT LIKE ? '
            'ORDER BY question, "index"',
            (WITHOUT_TEXT, policy.spec, policy.card.n, f"{UNANSWERED}%"),
        )
        for key, of_question in groupby(stored, key=itemgetter(0)):
            if key not in asked:
                continue
            question, own = asked[key], list(of_question)
            answers = [
                answer if outcome == "parsed" else None for *_, answer, outcome, _, _, _ in own
            ]
            replies = [(row[2], row[5]) for row in own]
            for (_, index, texts, answer, outcome, text, *numbers), grade in zip(
                own, grades(question, answers, replies), strict=True
            ):
                if outcome == "parsed" or (question.graded_whole and outcome == "unparsed"):
                    answer, outcome = grade.answer, "parsed" if grade.answer else "unparsed"
                label = (key, policy.card.name, index, texts)
                length = None if text is None else len(text)
                rows.append((*label, answer, outcome, grade.credit, length, *numbers))
    frame = _frame("candidates", rows)
    if frame["correct"].isin((0, 1)).all():
        frame = frame.astype({"correct": bool})
    return frame


def _judgements(
    setup: Setup,
    store: Store,
    questions: _Asked,
    candidates: pd.DataFrame,
    pairs: pd.DataFrame,
    solutions: Mapping[str, PreferencePair],
) -> pd.DataFrame:
    judged = set(zip(*(candidates[c].to_numpy(object) for c in _RESPONSE), strict=True))
    benchmarks = dict(zip(pairs["pair"], pairs["benchmark"], strict=True))
    benchmarks |= {
        key: pair.dataset for key, pair in solutions.items()
    }  # a row of the table is a step
    keys: list[str] = []
    rows: list[tuple[Any, ...]] = []
    policies: list[str | None] = []
    design = setup.experiment.judging.design
    apart = [r for r in setup.rewarders if item_judging.depends_on_others(r.card, design)]
    pools = _pools(setup, store, questions) if apart else {}
    for rewarder in setup.rewarders:
        card, votes = rewarder.card, setup.pair_votes(rewarder)
        asked = _policies_asked(setup, store, rewarder, pools) if rewarder in apart else None
        again = setup.experiment.analysis.aggregate if card.kind == "stepwise" else None
        for key, *row, shown, text in store.query(
            "SELECT key, item_kind, item, first, second, vote, outcome, score, num_tokens, "
            f"seconds, cost, shown, {'text' if again or solutions else repr('')} FROM judgements "
            "WHERE spec = ? ORDER BY item, first, second, vote, key",
            (rewarder.spec,),
        ):
            kind, item, first, second, vote = row[:5]
            if kind == "pair":
                counts = item in benchmarks and item_judging.in_protocol(
                    card.orders, votes[benchmarks[item]], item, first, second, vote
                )
            elif asked is not None:
                counts = key in asked
            else:
                counts = item_judging.in_protocol(
                    card.orders, card.votes, item, first, second, vote
                ) and all((item, text) in judged for text in (first, second) if text is not None)
            if counts and item in solutions:
                rows += [(card.name, *one) for one in rows_of(solutions[item], row, text)]
                keys += [key] * (len(rows) - len(keys))
                policies += [None] * (len(rows) - len(policies))
            elif counts:
                if again and row[5] == "scored":
                    row[6] = reaggregate(again, text)
                    row[5] = "unparsed" if row[6] is None else "scored"
                n_listed = shown.count(",") + 1 if shown else 0
                row[5:7] = validate_outcome(
                    row[5], row[6], pairwise=second is not None, n_listed=n_listed
                )[:2]
                rows.append((card.name, *row))
                keys.append(key)
                policies.append(asked.get(key) if asked else None)
    frame = _frame("judgements", rows).set_axis(keys)
    return frame.assign(policies=np.array(policies, dtype=object)) if any(policies) else frame


_Pool = tuple[str, frozenset[str], EarlyStopping | None]
"""The name of a policy, the texts of its candidates, and the stopping rule on them."""


def _pools(setup: Setup, store: Store, asked: _Asked) -> dict[str, list[_Pool]]:
    """Return the candidates that a question's comparisons are designed for, by question."""
    judging = setup.experiment.judging
    pools: dict[str, list[_Pool]] = {}
    for question in asked.values():
        for policy in setup.policies:
            rows = store.candidates(policy.spec, question.key, policy.card.n)
            usable = [row for row in rows if row.outcome != "error"]
            texts = frozenset(row.text_key for row in usable)
            pool = policy.card.name, texts, stakes_of(question, usable, judging)
            pools.setdefault(question.key, []).append(pool)
    return pools


def _policies_asked(
    setup: Setup, store: Store, rewarder: Loaded[RewarderCard], pools: dict[str, list[_Pool]]
) -> dict[str, str]:
    """Return by key of a judgement the policies on whose candidates it was asked for."""
    card, protocol = rewarder.card, setup.protocol(rewarder)
    asked: dict[str, str] = {}
    for item, stored in groupby(store.stored_judgements(rewarder.spec), key=lambda row: row.item):
        rows = list(stored)
        for policy, texts, stakes in pools.get(item, ()):
            for row in item_judging.protocol_rows(card, texts, item, protocol, rows, stakes):
                asked[row.key] = f"{asked[row.key]},{policy}" if row.key in asked else policy
    return asked


def _rewarders(setup: Setup) -> pd.DataFrame:
    rows = [
        (card.name, card.kind, card.family or guessed_base(card.model or card.name), card.size)
        for card in (loaded.card for loaded in setup.rewarders)
    ]
    frame = _frame("rewarders", rows)
    cards = [loaded.card for loaded in setup.rewarders]
    return frame.assign(
        maker=[card.maker for card in cards],
        model=[
            "" if card.imported else "@".join(filter(None, (card.model, card.revision)))
            for card in cards
        ],
    )


def _meta(setup: Setup, store: Store) -> dict[str, Any]:
    versions = store.meta("versions", {})
    files = store.meta("files")
    return {
        "name": setup.experiment.name,
        "seed": setup.experiment.seed,
        "judging": judging(setup, store),
        "tasks": {task.title: task.weight for task in setup.experiment.questions},
        "readers": {policy.card.name: policy.card.extractor for policy in setup.policies},
        "created": store.meta("started", ""),
        "bon_version": versions.get("bon", ""),
        "sources": sources(setup, store),
        "citations": citations(setup),
        "handicaps": {
            rewarder.card.name: HANDICAPS[rewarder.card.image_filter.partition(":")[0]]
            for rewarder in setup.rewarders
            if rewarder.card.image_filter != "none"
        },
        "imported": [r.card.name for r in setup.rewarders if r.card.imported],
        "candidate_labels": {setup.policies[0].card.name: files} if files else {},
        "ensembles": {e.card.name: e.card.members for e in setup.ensembles},
        "warnings": warnings(setup, store),
    }


def judging(setup: Setup, store: Store) -> dict[str, Any]:
    """Return the design of the comparisons and the questions drawn for each purpose."""
    settings, subset = setup.experiment.judging, setup.experiment.subset
    record: dict[str, Any] = {"design": settings.design}

    def keys(share: float) -> list[str]:
        return [row.key for row in store.questions() if drawn(row.key, min(share, subset))]

    if subset < 1:
        record["drawn"] = keys(subset)
    if settings.design == "race":
        record |= {"complete": settings.complete, "in_full": keys(settings.complete)}
    return record


def sources(setup: Setup, store: Store) -> list[dict[str, Any]]:
    """Return the sources listed in the report: datasets, models, prompts, programs."""
    rows: list[dict[str, Any]] = []
    for data in store.meta("datasets", []):
        files = {Path(name).name: digest for name, digest in (data.get("files") or {}).items()}
        details = {"hub": data["hub"]} if data.get("hub") else files
        revision = data.get("commit") or data.get("revision") or ""
        rows.append(_source("dataset", data["benchmark"], revision, details))
    engines = store.meta("engines", {})
    for loaded in setup.models:
        card = loaded.card
        engine = {str(key): str(value) for key, value in engines.get(card.name, {}).items()}
        details = {"licence": card.licence, "engine": card.engine, **asked_with(loaded), **engine}
        rows.append(_source(card.role, card.name, card.revision or "", details))
    for program, version in store.meta("versions", {}).items():
        rows.append(_source("program", program, version, {}))
    return rows


def asked_with(loaded: Loaded[Any]) -> dict[str, str]:
    """Return model, image filter, prompt and sampling of a card as in results.json."""
    card = loaded.card
    return {
        "model": card.model,
        "images": getattr(card, "image_filter", "none"),
        "prompt": f"{loaded.prompt.id} sha256:{loaded.prompt.sha256[:16]}",
        "sampling": ", ".join(f"{k} {v}" for k, v in card.sampling.model_dump().items()),
    }


def citations(setup: Setup) -> list[str]:
    """Return the BibTeX entries of the run's benchmarks and models."""
    datasets = (*setup.experiment.questions, *setup.experiment.pairs)
    known = (spec.benchmark for spec in datasets if spec.benchmark != IMPORTED)
    entries = [BENCHMARKS[benchmark].citation for benchmark in known]
    entries += [loaded.card.citation for loaded in setup.models]
    return list(dict.fromkeys(filter(None, entries)))


def warnings(setup: Setup, store: Store) -> list[str]:
    """Return the warnings for readers of the report."""
    lines = list(store.meta("notes", []))
    if setup.grader is not None:
        lines.append(grader_note(setup.grader, setup.models))
    if setup.reader is not None:
        lines.append(reader_note(setup, store))
    lines += [
        f"the card or code of {model} is another one today: shown is what was asked before, and "
        "`bon run` asks again"
        for model in changed_models(setup, store)
    ]
    lines += [f"{model} failed: {why}" for model, why in store.meta("failed", {}).items()]
    bad = store.query("SELECT dataset, COUNT(*), MIN(reason) FROM bad_rows GROUP BY dataset")
    lines += [f"{count} rows of {name} were left out ({why})" for name, count, why in bad]
    for table in ("questions", "pairs"):
        if count := store.meta(f"cleaned_{table}", 0):
            lines.append(f"{count} {table} {_CLEANED}")
    for loaded in setup.models:
        table = loaded.table
        if count := store.errors(table, loaded.spec):
            lines.append(f"{count} {table} of {loaded.card.name} are errors")
        where = "spec = ? AND outcome != 'error' AND INSTR(error, ?)"
        if count := store.count(table, where, (loaded.spec, NOT_UNICODE)):
            lines.append(f"{count} {table} of {loaded.card.name} {_CLEANED}")
        if count := store.count(table, where, (loaded.spec, STATES_VERDICT)):
            lines.append(f"{count} {table} of {loaded.card.name}: {STATES_VERDICT}")
    return lines


def _source(kind: str, name: str, revision: str, details: dict[str, Any]) -> dict[str, Any]:
    shown = {
        key: unicode_only(str(value)) for key, value in details.items() if value not in ("", None)
    }
    return {"kind": kind, "name": name, "revision": revision, "details": shown}


def _frame(table: str, rows: Sequence[tuple[Any, ...]]) -> pd.DataFrame:
    return pd.DataFrame.from_records(list(rows), columns=list(COLUMNS[table]))
