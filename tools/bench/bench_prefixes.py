"""What it saves to read the images and common text of prompts once: `bench_prefixes.py RUN CARD`.

The different texts of some questions of a run are scored (or compared, in both orders) by one
rewarder on the transformers engine, with and without shared beginnings: CPU seconds of the
engine, and whether the answers are the same. RUN is a demo's, CARD one of the miniature's.
"""

import argparse
import asyncio
import time
from pathlib import Path
from typing import Any

from measured import Side, note

import bon
from bon.engines.batching import Job
from bon.engines.hf import engine
from bon.experiment.cards import load_rewarder
from bon.running.reporting import open_run
from bon.storage.store import Store

CARDS = Path(bon.__file__).parent / "miniature" / "cards" / "rewarders"


def main() -> None:
    """Measure both ways, in turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("card")
    parser.add_argument("--questions", type=int, default=16)
    args = parser.parse_args()
    card = CARDS / f"{args.card}.yaml"
    asked = questions(args.run, args.questions)
    seconds, requests = watched()
    can_share, said, took = engine.can_share, {}, {}
    for shared in (True, False):
        engine.can_share = can_share if shared else lambda model, processor: False  # type: ignore[assignment]
        seconds.clear(), requests.clear()
        said[shared] = asyncio.run(judged(card, asked))
        bon.close()
        took[shared] = sum(seconds)
        print(f"shared {shared!s:5}  {sum(requests):>5} requests  {took[shared]:6.2f} CPU seconds")
    sides = (Side(who, took[how], took[how]) for who, how in (("bon", True), ("not shared", False)))
    note(f"common beginnings read once, {args.card}", "CPU s", *sides)
    print(f"the same answers: {said[True] == said[False]}")


def questions(run: Path, count: int) -> list[dict[str, Any]]:
    """Questions with at least three different texts, as `bon.ascore` and `bon.arank` take them."""
    found = []
    with Store(run, readonly=True) as store:
        policy = open_run(store).policies[0]
        for question in store.questions():
            rows = store.candidates(policy.spec, question.key)
            texts = list(dict.fromkeys(row.text for row in rows))
            if len(texts) > 2 and len(found) < count:
                text = "\n".join([question.text, *question.options])
                images = [image.path for image in question.images]
                found.append({"question": text, "answers": texts, "images": images})
    return found


def watched() -> tuple[list[float], list[int]]:
    """CPU seconds and requests of every batch from now on."""
    seconds: list[float] = []
    requests: list[int] = []
    run = engine.TransformersEngine.run

    def timed(self: engine.TransformersEngine, jobs: list[Job]) -> list[Any]:
        start = time.thread_time()
        results = run(self, jobs)
        seconds.append(time.thread_time() - start)
        requests.append(len(jobs))
        return results

    engine.TransformersEngine.run = timed  # type: ignore[method-assign]
    return seconds, requests


async def judged(card: Path, asked: list[dict[str, Any]]) -> list[str]:
    """What the rewarder says of all questions at once."""
    kind = load_rewarder(str(card), CARDS).card.kind
    ask = bon.arank if kind == "pairwise" else bon.ascore
    found = await asyncio.gather(
        *(ask(card, one["question"], one["answers"], images=one["images"]) for one in asked)
    )
    if kind == "pairwise":
        return [str(one) for one in found]
    return [str([s if s is None else round(s, 3) for s in one]) for one in found]


if __name__ == "__main__":
    main()
