"""One folder with everything of a run that may be published.

Texts and images of questions are included where their licence permits it (bon.exports.licences),
and with them the report, which shows them. Texts of preference pairs are never included.
"""

import shutil
from pathlib import Path

from bon.exports.contents import Contents
from bon.exports.dataset_folder import write_hub_folder
from bon.exports.licences import licence_of_dataset

_README = Path(__file__).with_name("release.md")
_REPORT = "- `report.html`: the report, with figures and the questions\n"
_NO_REPORT = (
    "- no report: it shows texts of {name}, which its licence ({licence}) does not permit\n"
)


def write_release(contents: Contents, out: Path) -> list[Path]:
    """Write the folder and return its files."""
    run = contents.directory
    paths = write_hub_folder(contents, out / "dataset")
    files = ["results.json", "experiment.yaml"]
    questions = contents.setup.experiment.questions
    licence = licence_of_dataset(questions)
    report = _NO_REPORT.format(name=questions.benchmark, licence=licence.name)
    if licence.shareable:
        report = _REPORT
        files.append("report.html")
        if (run / "report_files").is_dir():
            shutil.copytree(run / "report_files", out / "report_files", dirs_exist_ok=True)
    paths += [Path(shutil.copyfile(run / name, out / name)) for name in files]
    page = out / "README.md"
    page.write_text(
        _README.read_text("utf-8").format(
            name=contents.results.run.name,
            description=contents.setup.experiment.description or "A run of bon.",
            report=report,
            version=contents.results.run.bon_version,
        ),
        encoding="utf-8",
    )
    return [*paths, page]
