"""The command line's work as functions, and cards asked one question at a time.

import bon
run = bon.run("experiment.yaml", out="runs/mine")
print(run.results.finding.sentence)

bon.score("qwen2.5-vl-7b-judge", "How many cats?", ["Two.", "Three."], images=["cats.png"])

Every function raises BonError, in one line with the fix, for whatever a user can mend. `score`,
`rank` and `best_of_n` have async twins: `ascore`, `arank` and `abest_of_n`.
"""

import atexit
import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from pydantic import ValidationError

from bon import benchmarks
from bon.analysis.data.tables import Tables
from bon.analysis.results import CorrelationReport, Options, Results
from bon.benchmarks.base import Adapter, Form
from bon.choosing import rules
from bon.choosing.opinion import KIND_OF, Candidates, item_opinion
from bon.choosing.ranking import Ranking
from bon.choosing.ranking import rank as ranked
from bon.choosing.rules import Rule
from bon.core.errors import BonError
from bon.core.records import Candidate, Judgement
from bon.experiment.cards import Loaded, load_policy, load_rewarder
from bon.experiment.config import RewarderCard
from bon.policies.ask import read, text_key
from bon.rewarders import registry
from bon.rewarders.base import Rewarder, Verdict
from bon.rewarders.registry import card_of, rewarder_class
from bon.running.direct import Asked, Direct, Picture

if TYPE_CHECKING:
    import pandas as pd

ValueT = TypeVar("ValueT")
PartT = TypeVar("PartT")
ParamsT = ParamSpec("ParamsT")
PolicyRef = str | Path | Mapping[str, Any]
"""A policy's card: its name, its path, or a mapping with the same keys."""
RewarderRef = str | Path | Mapping[str, Any] | type[Rewarder]
"""A rewarder's card in the same ways, or a Rewarder class of one's own."""


_OPTIONS = f"settings: {', '.join(Options.model_fields)}"


__all__ = [
    "Adapter",
    "BestAnswer",
    "BonError",
    "Form",
    "Ranking",
    "Rewarder",
    "Rule",
    "Run",
    "Verdict",
    "abest_of_n",
    "arank",
    "ascore",
    "best_of_n",
    "close",
    "correlate",
    "demo",
    "load",
    "rank",
    "register",
    "run",
    "score",
]

# ------------------------------------------------------------------ runs


@dataclass(frozen=True)
class Run:
    """A run directory, read when asked."""

    directory: Path

    @property
    def report(self) -> Path:
        """The HTML report."""
        return self.directory / "report.html"

    @cached_property
    def results(self) -> Results:
        """Everything that analysis found (docs/results.md)."""
        from bon.running.reporting import read_results

        return read_results(self.directory)

    @cached_property
    def tables(self) -> Tables:
        """The tables that analysis reads, as pandas frames (docs/python.md has their columns)."""
        from bon.running.frames import run_tables
        from bon.running.reporting import open_run
        from bon.running.store import Store

        with Store(self.directory, readonly=True) as store:
            return run_tables(open_run(store), store)

    def analyse(self, **changes: Any) -> Results:
        """The results under other settings of `analysis:`; nothing is sampled, judged or written.

        `changes` are fields of `bon.analysis.results.Options`, such as n, axis, rules, ties,
        unparsed, draws, level and seed.
        """
        from bon.analysis.run import analyse
        from bon.running.reporting import open_run
        from bon.running.setup import options
        from bon.running.store import Store

        with Store(self.directory, readonly=True) as store:
            asked = options(open_run(store))
        try:
            wanted = Options.model_validate({**asked.model_dump(), **changes})
        except ValidationError as error:
            wrong = error.errors()[0]
            where = ".".join(map(str, wrong["loc"]))
            raise BonError(f"analyse: {where}: {wrong['msg'].lower()}", _OPTIONS) from None
        return analyse(self.tables, wanted)

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
    from bon.running.setup import prepare, read_experiment

    if isinstance(experiment, Mapping):
        setup = prepare(apply_overrides(dict(experiment), settings or []), Path.cwd())
    else:
        setup = read_experiment(Path(experiment), settings)
    runner.run(setup, Path(out), quiet=quiet)
    return Run(Path(out))


def demo(out: str | Path, *, settings: list[str] | None = None, quiet: bool = False) -> Run:
    """Run the embedded miniature."""
    from bon.running import runner
    from bon.running.demo import demo_setup

    runner.run(demo_setup(Path(out), settings or []), Path(out), quiet=quiet)
    return Run(Path(out))


def load(directory: str | Path) -> Run:
    """A run that exists already."""
    return Run(Path(directory))


def correlate(
    table: "str | Path | pd.DataFrame | Mapping[str, Sequence[Any]]",
) -> CorrelationReport:
    """What published numbers alone can say: a CSV file, a DataFrame, or columns by name.

    One row per rewarder (and policy): its benchmark scores and its Best-of-N accuracy.
    """
    import pandas as pd

    from bon.analysis.published import correlate_table

    return correlate_table(pd.DataFrame(table) if isinstance(table, Mapping) else table)


def register(part: PartT, name: str = "") -> PartT:
    """Add a Rewarder class, a Rule or a benchmark's Adapter; also as a decorator.

    A rewarder is then a card's `python: NAME`, a benchmark an experiment's `benchmark: NAME`.
    A class is called after itself and a rule after its `name` unless `name` says otherwise.
    Packages add theirs by entry points: `bon.rewarders`, `bon.benchmarks`, `bon.engines` and
    `bon.rules` (docs/python.md).
    """
    if inspect.isclass(part) and issubclass(part, Rewarder):
        registry.ADDED.add(name or part.__name__, part)
    elif isinstance(part, rules.Rule):
        rules.register(part)
    elif isinstance(part, Adapter):
        if not name:
            raise BonError("a benchmark needs a name", 'bon.register(adapter, name="mine")')
        benchmarks.ADDED.add(name, part)
    else:
        raise BonError(
            f"{part!r} is neither a Rewarder class nor a Rule nor an Adapter", "see docs/python.md"
        )
    return part


# ------------------------------------------------------------------ one question


def _synchronous(
    call: Callable[ParamsT, Coroutine[Any, Any, ValueT]],
) -> Callable[ParamsT, ValueT]:
    """The same function without `await`, also for a notebook, whose own loop is running."""

    @wraps(call)
    def waited(*args: ParamsT.args, **named: ParamsT.kwargs) -> ValueT:
        return _direct().start(call(*args, **named)).result()

    waited.__name__ = waited.__qualname__ = call.__name__.removeprefix("a")
    return waited


@dataclass(frozen=True)
class BestAnswer:
    """Best-of-N on one question: what was sampled, and what was chosen of it.

    text: the answer chosen. letter: the option that it names; None without options, or if none
    could be read. candidates: all that were sampled, in the order of `ranking`'s places.
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
    """One number per answer, asked as a run asks: all votes, both orders.

    The mean score of a critic or a reward head, the share of comparisons won under a judge;
    None where no reply could be read. `images` are paths, bytes or PIL images. With `options`
    the rewarder is shown the question as in a multiple-choice run.
    """
    found = await arank(
        card,
        question,
        answers,
        images=images,
        options=options,
        allow_remote_code=allow_remote_code,
    )
    return list(found.scores)


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
    """The order of answers under a selection rule (`bon list rules`), best first.

    `rule` defaults to the first for the rewarder's kind. `scale` is the unit of its scores in a
    weighted vote, as a run's results.json has it.
    """
    rewarder = _rewarder(card)
    asked = Asked.of(question, options, images)
    letters = [read(text, options, "strict")[0] if options else None for text in answers]
    return (await _rank(rewarder, asked, answers, letters, rule, scale, allow_remote_code))[0]


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
    sampled = load_policy(_ref(policy), Path.cwd(), seed)
    judge = _rewarder(rewarder)
    _rule(judge, rule, scale)  # refused before anything is sampled
    asked = Asked.of(question, options, images)
    drawn = await _wait(
        _direct().sample(sampled, asked, n or sampled.card.n, remote_code=allow_remote_code)
    )
    letters = [row.answer if options else None for row in drawn]
    texts = [row.text for row in drawn]
    found, rows = await _rank(judge, asked, texts, letters, rule, scale, allow_remote_code)
    best = found.best
    return BestAnswer(texts[best], letters[best], tuple(drawn), found, tuple(rows))


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
    """Await work that belongs on the loop of the models."""
    import asyncio

    return await asyncio.wrap_future(_direct().start(work))


async def _rank(
    rewarder: Loaded[RewarderCard],
    asked: Asked,
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
                rewarder, asked.item(answers), chosen.designs[0], remote_code=remote_code
            )
        )
    about = Candidates.of(asked.record.key, [text_key(text) for text in answers], letters)
    kind = KIND_OF[rewarder_class(rewarder.card).arity]
    found = ranked(chosen, item_opinion(kind, rows, about, scale))
    if found is None:
        raise BonError(
            f"{rewarder.card.name}: not all judgements that {chosen.name} needs came back",
            f"the last error: {next((r.error for r in reversed(rows) if r.error), 'none')}",
        )
    return found, rows


def _rule(rewarder: Loaded[RewarderCard], name: str | None, scale: float | None) -> rules.Rule:
    arity = rewarder_class(rewarder.card).arity
    usable = {r.name: r for r in rules.rules_for(KIND_OF[arity])}
    if name is not None and name not in usable:
        raise BonError(
            f"{rewarder.card.name} cannot be used under the rule {name!r}",
            f"rules: {', '.join(usable)}",
        )
    chosen = usable[name] if name else next(iter(usable.values()))
    if chosen.scaled and scale is None and KIND_OF[arity] == "scores":
        raise BonError(
            f"{chosen.name} weighs scores in a unit that one question cannot tell",
            f"give scale=, as a run's results.json has it for {rewarder.card.name}",
        )
    return chosen


def _rewarder(card: RewarderRef) -> Loaded[RewarderCard]:
    ref = card_of(card) if inspect.isclass(card) else _ref(card)
    loaded = load_rewarder(ref, Path.cwd())
    if loaded.card.kind == "ensemble":
        raise BonError(f"{loaded.card.name} is an ensemble", "ask its members, or make a run")
    return loaded


def _ref(card: PolicyRef) -> str | dict[str, Any]:
    return dict(card) if isinstance(card, Mapping) else str(card)
