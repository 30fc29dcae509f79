"""Everything of a run that may be passed on, in one folder: what a reproduction publishes.

Texts and images of questions go out where their licence permits it (bon.exports.licences); the
report holds them too, so it is left out with them. Texts of preference pairs never go out.
"""

import shutil
from pathlib import Path

from bon.exports.contents import Contents
from bon.exports.every_eval_ever import write_every_eval_ever
from bon.exports.hub_folder import write_hub_folder
from bon.exports.licences import licence_of_dataset
from bon.exports.model_page import write_model_page

_README = """# {name}

{description}

- `dataset/`: questions, candidates, judgements, choices and results, ready for the hub
  (`hf upload OWNER/NAME dataset . --repo-type dataset`); its README.md names the licences
- `results.json`: every number, with its interval; `bon gate` and `bon pool` read it
- `experiment.yaml`: the experiment as it was run; what its cards said is in the results
- `every-eval-ever/`: a log per rewarder for the public store
- `model-pages/`: results for the page of each reward model
{report}
Made by bon {version}.
"""
_REPORT = "- `report.html`: the report, with figures and the questions\n"
_NO_REPORT = (
    "- no report: it shows the texts of {name}, whose licence ({licence}) keeps them here\n"
)


def write_release(contents: Contents, out: Path) -> list[Path]:
    """The folder; `dataset/` and the rest of it as their own formats write them."""
    run, results = contents.directory, contents.results
    written = write_hub_folder(contents, out / "dataset")
    written += write_every_eval_ever(contents, out / "every-eval-ever")
    written += write_model_page(contents, out / "model-pages")
    written += [
        Path(shutil.copyfile(run / name, out / name))
        for name in ("results.json", "experiment.yaml")
    ]
    questions = contents.setup.experiment.questions
    licence = licence_of_dataset(questions)
    report = _NO_REPORT.format(name=questions.benchmark, licence=licence.name)
    if licence.share:
        report = _REPORT
        written.append(Path(shutil.copyfile(run / "report.html", out / "report.html")))
        if (run / "report_files").is_dir():
            shutil.copytree(run / "report_files", out / "report_files", dirs_exist_ok=True)
    page = out / "README.md"
    page.write_text(
        _README.format(
            name=results.run.name,
            description=contents.setup.experiment.description or "A run of bon.",
            report=report,
            version=results.run.bon_version,
        ),
        encoding="utf-8",
    )
    return [*written, page]
