"""Values that were accepted and failed later: each kind is one line before anything runs."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from bon.analysis.published_tables import read_csv
from bon.commands.main import app, usage_error
from bon.core.errors import BonError
from bon.core.validation import validate
from bon.engines import read_settings
from bon.experiment.cards import load_policy, load_rewarder
from bon.experiment.config import ClusterConfig, PolicyCard
from bon.service.settings import Limits
from tests.conftest import echo_experiment


def refusal(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, standalone_mode=False)
    assert result.exception is not None
    error = result.exception
    return str(error if isinstance(error, BonError) else usage_error(error))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--rule", "best_scor"), "no rule 'best_scor' -> did you mean 'best_score'?"),
        (("--on-unparsed", "mena"), "on_unparsed: found 'mena', expected one of error, null"),
        (("--url", "http://host:99999"), "'http://host:99999' is not an address"),
    ],
)
def test_a_client_s_settings_are_the_server_s(option: tuple[str, str], message: str) -> None:
    assert message in refusal("client", "trl", "--rewarder", "x", *option)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize(
    "command",
    [
        ("calibrate", "T.csv", "--threshold"),
        ("recommend", "run", "--budget"),
        ("gate", "run", "--min-gain"),
        ("doctor", "--max-cost"),
    ],
)
def test_no_option_takes_what_is_no_finite_number(command: tuple[str, ...], value: str) -> None:
    assert f"Invalid value for '{command[-1]}'" in refusal(*command, value)


@pytest.mark.parametrize(
    ("model", "data"),
    [
        (PolicyCard, {"name": "p", "n": True}),
        (PolicyCard, {"name": "p", "placement": {"gpus": True}}),
        (PolicyCard, {"name": "p", "sampling": {"top_k": True}}),
        (PolicyCard, {"name": "p", "cost": {"input_per_million": True, "output_per_million": 1}}),
        (ClusterConfig, {"spending_cap": True}),
        (Limits, {"dollars": False}),
    ],
)
def test_true_is_no_number(model: Any, data: dict[str, Any]) -> None:
    with pytest.raises(BonError, match=r"found (true|false), expected a"):
        validate(model, data, "card")
    validate(PolicyCard, {"name": "p", "n": 3}, "card")


def test_a_port_that_cannot_exist_is_no_url() -> None:
    for port in ("99999", "0", "x"):
        with pytest.raises(BonError, match="is not a URL"):
            read_settings("openai", {"base_url": f"http://host:{port}/v1", "model": "m"})


@pytest.mark.parametrize("text", ["{{ range(10**9) | list }}", "{{ 1 / 0 }}", "{{ 'a' + 1 }}"])
def test_a_prompt_that_fails_for_every_item_is_refused_with_its_card(text: str) -> None:
    policy = echo_experiment()["policies"][0]
    with pytest.raises(BonError, match=r"cannot be filled in: .* -> correct its template"):
        load_policy(policy | {"prompt": {"text": text + "{{ question }}"}}, Path())
    critic = echo_experiment()["rewarders"][1]
    with pytest.raises(BonError, match="cannot be filled in"):
        load_rewarder(critic | {"prompt": {"text": text + "{{ prompt }}{{ response }}"}}, Path())
    load_policy(policy | {"prompt": {"text": "{{ question }}{{ options[3] }}"}}, Path())


@pytest.mark.parametrize(
    "table", ["a;b\nx;50,5\ny;60,25\n", "a\tb\nx\t50,5\ny\t60,25\n", 'a,b\nx,"50,5"\ny,"60,25"\n']
)
def test_decimal_commas_are_read_in_every_table(tmp_path: Path, table: str) -> None:
    (tmp_path / "t.csv").write_text(table)
    frame = read_csv(tmp_path / "t.csv")
    pd.testing.assert_series_equal(frame["b"], pd.Series([50.5, 60.25], name="b"))
