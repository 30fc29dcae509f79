"""Submitted experiments: the schema of the file, confined to what the operator allows.

All checks come before any path is opened, any module imported or any card merged. Templates of the
operator and of bon are not checked. Patterns need no bound: they are RE2's (bon.core.patterns).
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from bon.benchmarks import BENCHMARKS
from bon.core.errors import BonError
from bon.core.records import LMMS_EVAL
from bon.core.validation import validate
from bon.engines import ENGINES
from bon.experiment.cards import Role, find, shipped
from bon.experiment.config import IMPORTS, DatasetSpec, Experiment, Placement
from bon.experiment.yamlfile import load_yaml, read_yaml
from bon.service.settings import Allow, Limits, Settings
from bon.work.setup import Setup, prepare

MAX_CHARS = 1_000_000
"""Of all texts of an experiment, aliases written out."""
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_DATASET = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_REVISION = re.compile(r"[A-Za-z0-9][\w.-]{0,99}")
_NAME = re.compile(r"[A-Za-z0-9][\w.+() \[\]:%-]*")
_VALUE = re.compile(r"(?<!\{)\{\{-? *[a-z]+ *-?\}\}(?!\})")

MAX_VALUES = 400
"""That a template may show."""
MAX_QUESTIONS, MAX_PAIRS = 20_000, 50_000
"""Rows of all tasks, and of a reward benchmark: several times those of any that is published."""
MAX_ACTORS, MAX_VOTES = 64, 25
"""Of a model: a validation is one of a team's."""


def read_submission(body: bytes) -> dict[str, Any]:
    """Return the mapping in a YAML or JSON body (JSON is YAML)."""
    try:
        data = load_yaml(body.decode("utf-8"), "the experiment")
    except UnicodeDecodeError as error:
        raise BonError(f"the experiment is not UTF-8 (byte {error.start})") from None
    if not isinstance(data, dict):
        raise BonError(f"an experiment is a mapping (key: value), not {type(data).__name__}")
    return data


def check_submission(raw: Mapping[str, Any], settings: Settings) -> Setup:
    """Return the experiment that `read_submission` read, with its cards."""
    _check_values(raw)
    experiment = validate(Experiment, raw, "experiment")
    root = settings.files.resolve()
    for key in ("address", "listen_beyond_loopback"):
        if getattr(experiment.cluster, key):
            raise BonError(f"cluster.{key} is the server's", "leave it out")
    if experiment.allow_remote_code and not settings.allow.remote_code:
        raise BonError("allow_remote_code is off on this server", "ask its operator")
    for spec in (*experiment.questions, *experiment.pairs):
        _check_dataset(spec, root, settings.allow)
    roles: tuple[Role, Role] = ("policies", "rewarders")
    for role in roles:
        for ref in getattr(experiment, role):
            _check_card(ref, role, root, settings.allow)
    for ref in filter(None, (experiment.grading, experiment.reading)):
        _check_card(ref, "rewarders", root, settings.allow)
    setup = prepare(raw, settings.files)
    _check_sizes(setup, settings.limits)
    return setup


def _check_values(raw: Mapping[str, Any]) -> None:
    """Refuse more text than bounds and aliases should add up to, and numbers that none prints."""
    left, stack = MAX_CHARS, [raw]
    while stack:
        match stack.pop():
            case dict() as item:
                stack += [*item, *item.values()]
            case list() as item:
                stack += item
            case str() as item:
                left -= len(item)
            case int() as item if item.bit_length() > 64:
                raise BonError("a number is too large")
        if left < 0:
            raise BonError("the experiment holds too much text")


def confined(path: str, root: Path, key: str) -> Path:
    """Return the path inside the root; refuse absolute ones, `..` and links that lead out."""
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or path.startswith("~") or "\x00" in path:
        fix = "give a path relative to the data directory's files/ folder"
        raise BonError(f"{key}: {path!r} leaves the server's files", fix)
    resolved = (root / path).resolve()
    if not resolved.is_relative_to(root):
        raise BonError(f"{key}: {path!r} leads out of the server's files")
    return resolved


def _check_dataset(spec: DatasetSpec, root: Path, allow: Allow) -> None:
    """Allow files, the benchmark's own dataset and those that the operator lists, as published."""
    foreign = any(name.startswith(LMMS_EVAL) for name in (spec.benchmark, spec.grader))
    if foreign and not allow.remote_code:
        raise BonError("tasks of lmms-eval run its code, which this server does not allow")
    if spec.path is not None:
        confined(spec.path, root, "path")
    for key, value in (("config", spec.config), ("split", spec.split)):
        if value is not None and not _NAME.fullmatch(value):
            raise BonError(f"{key}: {value!r} is not a name")
    known = {BENCHMARKS[spec.benchmark].hub, *allow.hubs}
    if spec.hub is not None and (not _DATASET.fullmatch(spec.hub) or not {spec.hub, "*"} & known):
        fix = "its operator can list it in allow.hubs"
        raise BonError(f"hub: this server does not read {spec.hub[:100]!r}", fix)
    _check_revision(spec.revision)


def _check_revision(revision: Any) -> None:
    # Anyone can propose a change to a repository (refs/pr/1); plain names are its owner's.
    if isinstance(revision, str) and not _REVISION.fullmatch(revision):
        raise BonError(f"revision: {revision[:100]!r} is not a branch, tag or commit")


# ------------------------------------------------------------------ cards


def _check_card(ref: Any, role: Role, root: Path, allow: Allow) -> None:
    """Check what a submitted card sets itself; its base file is the operator's."""
    own: dict[str, Any] = {"card": ref} if isinstance(ref, str) else dict(ref)
    name = own.pop("card", None)
    base: dict[str, Any] = {}
    if name is not None:
        if not isinstance(name, str):
            raise BonError(f"{role}: card {name!r} is not text")
        if name.endswith((".yaml", ".yml")):
            confined(name, root, role)
        elif name not in shipped(role):
            raise BonError(f"{role}: no shipped card {name!r}", "GET /v1/catalogue lists them")
        base = read_yaml(find(role, name, root))
    merged = {**base, **own}
    label = str(merged.get("name", name))[:100]
    python = merged.get("python") or ""
    if (merged.get("kind") == "python" or python) and python not in allow.python:
        fix = "its operator can list it in allow.python"
        raise BonError(f"{label}: runs Python code of its own", fix)
    for key in merged.keys() & IMPORTS:
        fix = "send an experiment that calls its models"
        raise BonError(f"{label}: `{key}` names files of this server", fix)
    place = own.get("placement")
    if isinstance(place, dict) and place.get("runtime_env"):
        raise BonError(f"{label}: placement.runtime_env is the operator's", "leave it out")
    _check_model(own.get("model"), root)
    _check_revision(own.get("revision"))
    for key in ("prompt", "system"):
        _check_prompt(label, key, own.get(key), root)
    _check_engine(label, name, own, base, allow)


def _check_model(model: Any, root: Path) -> None:
    """Allow a hub id or a folder inside the root, and no other path of this machine."""
    if not isinstance(model, str) or not model:
        return
    if _HUB_ID.fullmatch(model) and not (root / model).exists():
        if Path(model).exists():  # engines look in the working directory first
            raise BonError(f"model: {model!r} is not a hub model that this server knows")
    elif not confined(model, root, "model").is_dir():
        raise BonError(f"model: {model!r} is neither OWNER/NAME nor a folder of the server's files")


def _check_prompt(label: str, where: str, prompt: Any, root: Path) -> None:
    parts = prompt if isinstance(prompt, dict) else {}
    if "file" in parts:
        confined(str(parts["file"]), root, f"{where}.file")
    if isinstance(parts.get("text"), str):
        check_template(label, parts["text"])


def _check_engine(
    label: str, name: str | None, own: Mapping[str, Any], base: Mapping[str, Any], allow: Allow
) -> None:
    """Check the engine and its settings: `own` overrides the card `name`, which is `base`."""
    engine, before = {**base, **own}.get("engine", "transformers"), base.get("engine")
    args = own.get("engine_args") or {}
    if engine not in ENGINES or not isinstance(args, dict):
        return  # the schema refuses it
    entry = ENGINES[engine]
    allowed = sorted(entry.settings.submittable())
    for arg in entry.settings.names(args):
        if arg not in allowed:
            problem = f"{label}: engine_args.{arg} is not for experiments to set on this server"
            raise BonError(problem, f"they may set: {', '.join(allowed) or 'none'}")
    if engine != "openai":
        if before not in (None, engine):
            problem = f"{label}: the engine of a card cannot be changed"
            raise BonError(problem, "write a card inline")
        return
    url, fix = args.get("base_url"), "its operator can list it in allow."
    if before != "openai" or url is not None:
        url = url or (base.get("engine_args") or {}).get("base_url")
        if url not in allow.base_urls:
            raise BonError(f"{label}: this server does not call {url!r}", f"{fix}base_urls")
    elif name is not None and not name.endswith((".yaml", ".yml")) and name not in allow.api_cards:
        problem = f"{label}: this server does not pay for the card {name}"
        raise BonError(problem, f"{fix}api_cards")
    for key in ("model", "revision", "cost") if before == "openai" else ("cost",):
        if key in own:
            raise BonError(f"{label}: {key} is the operator's to set", "leave it out")


# ------------------------------------------------------------------ sizes


def _check_sizes(setup: Setup, limits: Limits) -> None:
    experiment, deep = setup.experiment, setup.experiment.judging.deep
    sizes: list[tuple[str, float | None, float]] = [
        *(("questions.limit", task.limit, MAX_QUESTIONS) for task in experiment.questions),
        *((f"{spec.benchmark}: limit", spec.limit, MAX_PAIRS) for spec in experiment.pairs),
        *((f"{policy.card.name}: n", policy.card.n, limits.n) for policy in setup.policies),
        ("judging.deep.n", None if deep is None else deep.n, limits.n),
        ("the number of GPUs needed at once", _gpus(setup), limits.gpus_per_run),
    ]
    for model in setup.models:
        card = model.card
        sizes += [
            (f"{card.name}: tokens of a reply", card.sampling.max_new_tokens, limits.tokens),
            (f"{card.name}: placement.actors", card.placement.actors, MAX_ACTORS),
        ]
    for rewarder in (*setup.rewarders, *setup.assistants):
        votes = max([rewarder.card.votes, *setup.pair_votes(rewarder).values()])
        sizes.append((f"{rewarder.card.name}: votes", votes, MAX_VOTES))
    for name, value, most in sizes:
        if value is not None and value > most:
            raise BonError(f"{name} is {value:g}", f"at most {most:g} on this server")


def _gpus(setup: Setup) -> float:
    """Return the most GPUs that one of the run's placement groups needs; groups take turns."""
    groups: defaultdict[str, list[Placement]] = defaultdict(list)
    for model in setup.models:
        place = model.card.placement
        groups[place.group or f"model:{model.card.name}"].append(place)
    needs = (max(p.gpus for p in g) * max(p.actors for p in g) for g in groups.values())
    return max(needs, default=0.0)


def check_template(label: str, text: str) -> None:
    """Raise BonError unless a template only shows values: its output then grows with its input."""
    rest, values = _VALUE.subn("", text)
    if values > MAX_VALUES or re.search(r"\{[{%#]|[}%#]\}", rest):
        raise BonError(
            f"{label}: prompt.text may only show values, at most {MAX_VALUES}, on this server",
            "write {{ prompt }} and the like, or name a shipped prompt or a file of the server",
        )
