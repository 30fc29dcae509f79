"""From a run directory to its results.json, tables, figures and report. Loads no model."""

from pathlib import Path

from bon.analysis.results import Options, Results
from bon.files import write_atomic
from bon.progress import say
from bon.setup import Setup, prepare
from bon.store import Store
from bon.tables import run_tables


def open_run(store: Store) -> Setup:
    """The experiment that a run directory holds."""
    return prepare(store.meta("experiment"), Path(store.meta("base")), str(store.directory))


def analyse_run(directory: Path) -> Results:
    """Everything that a run's tables say."""
    from bon.analysis.run import analyse  # scipy: not for those who only ask for the status

    with Store(directory, readonly=True) as store:
        setup = open_run(store)
        tables = run_tables(setup, store)
    return analyse(tables, options(setup))


def options(setup: Setup) -> Options:
    """How the experiment asks for its analysis."""
    wanted = setup.experiment.analysis
    return Options(
        rules=wanted.rules,
        draws=wanted.bootstrap,
        seed=setup.experiment.seed,
        level=wanted.confidence,
        unparsed=wanted.unparsed,
        ensembles=tuple(ensemble.card.members for ensemble in setup.ensembles),
    )


def report_run(directory: Path, *, quiet: bool = False) -> Path:
    """Analyse a run and write results.json, tables/, figures/ and report.html into it."""
    from bon.analysis.report import write_report
    from bon.views import question_views

    results = analyse_run(directory)
    write_atomic(directory / "results.json", results.model_dump_json(indent=1))
    with Store(directory, readonly=True) as store:
        views = question_views(open_run(store), store)
        path = write_report(results, views, directory / "report.html", images="folder")
    say(results.finding.sentence, quiet=quiet)
    say(f"report: {path}", quiet=quiet)
    return path
