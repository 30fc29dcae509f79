"""Every Eval Ever 0.3.0: one log per rewarder, and its choices as samples.

Paths follow the public store: data/COLLECTION/DEVELOPER/MODEL/UUID.json and UUID_samples.jsonl.
Names and times come from the results, so that the same run gives the same files.
"""

import hashlib
import json
import uuid
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from bon.analysis.results import Estimate
from bon.core.errors import BonError
from bon.engines import engine_entry
from bon.experiment.cards import Loaded
from bon.experiment.config import DatasetSpec, RewarderCard
from bon.exports.contents import Choice, Contents
from bon.exports.image_files import write_jsonl
from bon.exports.scores import Score, hub_of, is_remote, model_id, name_of, scores
from bon.policies.prompting import question_block

SCHEMA_VERSION = "0.3.0"
COLLECTION = "bon"
_MINIMUM = {"accuracy": 0.0, "gain": -1.0, "gap_closed": "-Infinity"}


def write_every_eval_ever(contents: Contents, out: Path) -> list[Path]:
    """Write a log and its samples for every rewarder."""
    paths = []
    for rewarder, rows in groupby(scores(contents), key=lambda row: row.rewarder):
        paths += _write(contents, rewarder, list(rows), out)
    if not paths:
        raise BonError("the run has no rewarders to export", "see bon list exports")
    return paths


def _write(
    contents: Contents, rewarder: Loaded[RewarderCard], rows: list[Score], out: Path
) -> list[Path]:
    developer, name = model_id(rewarder.card)
    model, run = f"{developer}/{name}", contents.results.run
    time = str(int(datetime.fromisoformat(run.created).timestamp()))
    log_id = f"bon-{run.name}/{rewarder.card.name}/{time}".replace(" ", "-")
    stem = uuid.UUID(bytes=hashlib.sha256(log_id.encode()).digest()[:16], version=4)
    folder = Path("data") / COLLECTION / developer / name
    (out / folder).mkdir(parents=True, exist_ok=True)
    # Choices are among all candidates, so a headline at a smaller n has no samples.
    sizes = {policy.policy: policy.num_candidates for policy in contents.results.policies}
    samples = [
        _sample(choice, row, log_id, model)
        for row in rows
        if (best := row.best_of_n) and row.metric == "accuracy" and best.n == sizes[best.policy]
        for choice in contents.chosen(best.policy, rewarder.card.name)
    ]
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
        "model_info": _model(rewarder, model, developer),
        "evaluation_results": [_result(contents, row) for row in rows],
    }
    paths = []
    if samples:
        path = write_jsonl(samples, out / folder / f"{stem}_samples.jsonl")
        log["detailed_evaluation_results"] = {
            "format": "jsonl",
            "file_path": (folder / path.name).as_posix(),
            "hash_algorithm": "sha256",
            "checksum": hashlib.sha256(path.read_bytes()).hexdigest(),
            "total_rows": len(samples),
        }
        paths.append(path)
    path = out / folder / f"{stem}.json"
    path.write_text(json.dumps(log, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return [path, *paths]


def _model(rewarder: Loaded[RewarderCard], model: str, developer: str) -> dict[str, Any]:
    card = rewarder.card
    local = bool(engine_entry(card.engine).packages)
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


def _result(contents: Contents, row: Score) -> dict[str, Any]:
    result: dict[str, Any] = {
        "evaluation_result_id": row.key,
        "evaluation_name": f"bon.{row.key}",
        "source_data": _dataset(row.dataset, row.estimate.n),
        "metric_config": {
            "evaluation_description": row.about,
            "metric_id": f"bon.{row.metric}",
            "metric_name": row.title,
            "metric_kind": row.metric,
            "metric_unit": "proportion",
            "lower_is_better": False,
            "score_type": "continuous",
            "min_score": _MINIMUM[row.metric],
            "max_score": 1.0,
        },
        "score_details": _score(row.estimate, contents.results.options.level),
    }
    if row.best_of_n:
        policy = contents.policy(row.best_of_n.policy)
        names = ("temperature", "top_p", "top_k", "max_tokens")
        result["generation_config"] = {
            "generation_args": {name: getattr(policy.card.sampling, name) for name in names},
            "additional_details": {
                "policy": "/".join(model_id(policy.card)),
                "prompt": f"{policy.prompt.id} sha256:{policy.prompt.sha256[:16]}",
                "n": str(row.best_of_n.n),
                "rule": row.best_of_n.rule,
            },
        }
    return result


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


def _sample(choice: Choice, row: Score, log_id: str, model: str) -> dict[str, Any]:
    assert row.best_of_n is not None
    question = choice.question
    raw, reference = question_block(question), [question.answer or ""]
    text = json.dumps({"raw": raw, "reference": reference}, sort_keys=True, separators=(",", ":"))
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": log_id,
        "model_id": model,
        "evaluation_name": f"bon.{row.key}",
        "evaluation_result_id": row.key,
        "sample_id": question.id,
        "sample_hash": hashlib.sha256(text.encode()).hexdigest(),
        "interaction_type": "single_turn",
        "input": {"raw": raw, "reference": reference, "choices": list(question.options)},
        "output": {"raw": [candidate.text for candidate in choice.candidates]},
        "answer_attribution": [
            {
                "turn_idx": 0,
                "source": "output.raw",
                "extracted_value": candidate.answer or "",
                "extraction_method": f"bon answer extractor: {choice.extractor}",
                "is_terminal": True,
            }
            for candidate in choice.candidates
        ],
        "evaluation": {"score": choice.correct, "is_correct": choice.correct == 1},
        "metadata": {
            "policy": row.best_of_n.policy,
            "n": str(row.best_of_n.n),
            "rule": row.best_of_n.rule,
            "chosen_index": " ".join(str(candidate.index) for candidate in choice.candidates),
            "subject": question.subject,
            "question_key": question.key,
        },
    }
