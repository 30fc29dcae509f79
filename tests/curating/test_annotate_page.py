"""The labelling page: what is asked, sent and kept, and by whom."""

import json
import re

import pytest
import yaml

from bon.core.errors import BonError
from bon.curating.labelling.annotations import current, history
from bon.service.pages.annotate import RESERVED, tag_letters
from bon.service.settings import Settings, read_settings
from tests.curating.labelled_items import make_bench
from tests.service.server import idle

HTML = {"accept": "text/html"}


@pytest.fixture
def bench(tmp_path):
    return make_bench(tmp_path / "data" / "benchmarks" / "shapes", pairs=5)


def idle_of(tmp_path, **changes):
    own = {"auth": False, **changes}
    limits = {"requests_per_minute": 0}
    return idle(Settings(data=tmp_path / "data", miniature=False, limits=limits, **own))


@pytest.fixture
def client(tmp_path, bench):
    with idle_of(tmp_path) as found:
        yield found


def following(client, name="ann"):
    answer = client.post("/annotate/shapes/next", json={"annotator": name})
    assert answer.status_code == 200, answer.text
    return answer.json()


def say(client, item, choice, name="ann", event=None, **more):
    body = {"annotator": name, "item": item, "choice": choice, "event": event or f"{item}-{choice}"}
    return client.post("/annotate/shapes/answers", json={**body, **more})


def test_an_answer_is_on_disk_as_it_was_meant(client, bench):
    item = {one.key: one for one in bench.items}
    state = following(client)
    asked = state["item"]
    assert state["done"] == 0
    assert state["left"] == 5
    assert state["last"] is None
    meant = item[asked["key"]]
    right = asked["responses"].index(meant.responses[meant.better])
    said = say(client, asked["key"], str(right + 1), seconds=4.5)
    assert said.json() == {
        "last": asked["key"], "done": 1, "left": 4, "pace": 4.5
    }  # fmt: skip
    more = {"tags": ["counting"], "rationale": " one square only ", "seconds": 4.5}
    say(client, asked["key"], str(right + 1), event="another-one", **more)
    (row,) = current(bench.annotations_path)
    assert (row.item, row.annotator, row.choice) == (meant.key, "ann", str(meant.better))
    assert (row.tags, row.rationale, row.seconds) == (("counting",), "one square only", 4.5)
    assert [meant.responses[place] for place in row.shown] == asked["responses"]


def test_what_is_sent_again_is_kept_once(client, bench):
    key = following(client)["item"]["key"]
    for _ in range(3):
        assert say(client, key, "tie").status_code == 200
    say(client, following(client)["item"]["key"], "cannot")
    say(client, key, "tie")  # out of an old tab
    assert [row.choice for row in history(bench.annotations_path)] == ["tie", "cannot"]
    assert following(client)["done"] == 2


def test_undo_brings_the_item_back_at_once(client, bench):
    first = following(client)["item"]["key"]
    say(client, first, "1")
    second = following(client)
    assert second["last"] == first
    say(client, first, "withdrawn")
    again = following(client)
    assert again["item"]["key"] == first
    assert again["done"] == 0
    assert again["last"] is None
    assert current(bench.annotations_path) == []
    assert len(history(bench.annotations_path)) == 2


def test_nothing_tells_models_gold_or_strategy(client, bench):
    seen = client.get("/annotate/shapes", headers=HTML).text
    while (state := following(client))["item"] is not None:
        seen += json.dumps(state) + say(client, state["item"]["key"], "1").text
    for secret in ("policy-one", "policy-two", "popular-wrong", "probability", "correct"):
        assert secret not in seen, secret
    assert state["done"] == 5


def test_the_page_loads_its_own_files_and_has_no_inline_script(client):
    answer = client.get("/annotate/shapes", headers=HTML)
    assert "unsafe" not in answer.headers["content-security-policy"]
    sources = re.findall(r'(?:src|href)="([^"]+)"', answer.text)
    assert all(source.startswith(("/", "#")) for source in sources), sources
    assert not re.search(r"<script(?! src=)|\son\w+=|\sstyle=", answer.text)
    for source in sources:
        if source.startswith("/static/"):
            assert client.get(source).status_code == 200


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"item": "nothing"}, 422),
        ({"choice": "4"}, 422),
        ({"choice": "5"}, 422),
        ({"choice": "left"}, 422),
        ({"tags": ["nonsense"]}, 422),
        ({"seconds": -1}, 422),
        ({"rationale": "x" * 5000}, 422),
        ({"annotator": " "}, 422),
        ({"event": "short"}, 422),
        ({"gold": 1}, 422),
    ],
)
def test_what_cannot_be_is_refused_and_not_kept(client, bench, changes, status):
    pair = next(one for one in bench.items if len(one.responses) == 2)
    body = {"annotator": "ann", "item": pair.key, "choice": "1", "event": "event-one", **changes}
    answer = client.post("/annotate/shapes/answers", json=body)
    assert answer.status_code == status, answer.text
    assert history(bench.annotations_path) == []


def test_only_images_of_items_are_served(client, bench):
    (bench.directory / "images" / "other.png").write_bytes(b"secret")
    (name,) = {one.images[0].rpartition("/")[2] for one in bench.items[:1]}
    answer = client.get(f"/annotate/shapes/images/{name}")
    assert answer.headers["content-type"] == "image/png"
    assert answer.content == (bench.directory / "images" / name).read_bytes()
    for wrong in ("other.png", "..%2Frecipe.yaml", "recipe.yaml", "%2e%2e%2frecipe.yaml"):
        assert client.get(f"/annotate/shapes/images/{wrong}").status_code == 404
    assert client.get("/annotate/..%2Fshapes", headers=HTML).status_code == 404


def test_a_proposal_that_changes_is_seen_without_a_restart(client, bench, tmp_path):
    before = following(client)["item"]["key"]
    make_bench(tmp_path / "new", pairs=2)
    (tmp_path / "new" / "items.parquet").replace(bench.items_path)
    assert following(client)["left"] == 2
    recipe = yaml.safe_load(bench.recipe_path.read_text())
    recipe["annotating"]["annotators_per_item"] = 0
    bench.recipe_path.write_text(yaml.safe_dump(recipe))
    answer = client.post("/annotate/shapes/next", json={"annotator": "ann"})
    assert answer.status_code == 422
    assert "annotators_per_item" in answer.text
    assert str(tmp_path) not in answer.text
    assert before


def test_the_list_shows_what_is_there_and_what_is_wrong_with_it(client, tmp_path):
    (tmp_path / "data" / "benchmarks" / "broken").mkdir()
    (tmp_path / "data" / "benchmarks" / "broken" / "recipe.yaml").write_text("runs: [x]\n")
    text = client.get("/annotate", headers=HTML).text
    assert 'href="/annotate/shapes"' in text
    assert "no proposed items yet" in text
    assert str(tmp_path) not in text
    assert client.get("/annotate/broken", headers=HTML).status_code == 422
    assert client.get("/annotate/nothing", headers=HTML).status_code == 404


def test_folders_elsewhere_are_named_by_annotate(tmp_path):
    one = make_bench(tmp_path / "one" / "colours", pairs=2)
    other = make_bench(tmp_path / "other" / "colours", pairs=2)
    wanted = read_settings(None, annotate=[one.directory])
    assert wanted.annotate == (one.directory,)
    with idle_of(tmp_path, annotate=[one.directory]) as client:
        assert "colours" in client.get("/annotate", headers=HTML).text
    for folders, message in (
        ([one.directory, other.directory], "two folders are called colours"),
        ([tmp_path / "nowhere"], "no recipe.yaml"),
    ):
        with pytest.raises(BonError, match=message):
            idle_of(tmp_path, annotate=folders).__enter__()


def test_every_tag_has_a_key_of_its_own():
    letters = tag_letters(
        ("existence", "exact", "xz", "counting", *(f"tag {n}" for n in range(30)))
    )
    used = [one for one in letters.values() if one]
    assert len(used) == len(set(used)) == 26 - len(RESERVED)
    assert not set(used) & set(RESERVED)
    assert letters["existence"] == "e"
    assert letters["counting"] == "c"


def test_a_token_s_owner_is_the_annotator_and_roles_hold(tmp_path, bench):
    with idle_of(tmp_path, auth=True) as client:
        service = client.app.state.service
        roles = ("annotate", "read", "submit", "admin")
        tokens = {role: service.tokens.add(f"the {role}", role) for role in roles}
        image = bench.items[0].images[0].rpartition("/")[2]
        body = {"item": bench.items[0].key, "choice": "1", "event": "event-one", "annotator": "me"}
        wanted = {
            ("GET", "/annotate"): (None, {"annotate", "submit", "admin"}),
            ("GET", "/annotate/shapes"): (None, {"annotate", "submit", "admin"}),
            ("POST", "/annotate/shapes/next"): ({}, {"annotate", "submit", "admin"}),
            ("POST", "/annotate/shapes/answers"): (body, {"annotate", "submit", "admin"}),
            ("GET", f"/annotate/shapes/images/{image}"): (None, {"annotate", "submit", "admin"}),
            ("GET", "/v1/validations"): (None, {"read", "submit", "admin"}),
            ("GET", "/validations"): (None, {"read", "submit", "admin"}),
            ("POST", "/v1/validations"): ({}, {"submit", "admin"}),
        }
        for (verb, path), (sent, may) in wanted.items():
            for role in ("nobody", *roles):
                bearer = {"authorization": f"Bearer {tokens.get(role, 'bon_none')}"}
                status = client.request(verb, path, json=sent, headers=bearer).status_code
                expected = 401 if role == "nobody" else 403
                assert (status == expected) == (role not in may), (verb, path, role, status)
        names = {row.annotator for row in history(bench.annotations_path)}
        assert names == {"the annotate", "the submit", "the admin"}
        client.post("/login", data={"token": tokens["annotate"]})
        home = client.get("/", headers=HTML)
        assert home.url.path == "/annotate"
        assert "/validations" not in home.text
        assert "/annotate/shapes" in home.text
