"""A run made of answers that exist already: several files are several candidates a question."""

from pathlib import Path

from bon.benchmarks.answers import read_answers
from bon.errors import BonError
from bon.keys import content_key
from bon.policies.ask import candidate_key, read, text_key
from bon.progress import say
from bon.records import Candidate
from bon.runner import begin
from bon.setup import Setup, prepare
from bon.store import Store


def import_answers(
    files: list[Path],
    policy: str,
    directory: Path,
    *,
    reader: str = "official",
    quiet: bool = False,
) -> None:
    """Write questions and candidates of answer files into a run directory.

    Raises:
        BonError: a file is missing, lacks a column, or asks other questions than the first.
    """
    if reader not in ("official", "strict"):
        raise BonError(f"no reader {reader!r}", "use official or strict")
    answers = read_answers(files)
    setup = _setup(files, policy, reader)
    spec = setup.policies[0].spec
    with Store(directory) as store:
        begin(setup, store)
        store.set_meta(files=[path.name for path in files])
        num_questions = store.set_questions(answers.questions)
        store.add_bad_rows((files[0].name, row.id, row.reason) for row in answers.bad_rows)
        for question, texts in zip(answers.questions, answers.texts, strict=True):
            rows = []
            for index, text in enumerate(texts):
                if text is None:
                    continue
                answer, outcome = read(text, question.options, reader)
                rows.append(
                    Candidate(
                        key=candidate_key(spec, question.key, index),
                        question=question.key,
                        policy=policy,
                        spec=spec,
                        index=index,
                        text=text,
                        text_key=text_key(text),
                        answer=answer,
                        outcome=outcome,
                        seed=0,
                        finish="imported",
                    )
                )
            store.add_candidates(rows)
    say(f"{num_questions} questions x {len(files)} candidates", quiet=quiet)


def _setup(files: list[Path], policy: str, reader: str) -> Setup:
    identity = content_key("import", [path.name for path in files])
    raw = {
        "name": "import",
        "questions": {"benchmark": "multiple_choice", "name": "imported"},
        "policies": [
            {
                "name": policy,
                "model": f"imported:{identity}",
                "engine": "none",
                "reader": reader,
                "prompt": "",
                "n": len(files),
            }
        ],
    }
    return prepare(raw, Path.cwd())
