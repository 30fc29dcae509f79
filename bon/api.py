"""The public Python API: runs, and scores, rankings and Best-of-N of single questions.

import bon
run = bon.run("experiment.yaml", out="runs/mine")
print(run.results.finding.sentence)

bon.score("qwen2.5-vl-7b-judge", "How many cats?", ["Two.", "Three."], images=["cats.png"])

User-fixable errors raise BonError, one line with the fix. `ascore`, `arank` and `abest_of_n` are
the async versions of `score`, `rank` and `best_of_n`.
"""

import atexit
import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, wraps
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from bon import graders
from bon.analysis.data.tables import Tables
from bon.analysis.results import CorrelationReport, Options, Results
from bon.benchmarks import BENCHMARKS
from bon.benchmarks.base import Adapter as Adapter
from bon.benchmarks.base import Form as Form
from bon.choosing.opinion import KIND_OF, Candidates, item_opinion
from bon.choosing.rules import RULES, Ranking, rule_of
from bon.choosing.rules import Rule as Rule
from bon.choosing.rules import rank as ranked
from bon.core.errors import BonError
from bon.core.files import private_files
from bon.core.keys import text_key
from bon.core.records import Candidate, Judgement
from bon.core.registry import Registry
from bon.core.validation import validate
from bon.dispatch.direct import Direct, DirectQuestion, Picture
from bon.experiment.cards import Loaded, load_policy, load_rewarder
from bon.experiment.config import RewarderCard
from bon.policies.extractors import extract_answer
from bon.rewarders.base import Rewarder
from bon.rewarders.base import Verdict as Verdict
from bon.rewarders.registry import REWARDERS, card_of, rewarder_class

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

ValueT = TypeVar("ValueT")
PartT = TypeVar("PartT")
ParamsT = ParamSpec("ParamsT")
PolicyRef = str | Path | Mapping[str, Any]
"""A policy card: its name, its path, or a mapping with its keys."""
RewarderRef = str | Path | Mapping[str, Any] | type[Rewarder]
"""A rewarder card in the same ways, or a Rewarder class."""


# ------------------------------------------------------------------ runs


@dataclass(frozen=True)
class Run:
    """A run directory, read on demand."""

    directory: Path

    @property
    def report(self) -> Path:
        """The HTML report."""
        return self.directory / "report.html"

    @cached_property
    def results(self) -> Results:
        """All results (docs/results.md)."""
        from bon.running.reporting import read_results

        return read_results(self.directory)

    @cached_property
    def tables(self) -> Tables:
        """The tables behind the results, as pandas frames (columns: docs/python.md)."""
        from bon.running.reporting import open_run
        from bon.storage.store import Store
        from bon.work.run_tables import run_tables

        with Store(self.directory, readonly=True) as store:
            return run_tables(open_run(store), store)

    def analyse(self, **changes: Any) -> Results:
        """Return the results under other settings; no model runs and nothing is written.

        `changes` are fields of `bon.analysis.results.Options`, such as n, axis, rules or ties.
        """
        from bon.analysis.run import analyse
        from bon.running.reporting import open_run
        from bon.storage.store import Store
        from bon.work.setup import options

        with Store(self.directory, readonly=True) as store:
            settings = options(open_run(store)).model_dump() | changes
        return analyse(self.tables, validate(Options, settings, "analyse"))

    def leaderboard(self, policy: str = "") -> "pd.DataFrame":
        """Return rewarders and baselines for a policy (the first by default), best first.

        `accuracy` (Best-of-N) and `benchmark` are fractions; `_low` and `_high` bound them.
        """
        from bon.analysis.report.leaderboard import frame

        return frame(self.results, policy)

    def plot(self, **options: Any) -> "Figure":
        """Draw benchmark accuracy against Best-of-N accuracy (`bon.analysis.plots.correlation`)."""
        from bon.analysis import plots

        return plots.correlation(self.results, **options)

    def _repr_html_(self) -> str:
        """Return the finding and the leaderboard, for notebooks."""
        try:
            finding, table = self.results.finding.sentence, self.leaderboard()
        except BonError as error:
            return f"<p>{escape(str(error))}</p>"
        board = table.to_html(index=False, float_format="{:.3f}".format)
        return f"<p>{escape(finding)}</p>{board}"

    @property
    def questions(self) -> "pd.DataFrame":
        """One row per question."""
        return self.tables.questions

    @property
    def candidates(self) -> "pd.DataFrame":
        """One row per sampled answer."""
        return self.tables.candidates

    @property
    def pairs(self) -> "pd.DataFrame":
        """One row per preference pair."""
        return self.tables.pairs

    @property
    def judgements(self) -> "pd.DataFrame":
        """One row per raw verdict or score."""
        return self.tables.judgements


@private_files()
def run(
    experiment: str | Path | Mapping[str, Any],
    out: str | Path,
    *,
    settings: list[str] | None = None,
    quiet: bool = False,
) -> Run:
    """Run or continue an experiment: a YAML file, or a mapping with the same keys."""
    from bon.experiment.overrides import apply_overrides
    from bon.running import runner
    from bon.work.setup import prepare, read_experiment

    if isinstance(experiment, Mapping):
        setup = prepare(apply_overrides(dict(experiment), settings or []), Path.cwd())
    else:
        setup = read_experiment(Path(experiment), settings)
    runner.run(setup, Path(out), quiet=quiet)
    return Run(Path(out))


@private_files()
def demo(out: str | Path, *, settings: list[str] | None = None, quiet: bool = False) -> Run:
    """Run the embedded miniature."""
    from bon.running import runner
    from bon.running.demo import demo_setup

    runner.run(demo_setup(Path(out), settings or []), Path(out), quiet=quiet)
    return Run(Path(out))


def load(directory: str | Path) -> Run:
    """Open an existing run."""
    return Run(Path(directory))


def correlate(
    table: "str | Path | pd.DataFrame | Mapping[str, Sequence[Any]]",
    outcomes: "Sequence[str]" = (),
    benchmarks: "Sequence[str]" = (),
) -> CorrelationReport:
    """Correlate published numbers: a CSV file, a DataFrame, or columns by name.

    One row per rewarder (and policy) holds its benchmark scores and outcomes, such as Best-of-N
    accuracy. Without names of columns, outcomes are known by theirs, and all others are benchmarks.
    """
    import pandas as pd

    from bon.analysis.published import correlate_table

    frame = pd.DataFrame(table) if isinstance(table, Mapping) else table
    return correlate_table(frame, outcomes=outcomes, benchmarks=benchmarks)


def register(part: PartT, name: str = "") -> PartT:
    """Register a Rewarder class, a Rule, a benchmark's Adapter or a grader; also a decorator.

    Cards then use `python: NAME`, experiments `benchmark: NAME` or `grader: NAME`; `name` defaults
    to that of the class, rule or function. Packages register parts by entry points
    (docs/python.md).
    """
    registries: tuple[Registry[Any], ...] = (REWARDERS, RULES, BENCHMARKS, graders.GRADERS)
    registry = next((one for one in registries if one.fits(part)), None)
    if registry is None:
        raise BonError(
            f"{part!r} is neither a Rewarder class nor a Rule nor an Adapter nor a function",
            "see docs/python.md",
        )
    name = name or getattr(part, "name", "") or getattr(part, "__name__", "")
    if not name:
        raise BonError(f"a {registry.kind} needs a name", 'bon.register(adapter, name="sums")')
    registry.add(name, part)
    graders.value.cache_clear()
    return part


# ------------------------------------------------------------------ one question


def _synchronous(
    call: Callable[ParamsT, Coroutine[Any, Any, ValueT]],
) -> Callable[ParamsT, ValueT]:
    """Make a synchronous version that also works inside a running event loop."""

    @wraps(call)
    def wrapper(*args: ParamsT.args, **kwargs: ParamsT.kwargs) -> ValueT:
        return _direct().start(call(*args, **kwargs)).result()

    wrapper.__name__ = wrapper.__qualname__ = call.__name__.removeprefix("a")
    return wrapper


@dataclass(frozen=True)
class BestAnswer:
    """Best-of-N on one question.

    `text` is the chosen answer and `letter` its option, if there are options and it could be
    parsed; `ranking` indexes `candidates`.
    """

    text: str
    letter: str | None
    candidates: tuple[Candidate, ...]
    ranking: Ranking
    judgements: tuple[Judgement, ...]


async def ascore(
    card: RewarderRef,
    question: str,
    answers: Sequence[str],
    *,
    images: Sequence[Picture] = (),
    options: Sequence[str] = (),
    allow_remote_code: bool = False,
) -> list[float | None]:
    """Score every answer with all votes and both orders, as in a run.

    A score is the mean of a critic or reward head, or the share of comparisons won under a judge;
    None if no reply could be parsed. `images` are paths, bytes or PIL images. With `options` the
    rewarder sees the question as in a multiple-choice run.
    """
    ranking = await arank(
        card,
        question,
        answers,
        images=images,
        options=options,
        allow_remote_code=allow_remote_code,
    )
    return list(ranking.scores)


async def arank(
    card: RewarderRef,
    question: str,
    answers: Sequence[str],
    *,
    images: Sequence[Picture] = (),
    options: Sequence[str] = (),
    rule: str | None = None,
    scale: float | None = None,
    allow_remote_code: bool = False,
) -> Ranking:
    """Rank answers under a selection rule (`bon list rules`), best first.

    `rule` defaults to the first of the rewarder's kind. `scale` is the unit of its scores in a
    weighted vote, as in a run's results.json.
    """
    rewarder = _rewarder(card)
    prompt = DirectQuestion.of(question, options, images)
    letters = [extract_answer(text, options, "strict")[0] if options else None for text in answers]
    return (await _rank(rewarder, prompt, answers, letters, rule, scale, allow_remote_code))[0]


async def abest_of_n(
    policy: PolicyRef,
    rewarder: RewarderRef,
    question: str,
    *,
    n: int | None = None,
    images: Sequence[Picture] = (),
    options: Sequence[str] = (),
    rule: str | None = None,
    scale: float | None = None,
    seed: int = 0,
    allow_remote_code: bool = False,
) -> BestAnswer:
    """Sample n answers of a policy (the card's n by default) and let a rewarder choose one."""
    sampler = load_policy(_ref(policy), Path.cwd(), seed)
    judge = _rewarder(rewarder)
    _rule(judge, rule, scale)  # raises before anything is sampled
    prompt = DirectQuestion.of(question, options, images)
    candidates = await _wait(
        _direct().sample(sampler, prompt, n or sampler.card.n, remote_code=allow_remote_code)
    )
    letters = [row.answer if options else None for row in candidates]
    texts = [row.text for row in candidates]
    ranking, rows = await _rank(judge, prompt, texts, letters, rule, scale, allow_remote_code)
    best = ranking.best
    return BestAnswer(texts[best], letters[best], tuple(candidates), ranking, tuple(rows))


score = _synchronous(ascore)
rank = _synchronous(arank)
best_of_n = _synchronous(abest_of_n)


def close() -> None:
    """Free the models that `score`, `rank` and `best_of_n` loaded."""
    if _direct.cache_info().currsize:
        _direct().start(_direct().close()).result()


# ------------------------------------------------------------------ inside


@cache
def _direct() -> Direct:
    atexit.register(close)
    return Direct()


async def _wait(work: Coroutine[Any, Any, ValueT]) -> ValueT:
    """Await work on the event loop of the models."""
    import asyncio

    return await asyncio.wrap_future(_direct().start(work))


async def _rank(
    rewarder: Loaded[RewarderCard],
    prompt: DirectQuestion,
    answers: Sequence[str],
    letters: Sequence[str | None],
    rule: str | None,
    scale: float | None,
    remote_code: bool,
) -> tuple[Ranking, list[Judgement]]:
    if not answers:
        raise BonError("there are no answers to rank", "give at least one")
    chosen = _rule(rewarder, rule, scale)
    rows: list[Judgement] = []
    if chosen.judged:
        rows = await _wait(
            _direct().judge(
                rewarder, prompt.item(answers), chosen.designs[0], remote_code=remote_code
            )
        )
    candidates = Candidates.of(prompt.record.key, [text_key(text) for text in answers], letters)
    kind = KIND_OF[rewarder_class(rewarder.card).arity]
    ranking = ranked(chosen, item_opinion(kind, rows, candidates, scale))
    if ranking is None:
        raise BonError(
            f"{rewarder.card.name}: not all judgements that {chosen.name} needs came back",
            f"the last error: {next((r.error for r in reversed(rows) if r.error), 'none')}",
        )
    return ranking, rows


def _rule(rewarder: Loaded[RewarderCard], name: str | None, scale: float | None) -> Rule:
    kind = KIND_OF[rewarder_class(rewarder.card).arity]
    chosen = rule_of(kind, name, rewarder.card.name)
    if chosen.scaled and scale is None and kind == "scores":
        raise BonError(
            f"{chosen.name} weighs scores in a unit that one question does not determine",
            f"pass scale= from a run's results.json for {rewarder.card.name}",
        )
    return chosen


def _rewarder(card: RewarderRef) -> Loaded[RewarderCard]:
    ref = card_of(card) if inspect.isclass(card) else _ref(card)
    loaded = load_rewarder(ref, Path.cwd())
    if loaded.card.kind == "ensemble":
        raise BonError(f"{loaded.card.name} is an ensemble", "use its members, or make a run")
    return loaded


def _ref(card: PolicyRef) -> str | dict[str, Any]:
    return dict(card) if isinstance(card, Mapping) else str(card)
