"""Make cards of imported models, pinned to their contents: `from:`, `pool:`, or `bon import`.

The card has the engine `none` and a hash of the contents as its model, so a changed file is another
model.
"""

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bon.benchmarks.base import BadRow
from bon.benchmarks.rows import hub_folder
from bon.core.base_models import guessed_base
from bon.core.errors import BonError
from bon.core.files import file_hash
from bon.core.keys import content_key
from bon.core.validation import Origin, validate
from bon.experiment.cards import Loaded, Role, load_policy, load_rewarder
from bon.experiment.config import IMPORTED, Aggregate, CardRef, Elsewhere, PolicyCard, RewarderCard
from bon.experiment.yamlfile import read_yaml
from bon.formats import forms_of
from bon.formats.base import Format
from bon.formats.score_tables import JudgementRecord, read_tables
from bon.storage.database import DATABASE
from bon.storage.store import Store

Card = dict[str, Any]
HUB = "hf://datasets/"
"""Start of the path of a file on the hub, as its own libraries write it."""
POLICIES = "policies.yaml"
"""The file of a pool that lists its policies, whose answers are in data/NAME.parquet."""
_DOWNLOADED = (POLICIES, "*.parquet", "*.jsonl", "*.json")
Scores = list[tuple[str, JudgementRecord]]
"""The scores or verdicts of one rewarder, each with the key of its question or pair."""
AGGREGATE: Aggregate = "product"
"""Initial aggregate of process scores; `bon report --set analysis.aggregate=…` changes it."""

_KEPT = ("name", "title", "licence", "citation", "family", "maker", "size")
_KEPT_OF = {
    "policies": (*_KEPT, "extractor", "n"),
    "rewarders": (*_KEPT, "kind", "aggregate", "window", "votes", "orders"),
}


def pinned(ref: CardRef, role: Role, base: Path, origin: Origin) -> list[CardRef]:
    """Return the cards that a reference with `from` names; of another, itself."""
    if not isinstance(ref, Mapping) or "from" not in ref:
        return [ref]
    if str(ref.get("model", "")).startswith(f"{IMPORTED}:"):
        return [ref]  # pinned before, stored in a run
    value = ref["from"]
    source = validate(Elsewhere, value if isinstance(value, Mapping) else {"files": value}, origin)
    paths = found_files(source, base)
    if is_run(paths):
        cards = _run_cards(paths[0], role, source)
    elif role == "policies":
        cards = [_answers_card(paths, source)]
    else:
        cards = _score_cards(paths, source)
    if "name" in ref and len(cards) > 1:
        names = ", ".join(card["title"] or card["name"] for card in cards)
        raise BonError(
            f"{origin.place(('name',))}: {paths[0]} holds {len(cards)} {role}: {names}",
            "leave out `name`, or say which: `from: {files: FILE, of: NAME}`",
        )
    for card in cards:
        if ref.get("n", 0) > card.get("n", ref.get("n", 0)):
            raise BonError(
                f"{origin.place(('n',))}: {paths[0]} holds {card['n']} candidates per question",
                f"set n to {card['n']} or less",
            )
    overrides = {key: value for key, value in ref.items() if key != "from"}
    return [
        {**card, **overrides, "engine": "none", "model": card["model"], "prompt": ""}
        for card in cards
    ]


def of_pool(ref: Mapping[str, Any], base: Path, origin: Origin) -> list[CardRef]:
    """Return a reference with `from` for each policy of a pool, or for the one named by `of`.

    A pool is a folder that `bon export --format pool` wrote or another one with answers, here or
    on the hub, as OWNER/NAME or OWNER/NAME@REVISION.
    """
    own = {key: value for key, value in ref.items() if key not in ("pool", "of")}
    pool, name = str(ref["pool"]), str(ref.get("of", ""))
    if "from" in own:
        raise BonError(
            f"{origin.place(('pool',))}: `pool` and `from` exclude each other", "name one"
        )
    if re.fullmatch(r"[\w.-]+/[\w.-]+(@[\w./-]+)?", pool) and not (base / pool).exists():
        pool = f"{HUB}{pool}"
    (folder,) = found_files(Elsewhere(files=(pool,)), base)
    if not (folder / POLICIES).is_file():
        title = Path(pool.removeprefix(HUB).partition("@")[0]).name
        named = {} if is_run([folder]) else {"name": card_name(title)}
        return [{**named, "from": {"files": pool, "of": name}, **own}]
    policies = read_yaml(folder / POLICIES).get("policies")
    if not isinstance(policies, list) or not all(
        isinstance(policy, dict) and "name" in policy for policy in policies
    ):
        raise BonError(f"{folder / POLICIES} lists no policies", "download or export it again")
    listed = {str(policy["name"]): policy for policy in policies}
    if name and name not in listed:
        raise BonError(
            f"{origin.place(('of',))}: {pool} holds no policy {name!r}",
            f"name one of {', '.join(listed)}",
        )
    if "name" in own and not name and len(listed) > 1:
        raise BonError(
            f"{origin.place(('name',))}: {pool} holds {len(listed)} policies: {', '.join(listed)}",
            "leave out `name`, or choose one with `of`",
        )
    return [
        {**{key: value for key, value in policy.items() if key in _KEPT_OF["policies"]},
         "from": f"{pool}/data/{card_name(policy_name)}.parquet", **own}
        for policy_name, policy in listed.items()
        if name in ("", policy_name)
    ]  # fmt: skip


def found_files(source: Elsewhere, base: Path) -> list[Path]:
    """Return the paths of a source, relative to the experiment's folder; those of the hub here."""
    paths = []
    for file in source.files:
        if file.startswith(HUB):
            owner, name, *rest = file.removeprefix(HUB).split("/")
            name, _, revision = name.partition("@")
            folder = hub_folder(f"{owner}/{name}", revision or None, _DOWNLOADED)
            paths.append(folder.joinpath(*rest))
        else:
            paths.append(base / os.path.expanduser(file))
    if missing := [path for path in paths if not path.exists()]:
        raise BonError(f"from: no file or run {missing[0]}", "check the path")
    return paths


def is_run(paths: Sequence[Path]) -> bool:
    """Return whether the paths are one run directory."""
    return len(paths) == 1 and (paths[0] / DATABASE).is_file()


def spec_in(store: Store, name: str) -> str:
    """Return the spec of the rows of a model in a run (bon.work.stored_models)."""
    return str(store.meta("specs", {}).get(name, ""))


def _models_in(store: Store, role: Role) -> list[Loaded[Any]]:
    """Load the policies or rewarders of a run's experiment, without ensembles."""
    raw, base = store.meta("experiment"), store.meta("base")
    if raw is None or base is None:
        raise BonError(f"{store.directory} holds no experiment", "name a run directory, or files")
    load = load_policy if role == "policies" else load_rewarder
    models: list[Loaded[Any]] = [
        load(ref, Path(base), raw.get("seed", 0)) for ref in raw.get(role) or ()
    ]
    return [model for model in models if getattr(model.card, "kind", "") != "ensemble"]


def _run_cards(path: Path, role: Role, source: Elsewhere) -> list[Card]:
    cards = []
    with Store(path, readonly=True) as store:
        models = _models_in(store, role)
        names = ", ".join(model.card.name for model in models)
        if source.of:
            models = [model for model in models if model.card.name == source.of]
        if not models:
            raise BonError(
                f"from: {path} holds no {repr(source.of) if source.of else role}",
                f"name one with `of`: {names}" if names else "name a run that has some",
            )
        for model in models:
            spec = spec_in(store, model.card.name)
            if not store.has(model.table, "spec = ?", (spec,)):
                raise BonError(
                    f"from: {path} has no rows of {model.card.name}", "run it, or name another"
                )
            card = frozen(store, role, model.card, spec)
            cards.append({**card, "from": _written(source, model.card.name)})
    return cards


def _written(source: Elsewhere, name: str) -> Card:
    return source.model_copy(update={"of": name}).model_dump(exclude_defaults=True)


def frozen(store: Store, role: Role, model: PolicyCard | RewarderCard, spec: str) -> Card:
    """Return a card for the stored rows of a spec, which is never run."""
    card = model.model_dump(mode="json", include=set(_KEPT_OF[role]))
    if role == "policies":
        sql = 'SELECT MAX("index") + 1 FROM candidates WHERE spec = ?'
        card["n"] = min(card["n"], store.query(sql, (spec,))[0][0] or card["n"])
    elif card["kind"] == "python":
        pairwise = store.has("judgements", "spec = ? AND second IS NOT NULL", (spec,))
        listwise = store.has("judgements", "spec = ? AND shown != ''", (spec,))
        card["kind"] = "pairwise" if pairwise else "listwise" if listwise else "scalar"
    name = f"{IMPORTED}:{content_key('run', spec)}"
    return {**card, "engine": "none", "prompt": "", "model": name}


def _answers_card(paths: Sequence[Path], source: Elsewhere) -> Card:
    forms = forms_of(paths, source.format, source.columns)
    for path, form in forms:
        if form.table != "answers":
            raise BonError(
                f"from: {path} holds {form.table}, not answers ({form.name})",
                "name answers here; scores are read by a rewarder: `rewarders: [{from: FILE}]`",
            )
    settings = source.model_dump(exclude_defaults=True)
    return {
        "name": card_name(paths[0].stem),
        "n": sum(max(_n_candidates(path, form).values()) for path, form in forms),
        "model": f"{IMPORTED}:{_hash(paths, settings)}",
        "from": settings,
    }


def questions_in(card: PolicyCard, base: Path) -> int:
    """Count the questions that an imported policy answers."""
    source = card.elsewhere
    if source is None:
        return 0
    paths = found_files(source, base)
    if is_run(paths):
        with Store(paths[0], readonly=True) as store:
            return store.count("questions", "active > 0")
    forms = forms_of(paths, source.format, source.columns)
    return len({label for path, form in forms for label in _n_candidates(path, form)})


def _n_candidates(path: Path, form: Format) -> Counter[str]:
    """Return the number of candidates per question label in a file."""
    label = form.columns.get("id", "id")
    response = form.columns.get("response", "response")
    counts: Counter[str] = Counter()
    for _, row in form.rows(path):
        if not isinstance(row, BadRow):
            texts = row.get(response)
            name = str(row.get(label, row.get("row")))
            counts[name] += len(texts) if isinstance(texts, list) else 1
    if not counts:
        raise BonError(f"no row of {path} could be used", f"it was read as {form.name}")
    return counts


def _score_cards(paths: Sequence[Path], source: Elsewhere) -> list[Card]:
    forms = forms_of(paths, source.format, source.columns)
    for path, form in forms:
        if form.table == "answers":
            raise BonError(
                f"from: {path} holds answers, not scores or verdicts",
                "name it under `policies:`",
            )
    scores: dict[str, Scores] = {}
    for row in read_tables(forms).judgements:
        scores.setdefault(row.rewarder, []).append((row.item, row))
    cards = [card for card in rewarder_cards(scores) if source.of in ("", None, card["title"])]
    if not cards:
        names = ", ".join(scores) or "no rewarder"
        raise BonError(f"from: {paths[0]} holds {names}", "correct `of`, or leave it out")
    return [{**card, "from": _written(source, card["title"])} for card in cards]


def rewarder_cards(scores: Mapping[str, Scores]) -> list[dict[str, Any]]:
    """Return a card for each rewarder, its kind inferred from its rows."""
    cards = []
    for name, rows in scores.items():
        kinds = {row.second is not None for _, row in rows}
        if len(kinds) > 1:
            raise BonError(f"{name} has both scores and verdicts", "give them two names")
        process = any(row.process for _, row in rows)
        votes = Counter((item, row.first, row.second) for item, row in rows)
        families = sorted({row.family for _, row in rows} - {""})
        if len(families) > 1:
            raise BonError(f"{name} has the base models {' and '.join(families)}", "name one")
        cards.append({
            "name": card_name(name), "title": name, "engine": "none",
            "family": families[0] if families else guessed_base(name),
            "kind": "pairwise" if kinds == {True} else "stepwise" if process else "scalar",
            "model": f"{IMPORTED}:{content_key(name, [repr(row) for row in rows])}",
            "prompt": "", "aggregate": AGGREGATE, "votes": max(votes.values()),
        })  # fmt: skip
    return cards


def card_name(name: str) -> str:
    """Return a valid card name."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", name).strip("._+-")[:100] or "rewarder"


def _hash(paths: Sequence[Path], settings: Mapping[str, Any]) -> str:
    """Hash the contents of the files and how they are read, not their paths."""
    contents = [
        file_hash(file)
        for path in paths
        for file in (sorted(filter(Path.is_file, path.rglob("*"))) if path.is_dir() else [path])
    ]
    rest = {key: value for key, value in settings.items() if key != "files"}
    return content_key(contents, rest)
