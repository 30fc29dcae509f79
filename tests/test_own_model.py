"""docs/own_model.md's text reward model and study, as real processes on tiny checkpoints."""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

sys.path.insert(0, str(Path(__file__).parent / "engines"))

from tiny_checkpoint import image  # noqa: E402
from tiny_text_models import make_text_model  # noqa: E402

from bon.core.keys import text_key  # noqa: E402
from bon.experiment.cards import load_rewarder  # noqa: E402
from bon.planning.model_sizes import GIB, fit_of  # noqa: E402
from bon.policies.prompting import question_block  # noqa: E402
from bon.storage.store import Store  # noqa: E402

pytestmark = [pytest.mark.model, pytest.mark.ray]

PAGE = Path(__file__).parents[1] / "docs/own_model.md"
REWARD_MODEL = "Qwen2ForSequenceClassification"
ONE_WORKER = "placement: {group: all}"  # torch is imported once
LM = f"model: checkpoints/lm, {ONE_WORKER}"
WRITER = f"{LM}, sampling: {{max_tokens: 8}}"
KINDS = [  # every kind of rewarder that a model of text alone can be
    f"{{card: my-rm.yaml, {ONE_WORKER}}}",
    f"{{name: likelihood, kind: likelihood, {LM}}}",
    f"{{name: judge, kind: pairwise, {WRITER}, prompt: pairwise, verdict: {{pattern: '([12])'}}}}",
    f"{{name: critic, kind: pointwise, {WRITER}, prompt: {{text: '{{{{ response }}}}'}}, "
    "score: {yes: [A], no: [B]}}",
    f"{{name: list, kind: listwise, {WRITER}, prompt: listwise, score: {{pattern: '([0-9])'}}}}",
    f"{{name: steps, kind: stepwise, {WRITER}, prompt: {{text: '{{{{ step }}}}'}}, "
    "score: {yes: [A], no: [B]}}",
]
SETTINGS = [
    "questions.path=math.jsonl",
    "pairs.path=pairs.jsonl",
    f"policies=[{{name: lm, prompt: open, n: 3, {WRITER}}}]",
    f"rewarders=[{', '.join(KINDS)}]",
    "judging.skip=nothing",
    "analysis.bootstrap=100",
]


def run_bon(
    folder: Path, *arguments: str, settings: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    sets = [part for setting in settings for part in ("--set", setting)]
    command = [sys.executable, "-m", "bon", *arguments, *sets]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    make_text_model(folder / "checkpoints/lm", "Qwen3ForCausalLM")
    make_text_model(folder / "checkpoints/my-rm", REWARD_MODEL, pad=False, num_labels=1)
    for name, text in re.findall(r"```yaml\n# ([\w-]+\.yaml)(.*?)```", PAGE.read_text(), re.S):
        (folder / name).write_text(f"#{text}")
    questions = [
        {"problem": f"What is {i} + {i}?", "answer": str(2 * i), "unique_id": f"q{i}"}
        for i in range(4)
    ]
    pairs = [
        {"id": f"p{i}", "prompt": f"Name {i} fruits.", "chosen": ["Apples."],
         "rejected": [f"{i} {word}." for word in ("circles", "squares", "stars")]}
        for i in range(4)
    ]  # fmt: skip
    write(folder / "math.jsonl", questions)
    write(folder / "pairs.jsonl", pairs)
    return folder


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def bare_scores(folder: Path, texts: list[tuple[str, str]]) -> list[float]:
    """What transformers' own class gives for prompts and responses, without bon."""
    source = folder / "checkpoints/my-rm"
    model = getattr(transformers, REWARD_MODEL).from_pretrained(source, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    scores = []
    for prompt, response in texts:
        turns = [{"role": "user", "content": prompt}, {"role": "assistant", "content": response}]
        text = tokenizer.apply_chat_template(turns, tokenize=False)
        ids = tokenizer(text, return_tensors="pt", add_special_tokens=False)["input_ids"]
        with torch.inference_mode():
            scores.append(float(model(ids).logits[0, 0]))
    return scores


def test_the_text_study_runs_and_scores_as_transformers_does(folder: Path) -> None:
    done = run_bon(folder, "run", "text-study.yaml", "--out", "run", settings=SETTINGS)
    assert done.returncode in (0, 3), done.stdout + done.stderr
    assert (folder / "run/report.html").is_file(), done.stdout + done.stderr
    with Store(folder / "run", readonly=True) as store:
        prompts = {question.key: question_block(question) for question in store.questions()}
        texts = {}
        for _, pair in store.pairs():
            prompts[pair.key] = pair.prompt
            texts |= {text_key(text): text for text in pair.responses}
        texts |= dict(store.query("SELECT text_key, text FROM candidates"))
        rows = store.query(
            "SELECT rewarder, item_kind, item, first, outcome, score, error FROM judgements"
        )
        assert not store.meta("failed")
        assert len(store.query("SELECT key FROM candidates WHERE outcome != 'error'")) == 12
    assert {row[0] for row in rows} == {
        "my-rm", "likelihood", "judge", "critic", "list", "steps"
    }  # fmt: skip
    assert not [row for row in rows if row[4] == "error"]
    scored = [row for row in rows if row[0] == "my-rm"]
    assert {row[1] for row in scored} == {"question", "pair"}
    expected = bare_scores(folder, [(prompts[row[2]], texts[row[3]]) for row in scored])
    assert [row[5] for row in scored] == pytest.approx(expected, abs=1e-5)


def test_doctor_tells_a_model_of_text_alone_what_the_picture_shows(folder: Path) -> None:
    assert run_bon(folder, "show", "my-rm.yaml").returncode == 0
    done = run_bon(folder, "doctor", "--rewarder", "my-rm.yaml", "--json")
    assert done.returncode in (0, 3), done.stderr  # it is untrained
    prompt = "A picture shows: red square. What colour is the square?"
    expected = bare_scores(folder, [(prompt, "It is red."), (prompt, "It is blue.")])
    assert json.loads(done.stdout)["scores"][0] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("where", ["questions", "pairs"])
def test_images_for_a_text_model_stop_the_run_early(folder: Path, where: str) -> None:
    (folder / "picture.png").write_bytes(image(0).data)
    benchmark, row = {
        "questions": ("math500", {"problem": "Which?", "answer": "1", "unique_id": "q"}),
        "pairs": ("preference", {"id": "p", "prompt": "Which?", "chosen": "A", "rejected": "B"}),
    }[where]
    write(folder / f"{where}.jsonl", [{**row, "image": "picture.png"}])
    data = f"{{benchmark: {benchmark}, path: {where}.jsonl, columns: {{image: image}}}}"
    shown = [*SETTINGS, f"{where}={data}"]
    done = run_bon(folder, "run", "text-study.yaml", "--out", where, settings=shown)
    assert done.returncode == 2, done.stdout + done.stderr
    problem = f"checkpoints/my-rm reads text alone, and {where} have images"
    assert f"card 'my-rm': {problem}" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    only_policies = where == "questions"
    assert ("card 'lm'" in done.stderr) is only_policies
    plan = run_bon(folder, "plan", "text-study.yaml", settings=shown)
    assert plan.returncode == 0, plan.stderr
    assert "reads text alone" in " ".join(plan.stdout.split())


def test_memory_of_a_folder_is_planned_by_its_files(folder: Path) -> None:
    card = {"name": "rm", "kind": "scalar", "model": "checkpoints/my-rm", "placement": {"gpus": 1}}
    fit = fit_of(load_rewarder({**card, "engine_args": {"dtype": "float32"}}, folder))
    assert fit is not None
    size = (folder / "checkpoints/my-rm/model.safetensors").stat().st_size
    assert fit.weights == pytest.approx(size / GIB)
    assert fit.kv_cache == pytest.approx(2 * 2 * 2 * 16 * 2 * fit.tokens / GIB)
