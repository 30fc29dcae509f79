"""Benchmarks in the making with known truth: items, and annotators that err as told."""

from bon.curating.items import CuratedItem, item_key
from bon.curating.labelling.annotations import Annotation


def made_item(number, better=0, texts=None, **given):
    """One item about a question of its own."""
    everything = {
        "key": item_key(f"q{number}", [f"t{number}-0", f"t{number}-1"]),
        "id": f"item-{number}",
        "question": f"q{number}",
        "prompt": f"What is {number}?",
        "images": (),
        "responses": tuple(texts or (f"response {place} of {number}" for place in range(2))),
        "policies": ("policy", "policy"),
        "answers": ("A", "B"),
        "better": better,
        "strategy": "other",
        "probability": 1.0,
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
