"""The operator's money: which cards it is spent on, and how much of it."""

import pytest
import yaml

from bon.service.settings import Allow, Limits
from bon.storage.store import Store
from tests.service.conftest import experiment
from tests.service.server import idle
from tests.service.test_online import online_settings
from tests.storage.test_store import CANDIDATE, JUDGEMENT

CARD = {
    "name": "paid", "model": "m", "engine": "openai", "prompt": "bare", "n": 2,
    "engine_args": {"base_url": "http://paid.example/v1"},
    "cost": {"input_per_million": 2.5, "output_per_million": 10.0},
}  # fmt: skip


@pytest.fixture
def shop(settings):
    """A server with a paid card of the operator's, and two that spend."""
    limits = Limits(dollars_per_owner=3, dollars=5, requests_per_minute=0)
    with idle(settings.model_copy(update={"limits": limits})) as client:
        (settings.files / "paid.yaml").write_text(yaml.safe_dump(CARD))
        yield _shop(client)


def _shop(client):
    service = client.app.state.service
    tokens = {name: service.tokens.add(name, "submit") for name in ("ann", "bob")}

    def submit(owner="ann", cap=None, card="paid.yaml", **changes):
        cluster = {} if cap is None else {"cluster": {"spending_cap": cap}}
        return client.post(
            "/v1/validations",
            json=experiment(policies=[card], **cluster, **changes),
            headers={"authorization": f"Bearer {tokens[owner]}"},
        )

    submit.client, submit.service, submit.tokens = client, service, tokens
    return submit


def spend(shop, key, dollars, state="done"):
    """What the runner leaves behind."""
    with Store(shop.service.settings.runs / key) as store:
        store.add_candidates([CANDIDATE._replace(cost=dollars / 2)])
        store.add_judgements([JUDGEMENT._replace(cost=dollars / 2)])
    with shop.service.jobs.write() as db:
        db.execute("UPDATE validations SET state = ? WHERE id = ?", (state, key))


def test_what_costs_money_says_how_much_it_may(shop):
    answer = shop()
    assert answer.status_code == 422
    assert "spending_cap" in answer.json()["error"]["fix"]
    assert "$3.00" in answer.json()["error"]["fix"]
    assert shop(cap=4).status_code == 422
    assert shop(cap=3).status_code == 201
    free = experiment()
    headers = {"authorization": f"Bearer {shop.tokens['ann']}"}
    assert shop.client.post("/v1/validations", json=free, headers=headers).status_code == 201


def test_what_is_set_aside_and_what_was_spent_by_policies_count(shop):
    first = shop(cap=2).json()["id"]
    assert shop(cap=1.5).status_code == 422  # 1 is left while the first may still spend 2
    spend(shop, first, 0.5)
    second = shop(cap=2.5)
    assert second.status_code == 201
    spend(shop, second.json()["id"], 2.5)
    assert shop(cap=0.01).status_code == 422
    assert shop("bob", cap=2.5).status_code == 422  # 2 of the 5 are left to all
    assert shop("bob", cap=2).status_code == 201


def test_deleting_and_resuming_give_no_money_back(shop):
    key = shop(cap=3).json()["id"]
    headers = {"authorization": f"Bearer {shop.tokens['ann']}"}
    spend(shop, key, 2.75, "cancelled")
    resumed = shop.client.post(f"/v1/validations/{key}/resume", headers=headers)
    assert resumed.status_code == 202, resumed.text  # under the cap that it had
    spend(shop, key, 2.75, "cancelled")
    assert shop.client.delete(f"/v1/validations/{key}", headers=headers).status_code == 204
    assert shop(cap=0.5).status_code == 422
    assert shop(cap=0.25).status_code == 201


def test_a_paid_card_that_comes_with_bon_is_the_operator_s_to_open(shop):
    closed = shop(cap=1, card="gpt-4o")
    assert closed.status_code == 422
    assert "allow.api_cards" in closed.json()["error"]["fix"]
    settings = shop.service.settings
    shop.service.settings = settings.model_copy(update={"allow": Allow(api_cards=("gpt-4o",))})
    assert shop(cap=1, card="gpt-4o").status_code == 201
    assert shop(cap=1, card="gpt-4o-mini").status_code == 422


@pytest.mark.parametrize(
    "own",
    [
        {"model": "the-dearest"},
        {"revision": "x"},
        {"cost": "free"},
        {"cost": {"input_per_million": 0, "output_per_million": 0}},
        {"engine_args": {"base_url": "http://elsewhere.example/v1"}},
        {"engine_args": {"price": {"input_per_million": 0, "output_per_million": 0}}},
        {"engine_args": {"api_key_env": "OTHER_KEY"}},
    ],
    ids=str,
)
def test_what_a_paid_card_costs_is_not_the_submitter_s_word(shop, own):
    allow = Allow(api_cards=("gpt-4o",), base_urls=("http://paid.example/v1",))
    shop.service.settings = shop.service.settings.model_copy(update={"allow": allow})
    for card in ("gpt-4o", "paid.yaml"):
        answer = shop(cap=1, card={"card": card, **own})
        assert answer.status_code == 422, answer.text


def test_rewards_of_a_panel_cost_what_its_members_cost(settings):
    paid = {key: value for key, value in CARD.items() if key not in ("n", "prompt")}
    paid["kind"] = "scalar"
    members = [{**paid, "name": name} for name in ("one", "two")]
    panel = {"name": "both", "kind": "ensemble", "members": ["one", "two"]}
    changes = {"rewarders": [*members, panel], "scales": {"one": 1, "two": 1}}
    served = online_settings(settings, **changes)
    served = served.model_copy(update={"limits": Limits(dollars_per_owner=0)})
    samples = [{"prompt": "Why?", "response": text} for text in ("a", "b")]
    with idle(served) as client:
        answer = client.post("/get_reward?rewarder=both", json={"samples": samples})
        assert answer.status_code == 402, answer.text
