"""What a run holds of other settings changes no number: it reads as a run that never had them."""

from pathlib import Path

import pandas as pd
import pytest

from bon.running.reporting import open_run
from bon.storage.store import Store
from bon.work.run_tables import run_tables


def judgements(directory: Path) -> pd.DataFrame:
    """What analysis reads of the judgements, but the clock."""
    with Store(directory, readonly=True) as store:
        found = run_tables(open_run(store), store).judgements
    return found.drop(columns="seconds").reset_index(drop=True)


@pytest.mark.parametrize("design", ["all_pairs", "knockout"])
@pytest.mark.parametrize(
    ("before", "after"),
    [({"orders": "both"}, {"orders": "random"}), ({"votes": 3}, {"votes": 1})],
    ids=["orders", "votes"],
)
def test_less_is_replayed_as_a_fresh_run_has_it(make_experiment, go, design, before, after):
    experiment = make_experiment(judging={"design": design, "skip": "nothing"})
    judge, temperature = experiment["rewarders"][0], {"sampling": {"temperature": 1.0}}

    def with_judge(settings):
        return {**experiment, "rewarders": [{**judge, **temperature, **settings}]}

    more = judgements(go(with_judge(before)))
    again = judgements(go(with_judge(after)))
    fresh = judgements(go(with_judge(after), out="fresh"))
    assert len(again) < len(more)
    back = judgements(go(with_judge(before)))
    for found, wanted in ((again, fresh), (back, more)):
        # A tournament may hold further pairs, which only the path of the other settings met.
        common = found if design == "all_pairs" else wanted.merge(found)
        pd.testing.assert_frame_equal(common, wanted)
