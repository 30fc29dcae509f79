"""Benchmarks in the making with known truth: items, annotators and rewarders that err as told."""

import numpy as np
import pandas as pd

from bon.curating.items import CuratedItem, item_key
from bon.curating.labelling.annotations import Annotation


def made_item(number, better=0, strategy="gold", probability=1.0, texts=None, **given):
    """One item; its key is that of its texts, as it is for real ones."""
    texts = texts or [f"response {place} of {number}" for place in range(2)]
    keys = tuple(f"t{number}-{place}" for place in range(len(texts)))
    everything = {
        "key": item_key(f"q{number}", keys),
        "id": f"item-{number}",
        "run": "run",
        "question": f"q{number}",
        "prompt": f"What is {number}?",
        "images": (),
        "responses": tuple(texts),
        "text_keys": keys,
        "policies": ("policy",) * len(texts),
        "answers": tuple("ABCD"[: len(texts)]),
        "better": better,
        "strategy": strategy,
        "probability": probability,
        "split": "public",
    }
    return CuratedItem(**everything | given)


def made_items(count, rng, mislabelled=(), **given):
    """Pairs, the right response in either place; labels of `mislabelled` name the other one."""
    truth = rng.integers(0, 2, count)
    items = [
        made_item(n, better=int(1 - truth[n] if n in mislabelled else truth[n]), **given)
        for n in range(count)
    ]
    return items, truth


def said_by(items, truth, names, rng, error, third=False, **given):
    """Each annotator errs independently at `error`; a third where the first two differ."""
    rows = []
    for item, right in zip(items, truth, strict=True):
        said = []
        for name in names:
            wrong = rng.random() < error
            said.append(str(1 - right if wrong else right))
            rows.append(Annotation(item.key, name, said[-1], (0, 1), seconds=12.0, **given))
        if third and said[0] != said[1]:
            wrong = rng.random() < error
            choice = str(1 - right if wrong else right)
            rows.append(Annotation(item.key, "third", choice, (0, 1), seconds=20.0, **given))
    return rows


def credits_of(items, truth, rng, abilities, spread=1.0, orders=2, slip=0.1):
    """Item x rewarder x order: credit where a rewarder finds the truth and the label agrees.

    Success is Rasch's; in each order of its own the verdict turns with probability `slip`.
    """
    difficulty = rng.normal(0, spread, len(items))
    rows = []
    for name, ability in abilities.items():
        finds = rng.random(len(items)) < 1 / (1 + np.exp(difficulty - ability))
        for order in range(orders):
            seen = finds ^ (rng.random(len(items)) < slip)
            for item, right, found in zip(items, truth, seen, strict=True):
                says = right if found else 1 - right
                rows.append((item.key, name, order, float(says == item.better)))
    return pd.DataFrame(rows, columns=["item", "rewarder", "order", "credit"])
