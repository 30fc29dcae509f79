"""From a run directory to its results.json, report, tables and figures. Loads no model."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from bon.analysis.results import ModelCost, Results
from bon.core.errors import BonError
from bon.core.files import write_atomic
from bon.core.forked import shared
from bon.core.records import Judgement
from bon.experiment.config import AnalysisConfig
from bon.experiment.overrides import override
from bon.experiment.refusals import validate
from bon.experiment.yamlfile import Document
from bon.running.attacks import OWN_IMAGE, SWAPPED, WORDS
from bon.running.completeness import Completeness, completeness
from bon.running.filed import filed
from bon.running.saying import Reported
from bon.running.setup import Setup, options, prepare
from bon.running.spending import costs
from bon.running.store import Store

if TYPE_CHECKING:
    from bon.analysis.data.arrays import Run
    from bon.analysis.estimators.picks import Picks
    from bon.analysis.report import QuestionView


def read_results(directory: Path) -> Results:
    """The results of a run that was reported on.

    Raises:
        BonError: it has none, or none of this version.
    """
    path = directory / "results.json"
    try:
        return Results.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise BonError(f"{directory} holds no results.json", f"bon report {directory}") from None
    except ValidationError:
        raise BonError(f"{path} is not of this version", f"bon report {directory}") from None


def open_run(store: Store, settings: Sequence[str] = ()) -> Setup:
    """The experiment that a run directory holds, counted as `analysis.KEY=VALUE` settings say."""
    raw, base = store.meta("experiment"), store.meta("base")
    if raw is None or base is None:
        raise BonError(
            f"{store.directory} holds no experiment yet: its start failed or still goes on",
            "run it: bon run FILE --out DIRECTORY",
        )
    return _counting(filed(prepare(raw, Path(base), str(store.directory)), store), settings)


def _counting(setup: Setup, settings: Sequence[str]) -> Setup:
    """The same run, counted as these settings say."""
    for setting in settings:
        if not setting.startswith("analysis."):
            raise BonError(
                f"--set {setting}: a report changes how a run is counted, nothing else",
                "set analysis.KEY=VALUE here, and anything else at `bon run`",
            )
    if not settings:
        return setup
    wanted = override(Document({"analysis": setup.raw.get("analysis") or {}}), list(settings))
    analysis = validate(AnalysisConfig, wanted.data["analysis"], wanted.origin.inside("analysis"))
    experiment = setup.experiment.model_copy(update={"analysis": analysis})
    return replace(setup, experiment=experiment)


def report_run(
    directory: Path,
    *,
    quiet: bool = False,
    figures: bool = False,
    bundle: Path | None = None,
    settings: Sequence[str] = (),
) -> Path:
    """Write the report of a run (`make_report`), say what it found, and return its path."""
    made = make_report(directory, figures=figures, bundle=bundle, settings=settings)
    return made.tell(quiet=quiet)


def make_report(
    directory: Path,
    *,
    figures: bool = False,
    bundle: Path | None = None,
    settings: Sequence[str] = (),
    found: Completeness | None = None,
) -> Reported:
    """Analyse a run and write results.json, report.html and tables/ into it.

    `found` is what was just counted of it, which takes as long as the rest.

    `settings` (`analysis.KEY=VALUE`) count for this report alone: what they say needs no model.

    There is something to say of a complete run only; who asked for another one says what is
    missing. `figures` also writes every figure to figures/ as PNG, SVG and PDF, which takes
    seconds. `bundle` is a folder that also gets the page as index.html, with its images and the
    tables beside it, to be put on any web server.
    """
    from bon.analysis.report import figures_aside  # which loads neither pandas nor matplotlib

    count = partial(_counted, directory, settings, found)
    with (
        figures_aside() as draw,
        shared([count]) as counted,
        Store(directory, readonly=True) as store,
    ):
        from bon.analysis.data.arrays import read  # meanwhile: half a second with pandas
        from bon.analysis.estimators.hacks import hacks
        from bon.analysis.estimators.picks import as_picks, choices
        from bon.analysis.estimators.repeated import repeats
        from bon.analysis.export import write_figures, write_tables
        from bon.analysis.report import write_report
        from bon.analysis.run import analyse
        from bon.running.frames import run_tables
        from bon.running.repeating import repeat_table
        from bon.running.stressed import stress_tables

        setup = open_run(store, settings)
        tables = run_tables(setup, store)
        ((counts, spent),) = counted()
        tables.meta["completeness"] = counts.as_dict()
        arrays = read(tables)
        results = analyse(arrays, options(setup))
        attacked = stress_tables(setup, directory)
        if attacked is not None:
            won = hacks(attacked, WORDS, options(setup), {SWAPPED: OWN_IMAGE})
            results = results.model_copy(update={"hacks": won})
        results = results.model_copy(update={"costs": spent})
        repeated = repeat_table(setup, store)
        if repeated is not None:
            changed = repeats(repeated, options(setup))
            results = results.model_copy(update={"repeats": changed})
        drawn = draw(results)
        write_atomic(directory / "results.json", results.model_dump_json(indent=1))
        made = choices(arrays, results)
        for folder in filter(None, (directory, bundle)):
            write_tables(results, folder / "tables", made)
        views = question_views(setup, store, arrays, as_picks(made))
        page = directory / "report.html"
        path = write_report(results, views, page, images="fit", figures=drawn)
        if bundle is not None:
            again = question_views(setup, store, arrays, as_picks(made))
            page = bundle / "index.html"
            write_report(results, again, page, images="folder", figures=drawn)
            write_atomic(bundle / "results.json", results.model_dump_json(indent=1))
    if figures:
        for folder in filter(None, (directory, bundle)):
            write_figures(results, folder / "figures")
    if results.completeness is None or not results.completeness.complete:
        return Reported(path)
    how_much = (text for part in results.how_much for text in part.sentences)
    repeated_said = (one.sentence for one in results.repeats)
    return Reported(path, (results.finding.sentence, *how_much, *repeated_said, f"report: {path}"))


def _counted(
    directory: Path, settings: Sequence[str], found: Completeness | None
) -> tuple[Completeness, tuple[ModelCost, ...]]:
    """What is there and missing, unless it was just counted, and what it cost.

    It opens the store itself, since a connection to SQLite does not survive a fork.
    """
    with Store(directory, readonly=True) as store:
        setup = open_run(store, settings)
        return found or completeness(setup, store), costs(setup, store)


def question_views(
    setup: Setup, store: Store, arrays: "Run", picks: "Picks"
) -> Iterator["QuestionView"]:
    """What the report's question browser shows."""
    from bon.analysis.report import build_views

    specs = [rewarder.spec for rewarder in setup.rewarders]
    texts = dict(store.query("SELECT text_key, text FROM candidates"))

    def judgements(question: str) -> Iterator[Judgement]:
        for spec in specs:
            yield from store.judgements(spec, question)

    questions = {question.key: question for question in store.questions()}
    return build_views(arrays, questions, texts.__getitem__, judgements, picks)
