"""A run whose cards have changed since: reading shows what was asked, going on asks again."""

import yaml

from bon.planning.plan import make_plan
from bon.running.reporting import open_run
from bon.running.start import start
from bon.storage.store import Store
from bon.work.completeness import completeness
from bon.work.run_tables import run_tables, warnings
from bon.work.setup import prepare
from bon.work.stored_models import changed_models, print_changed


def test_a_card_that_changed_is_read_as_it_was_asked_and_run_as_it_is(
    make_experiment, go, tmp_path, capsys
):
    experiment = make_experiment(questions=4, pairs=3)
    for room, at in (("policies", 0), ("rewarders", 0)):
        card = experiment[room][at]
        (tmp_path / f"{card['name']}.yaml").write_text(yaml.safe_dump(card))
        experiment[room][at] = f"{card['name']}.yaml"
    out = go(experiment)

    def read():
        with Store(out, readonly=True) as store:
            setup = open_run(store)
            said = [line for line in warnings(setup, store) if "today" in line]
            tables = run_tables(setup, store)
            rows = [
                getattr(tables, name).to_dict("records") for name in ("candidates", "judgements")
            ]
            return (str(rows), completeness(setup, store)), said

    before, said = read()
    assert not said
    calls = make_plan(prepare(experiment, tmp_path), out).as_dict()["totals"]["calls"]
    assert calls == 0
    for name, change in (
        ("policy", {"sampling": {"temperature": 0.5}}),
        ("judge", {"prompt": {"text": "{{ prompt }} {{ first }} {{ second }}"}}),
    ):
        file = tmp_path / f"{name}.yaml"
        file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), **change}))
    after, said = read()
    assert after == before
    assert [line.split()[5] for line in said] == ["policy", "judge"]

    setup = prepare(experiment, tmp_path)
    assert make_plan(setup, out).policies[0].to_do == 4 * 4
    with Store(out) as store:
        assert changed_models(open_run(store), store) == ["policy", "judge"]
        held = store.count("judgements", "rewarder = 'judge'")
        assert held > 0
        print_changed(setup, store, quiet=False)
        assert capsys.readouterr().err == (
            "policy: its card or code changed: 16 candidates are made again\n"
            f"judge: its card or code changed: {held} judgements are made again\n"
        )
        start(setup, store, quiet=True)  # from here on the cards of today are the run's
        assert changed_models(open_run(store), store) == []
        assert [one.spec for one in open_run(store).models] == [
            one.own_spec for one in setup.models
        ]
