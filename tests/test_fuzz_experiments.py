"""Mutated experiment files, through the functions that `bon run` and `bon plan` begin with.

500 files by default (4 s); BON_FUZZ=10000 for more, BON_FUZZ_SEED for others.
"""

import copy
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from bon.core.errors import BonError
from bon.core.files import file_error
from bon.experiment.yamlfile import load_yaml
from bon.planning.plan import make_plan
from bon.work.setup import read_experiment, shipped_experiments
from tests.conftest import echo_experiment, write_pairs, write_questions

COUNT = int(os.environ.get("BON_FUZZ", "500"))
SEED = int(os.environ.get("BON_FUZZ_SEED", "0"))

MINE = """
name: my-study
seed: 3
questions: {benchmark: multiple_choice, path: questions.jsonl, limit: 5, columns: {id: id}}
pairs:
  - {benchmark: preference, path: pairs.jsonl, votes: 3, name: mine}
policies:
  - {name: p, engine: echo, prompt: {text: "{{ question }} {{ options }}"}, n: 4}
  - {card: qwen2.5-vl-7b, n: 2, sampling: {temperature: 0.5}, placement: {gpus: 0.5}}
rewarders:
  - qwen2.5-vl-7b-judge
  - name: j
    kind: listwise
    engine: echo
    prompt: {text: "{{ prompt }}{% for r in responses %}{{ r }}{% endfor %}"}
    score: {pattern: "Best: (\\\\d+)", range: [1, 10]}
  - {name: both, kind: ensemble, members: [j, qwen2.5-vl-7b-judge]}
judging: {design: knockout, skip: constant}
analysis: {n: 2, axis: macro, rules: [majority], bootstrap: 500}
cluster: {address: null, batch: 32, spending_cap: 5.0}
"""
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 7, 10**25, 0.5, -0.0, float("inf"), float("nan"), "", " ", "x",
    "none", "…", "é" * 50, "a" * 300, "../x", "/", ".", "{{", "(", "[", "a.yaml", "~/x", "\t",
    [], [[]], [1, 2], ["a", "b"], [None], {}, {"a": 1}, {1: 2}, {None: None}, {"card": 3},
    {"card": "no.yaml"}, {"text": "{{ x }}"}, {"file": "."}, {"upstream": "x"}, {"pattern": "(("},
)  # fmt: skip
SNIPPETS = (
    ":", "-", "[", "]", "{", "}", "&a ", "*a", "!!python/object:os.system ", "!x ", "'", '"', "#",
    "|", ">", "%", "@", "`", "\t", "\n", "  ", "? ", "<<: ", "---\n", "...\n", "\\", "\u2028",
    "=", "~", ".inf", "1:30", "0o7", "2024-01-01", "- - - - ", "yes: ", "\ufeff",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("fuzz")
    write_questions(path / "questions.jsonl", 6)
    write_pairs(path / "pairs.jsonl", 4)
    return path


def texts() -> list[str]:
    shipped = [path.read_text(encoding="utf-8") for path in shipped_experiments().values()]
    return [MINE, yaml.safe_dump(echo_experiment(), sort_keys=False), *shipped]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, one in inner:
        found.append((*path, key))
        if isinstance(one, dict | list):
            found += places(one, (*path, key))
    return found


def structural(data: Any, rng: random.Random) -> str:
    data = copy.deepcopy(data)
    for _ in range(rng.randint(1, 3)):
        paths = places(data)
        if not paths:
            break
        *above, last = rng.choice(paths)
        node = data
        for key in above:
            node = node[key]
        match rng.randrange(6):
            case 0 | 1:
                node[last] = copy.deepcopy(rng.choice(VALUES))
            case 2:
                del node[last]
            case 3 if isinstance(node, dict):
                letters = list(str(last))
                letters[rng.randrange(len(letters) or 1) : 1] = rng.choice("aexz_")
                node["".join(letters)] = node.pop(last)
            case 4:
                node[last] = [node[last]] if rng.random() < 0.5 else {"x": node[last]}
            case _:
                node[last] = copy.deepcopy(data)
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=rng.choice((40, 10**6)))


def textual(text: str, rng: random.Random) -> str:
    for _ in range(rng.randint(1, 4)):
        at, lines = rng.randrange(len(text) + 1), text.splitlines(keepends=True)
        line = rng.randrange(max(1, len(lines)))
        match rng.randrange(6):
            case 0 | 1:
                text = text[:at] + rng.choice(SNIPPETS) * rng.choice((1, 1, 1, 60)) + text[at:]
            case 2:
                text = text[:at] + text[at + rng.randint(1, 12) :]
            case 3:
                text = "".join([*lines[:line], *lines[line : line + 2], *lines[line:]])
            case 4:
                text = "".join([*lines[:line], " " * rng.randint(1, 5), *lines[line:]])
            case _:
                text = text[:at] + chr(rng.choice((0, 9, 27, 0x85, 0xFFFD, 0x1F600))) + text[at:]
    return text


def mutated(number: int, bases: list[tuple[str, Any]]) -> str:
    rng = random.Random(f"{SEED} {number}")
    text, data = rng.choice(bases)
    return structural(data, rng) if rng.random() < 0.6 else textual(text, rng)


def outcome(file: Path) -> str:
    """What reading and planning come to; whatever is no BonError is a failure of the test."""
    try:
        make_plan(read_experiment(file))
    except BonError as error:
        return str(error)
    except OSError as error:  # as the command line says it
        return str(file_error(error))
    return ""


def test_a_mutated_experiment_is_read_or_refused_in_one_line_each(folder):
    bases = [(text, load_yaml(text)) for text in texts()]
    for text, _ in bases:
        (folder / "e.yaml").write_text(text, encoding="utf-8")
        outcome(folder / "e.yaml")  # whatever is read once for all
    file, tally = folder / "e.yaml", Counter[str]()
    for number in range(COUNT):
        text = mutated(number, bases)
        file.write_text(text, encoding="utf-8", newline="")
        try:
            said = outcome(file)
        except Exception as error:
            raise AssertionError(f"file {number}: {error!r}:\n{text}") from error
        for line in said.split("\n") if said else []:
            assert " -> " in line, f"file {number}: no fix in {line!r}"
            assert len(line) < 1000, f"file {number}: {line}"
        tally["refused" if said else "read"] += 1
    assert min(tally["refused"], tally["read"]) > COUNT / 50, tally
