"""A panel of rewarders in a run."""

from bon.running.reporting import read_results, report_run


def test_a_panel_in_a_run(make_experiment, go):
    experiment = make_experiment(questions=60, pairs=60, analysis={"bootstrap": 100})
    experiment["rewarders"].append(
        {"name": "both", "kind": "ensemble", "engine": "none",
         "members": ["critic", "head"]}
    )  # fmt: skip
    directory = go(experiment)
    report_run(directory, quiet=True)
    results = read_results(directory)
    accuracy = {b.rewarder: b.accuracy.value for b in results.best_of_n if b.headline}
    units = {b.rewarder: b.unit for b in results.best_of_n if b.headline and b.unit}
    assert {"critic", "head", "judge", "both"} <= set(units)
    assert "both" in accuracy
