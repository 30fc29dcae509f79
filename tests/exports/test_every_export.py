"""Every registered export writes a run's rows: a new one needs here where they stand."""

import pyarrow.parquet as pq
import pytest

from bon.exports import EXPORTS, export_run
from bon.storage.store import Store

ROWS = {  # a file of each: judgements, or pairs of a right and a wrong answer
    "parquet": "judgements.parquet",
    "pool": "data/policy.parquet",
    "trl": "train.parquet",
    "latex": "leaderboard.tex",
    "markdown": "leaderboard.md",
}


@pytest.mark.parametrize("form", EXPORTS)
def test_every_export_writes_the_rows_of_a_run(run, tmp_path, form):
    paths = export_run(run, tmp_path / "out", form)
    assert all(path.is_relative_to(tmp_path / "out") and path.exists() for path in paths)
    file = tmp_path / "out" / ROWS[form]
    if file.suffix == ".parquet":
        found = pq.read_table(file).num_rows
    else:
        found = len(file.read_text().splitlines())
    with Store(run, readonly=True) as store:
        judgements = store.count("judgements")
    assert found == judgements if "judgements" in ROWS[form] else found > 2
