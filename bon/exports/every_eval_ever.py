"""Every Eval Ever 0.3.0: one log per rewarder.

Paths follow the public store: data/COLLECTION/DEVELOPER/MODEL/UUID.json. Names and times come from
the results, so that the same run gives the same files.
"""

import hashlib
import json
import uuid
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bon.analysis.results import BestOfN, Estimate
from bon.core.errors import BonError
from bon.engines import engine_entry
from bon.experiment.cards import Loaded
from bon.experiment.config import Card, DatasetSpec, RewarderCard
from bon.exports.contents import Contents, hub_of, model_id, name_of

SCHEMA_VERSION = "0.3.0"
COLLECTION = "bon"
_MINIMUM = {"accuracy": 0.0, "gain": -1.0, "gap_closed": "-Infinity"}


def write_every_eval_ever(contents: Contents, out: Path) -> list[Path]:
    """Write a log for every rewarder: accuracy on reward benchmarks, then Best-of-N."""
    paths = []
    for rewarder in (*contents.setup.rewarders, *contents.setup.ensembles):
        name = rewarder.card.name
        if results := [*_on_pairs(contents, name), *_best_of_n(contents, name)]:
            paths.append(_write(contents, rewarder, results, out))
    if not paths:
        raise BonError("the run has no rewarders to export", "see bon list exports")
    return paths


def _write(
    contents: Contents, rewarder: Loaded[RewarderCard], results: list[dict[str, Any]], out: Path
) -> Path:
    developer, name = model_id(rewarder.card)
    run = contents.results.run
    time = str(int(datetime.fromisoformat(run.created).timestamp()))
    log_id = f"bon-{run.name}/{rewarder.card.name}/{time}".replace(" ", "-")
    stem = uuid.UUID(bytes=hashlib.sha256(log_id.encode()).digest()[:16], version=4)
    first_party = contents.organisation == developer
    log: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": log_id,
        "evaluation_timestamp": time,
        "retrieved_timestamp": time,
        "source_metadata": {
            "source_name": "bon",
            "source_type": "evaluation_run",
            "source_organization_name": contents.organisation or "not stated",
            "evaluator_relationship": "first_party" if first_party else "third_party",
        },
        "eval_library": {"name": "bon", "version": run.bon_version},
        "model_info": _model(rewarder, f"{developer}/{name}", developer),
        "evaluation_results": results,
    }
    path = out / "data" / COLLECTION / developer / name / f"{stem}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(log, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def _on_pairs(contents: Contents, rewarder: str) -> Iterator[dict[str, Any]]:
    results = contents.results
    specs = {name_of(spec): spec for spec in contents.setup.experiment.pairs}
    protocols = {row.rewarder: row for row in results.protocol.rewarders}
    for row in results.benchmarks:
        if row.rewarder != rewarder or row.benchmark not in specs:
            continue
        about = f"ties: {results.options.ties}"
        if protocol := protocols.get(rewarder):
            about = f"votes: {protocol.votes_pairs}, orders: {protocol.orders_pairs}, {about}"
        estimates = {"macro": row.macro, "overall": row.overall}
        estimates |= {"natural": row.natural} if row.natural else {}
        estimates |= {group.name: group.accuracy for group in row.groups}
        for name, estimate in estimates.items():
            title = f"{name} accuracy on {row.benchmark}"
            key, spec = f"{row.benchmark}.{name}", specs[row.benchmark]
            yield from _result(contents, key, title, "accuracy", spec, estimate, about)


def _best_of_n(contents: Contents, rewarder: str) -> Iterator[dict[str, Any]]:
    spec = contents.setup.experiment.questions
    for row in contents.results.best_of_n:
        if not row.headline or row.rewarder != rewarder:
            continue
        about = (
            f"Best-of-{row.n} of {row.policy}, picked by this model; rule {row.rule}; "
            f"answers without a letter count as {contents.results.options.unparsed}"
        )
        for metric, title, estimate in (
            ("accuracy", f"Best-of-{row.n} accuracy", row.accuracy),
            ("gain", f"gain of Best-of-{row.n} over one answer", row.gain),
            ("gap_closed", f"gap to the oracle that Best-of-{row.n} closes", row.gap_closed),
        ):
            key = f"{name_of(spec)}.{row.policy}.bon{row.n}.{metric}"
            yield from (
                result | {"generation_config": _generation(contents, row)}
                for result in _result(contents, key, title, metric, spec, estimate, about)
            )


def _result(
    contents: Contents, key: str, title: str, metric: str, spec: DatasetSpec, estimate: Estimate,
    about: str,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Yield the result if its value is known."""
    if estimate.value is not None:
        yield {
            "evaluation_result_id": key,
            "evaluation_name": f"bon.{key}",
            "source_data": _dataset(spec, estimate.n),
            "metric_config": {
                "evaluation_description": about,
                "metric_id": f"bon.{metric}",
                "metric_name": title,
                "metric_kind": metric,
                "metric_unit": "proportion",
                "lower_is_better": False,
                "score_type": "continuous",
                "min_score": _MINIMUM[metric],
                "max_score": 1.0,
            },
            "score_details": _score(estimate, contents.results.options.level),
        }


def _generation(contents: Contents, row: BestOfN) -> dict[str, Any]:
    policy = next(one for one in contents.setup.policies if one.card.name == row.policy)
    names = ("temperature", "top_p", "top_k", "max_tokens")
    return {
        "generation_args": {name: getattr(policy.card.sampling, name) for name in names},
        "additional_details": {
            "policy": "/".join(model_id(policy.card)),
            "prompt": f"{policy.prompt.id} sha256:{policy.prompt.sha256[:16]}",
            "n": str(row.n),
            "rule": row.rule,
        },
    }


def _model(rewarder: Loaded[RewarderCard], model: str, developer: str) -> dict[str, Any]:
    card = rewarder.card
    local = engine_entry(card.engine).runs_model
    remote = is_remote(card)
    closed = remote and "terms of service" in card.licence.lower()
    weights = "open_weights" if developer != "unknown" else "unknown"
    info: dict[str, Any] = {
        "name": card.title or card.name,
        "id": model,
        "developer": developer,
        "additional_details": {
            "deployment_type": (
                "externally_managed" if remote else "self_deployed" if local else "unknown"
            ),
            "model_availability": "closed_weights" if closed else weights,
            "card": card.name,
            "kind": card.kind,
            "licence": card.licence,
            "revision": card.revision or "",
            "prompt": f"{rewarder.prompt.id} sha256:{rewarder.prompt.sha256[:16]}",
            "images": card.image_filter,
        },
    }
    return info | ({"inference_engine": {"name": card.engine}} if local else {})


def is_remote(card: Card) -> bool:
    """Whether a model runs at an endpoint of another machine."""
    host = urlsplit(str(card.engine_args.get("base_url", ""))).hostname or ""
    return card.engine == "openai" and host not in ("", "localhost", "127.0.0.1", "::1")


def _dataset(spec: DatasetSpec, count: int) -> dict[str, Any]:
    hub = hub_of(spec)
    if not hub:
        return {"dataset_name": name_of(spec), "source_type": "other"}
    return {
        "dataset_name": name_of(spec),
        "source_type": "hf_dataset",
        "hf_repo": hub,
        "samples_number": count,
        "additional_details": {"revision": spec.revision or "", "config": spec.config or ""},
        **({"hf_split": spec.split} if spec.split else {}),
    }


def _score(estimate: Estimate, level: float) -> dict[str, Any]:
    uncertainty: dict[str, Any] = {"num_samples": estimate.n}
    if estimate.low is not None and estimate.high is not None:
        resampled = estimate.method in ("questions", "pairs")
        uncertainty["confidence_interval"] = {
            "lower": estimate.low,
            "upper": estimate.high,
            "confidence_level": level,
            "method": f"bootstrap over {estimate.method}" if resampled else estimate.method,
        }
    return {"score": estimate.value, "uncertainty": uncertainty}
