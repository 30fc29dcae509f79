"""A real browser on a server as it is started for the first time: signing in and out, tabs."""

import json
import os
import re
import time

import pytest
from playwright.sync_api import expect

from bon.analysis.report import write_report
from bon.service.server.access import ROLES, cookie_name
from bon.service.server.state import open_tokens
from bon.service.validations.jobs import Jobs
from tests.analysis.synthetic import analyse, synthetic_tables
from tests.conftest import accessibility_violations
from tests.service.conftest import experiment
from tests.service.server import serving

pytestmark = [pytest.mark.slow, pytest.mark.browser]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("server"), auth=True, miniature=True) as running:
        yield running


@pytest.fixture(scope="module")
def address(server):
    """Where the terminal says that one signs in; its token is shown this once."""
    text, address = (server.folder / "server.log").read_text(), f"{server.address}/login#"
    assert f"Sign in: {address}{server.printed_token}\n" in text
    assert text.count(server.printed_token) == 1
    return address + server.printed_token


def validation(server, state, **changes):
    """A validation in a state, that no process of the server works on."""
    jobs = Jobs(server.folder / "data" / "service.sqlite")
    body = experiment(**changes)
    with jobs.write() as db:
        key = jobs.add(body.get("name", ""), "admin", body).id
        db.execute(
            "UPDATE validations SET state = ?, started = ? WHERE id = ?", (state, time.time(), key)
        )
    jobs.close()
    return key


def test_the_address_of_the_terminal_signs_in_and_out(server, address, tab):
    tab.goto(address)
    expect(tab.locator("h1")).to_have_text("Validations")
    assert "bon_" not in tab.url
    (cookie,) = tab.context.cookies()
    tab.get_by_role("button", name="Sign out").click()
    expect(tab.locator("h1")).to_have_text("Sign in")
    assert tab.context.cookies() == []
    tab.context.add_cookies([cookie])  # a copy of it
    tab.goto(f"{server.address}/validations")
    expect(tab.locator("h1")).to_have_text("Sign in")


def test_where_one_wanted_to_go_is_where_one_comes_with_all_it_said(server, address, tab):
    token = address.partition("#")[2]
    data = {"benchmark": "mmmu_pro", "path": "miniature/questions.parquet", "limit": 2}
    key = validation(server, "cancelled", name="start of another", questions=data, pairs=[])
    tab.goto(f"{server.address}/new?from={key}")
    tab.get_by_label("Token").fill("bon_wrong")
    with_complaint = len(tab.complaints)
    tab.get_by_role("button", name="Sign in").click()
    expect(tab.get_by_role("alert")).to_contain_text("does not know that token")
    del tab.complaints[with_complaint:]  # the console tells the 401
    tab.get_by_label("Token").fill(token)
    tab.get_by_role("button", name="Sign in").click()
    tab.wait_for_url(f"**/new?from={key}")
    expect(tab.locator("#experiment")).to_have_value(re.compile("start of another"))

    # A link from elsewhere, as in a chat or a wiki, finds one signed in.
    link = f"{server.address}/validations/{key}"
    tab.goto(f"data:text/html,<a href='{link}'>look</a>")
    tab.get_by_role("link", name="look").click()
    expect(tab.locator("h1")).to_have_text("start of another")


def test_a_form_of_another_site_changes_nothing(server, address, tab):
    tab.goto(address)
    expect(tab.locator("h1")).to_have_text("Validations")
    form = f"<form method=post action='{server.address}/logout'><button>go</button></form>"
    before = len(tab.complaints)
    tab.goto(f"data:text/html,{form}")
    tab.get_by_role("button", name="go").click()
    tab.wait_for_url(f"{server.address}/logout")
    assert "a token is needed" in tab.content() or "other sites" in tab.content()
    del tab.complaints[before:]
    tab.goto(f"{server.address}/validations")
    expect(tab.locator("h1")).to_have_text("Validations")


def test_ten_open_tabs_leave_room_for_another(server, address, tab):
    key = validation(server, "running", name="watched")
    tab.goto(address)
    expect(tab.locator("h1")).to_have_text("Validations")
    window = tab.context.browser.new_context()
    window.add_cookies(tab.context.cookies())
    tabs = [window.new_page() for _ in range(10)]
    for page in tabs:
        page.goto(f"{server.address}/validations/{key}", timeout=10_000)
        expect(page.locator("#progress-note")).to_contain_text("models are starting")
    last = window.new_page()
    last.goto(f"{server.address}/catalogue", timeout=10_000)
    expect(last.locator("h1")).to_have_text("Catalogue")
    directory = server.folder / "data" / "runs" / key
    directory.mkdir()
    stage = {"stage": "judge", "label": "judging candidates", "done": 3, "total": 9, "rate": 1.5}
    progress = {"phase": "computing", "stages": [{**stage, "known": 0}], "seconds_left": 4}
    progress["left_is"] = "at most"
    progress["curve"] = [{"seconds": 2 * n, "judging candidates": n} for n in range(4)]
    (directory / "progress.json").write_text(json.dumps({**progress, "at": time.time()}))
    for page in (tabs[0], tabs[-1]):
        expect(page.locator("#stages")).to_contain_text("3 of 9", timeout=30_000)
        expect(page.locator("#progress-note")).to_be_hidden()
        expect(page.locator("#curves svg")).to_have_count(2)
        expect(page.locator("#curves")).to_contain_text("judging candidates 3")
        expect(page.locator("#curves")).not_to_contain_text("−")  # an axis begins at 0
        expect(page.locator("#curves")).to_contain_text("6 s")
        expect(page.locator("#phase")).to_have_text("judging candidates")
        expect(page.locator("#left")).to_have_text("at most 4 s left")
    (directory / "report.html").write_text("of a run before")
    jobs = Jobs(server.folder / "data" / "service.sqlite")
    jobs.finish(key, "cancelled")
    jobs.close()
    expect(tabs[0].locator("#state")).to_have_text("cancelled", timeout=30_000)
    expect(tabs[0].locator("main")).to_contain_text("The report and the results date from before")


def test_controls_wait_for_their_script(server, address, tab):
    """A click that nobody hears would leave a validation running that somebody has cancelled."""
    key = validation(server, "running", name="to be cancelled")
    tab.goto(address)
    expect(tab.locator("h1")).to_have_text("Validations")

    def early(path):
        """The page as it is before its script; returns what lets the script come."""
        pending = []
        tab.route("**/service.js", lambda route: pending.append(route))
        tab.goto(f"{server.address}/{path}", wait_until="commit")
        expect(tab.locator("footer")).to_be_attached()

        def come():
            for route in pending:
                route.continue_()
            tab.unroute("**/service.js")

        return come

    come = early(f"validations/{key}")
    expect(tab.get_by_role("button", name="Cancel")).to_be_disabled()
    come()
    tab.get_by_role("button", name="Cancel").click()
    expect(tab.locator("#state")).to_have_text("cancelled")
    come = early(f"validations/{key}")
    for name in ("Resume", "Delete"):
        expect(tab.get_by_role("button", name=name)).to_be_disabled()
    come()
    expect(tab.get_by_role("button", name="Delete")).to_be_enabled()
    tab.get_by_role("button", name="Resume").click()
    expect(tab.locator("#state")).not_to_have_text("cancelled")
    come = early("new")
    for name in ("Add a policy", "Add a rewarder", "Add a reward benchmark"):
        expect(tab.get_by_label(name)).to_be_disabled()
    come()
    tab.get_by_label("Add a policy").select_option("mini-policy-a")
    expect(tab.locator("#experiment")).to_have_value(re.compile("- mini-policy-a\n"))


def test_a_long_name_leaves_the_other_columns_in_sight(server, address, tab):
    validation(server, "done", name="a-very-long-name-without-a-blank-" * 6)
    tab.set_viewport_size({"width": 1280, "height": 800})
    tab.goto(address)
    state = tab.get_by_role("row", name=re.compile("a-very-long-name")).locator(".state")
    box = state.bounding_box()
    assert box["x"] + box["width"] < 1280


# ------------------------------------------------------------------ every page, as everybody

ESTIMATE = {"value": 0.5, "low": 0.4, "high": 0.6, "n": 50}


def finding(rewarders):
    """The results of a run with so many rewarders, as far as the pages read them."""
    names = [f"qwen2.5-vl-72b-instruct-pairwise-{n:02}" for n in range(rewarders)]
    row = {"policy": "p", "rule": "best_score", "n": 8, "headline": True}
    return {
        "finding": {"sentence": "It may.", "verdict": "yes"},
        "counts": {"questions": 50},
        "best_of_n": [
            {**row, "rewarder": name, "accuracy": ESTIMATE, "gain": ESTIMATE} for name in names
        ],
        "benchmarks": [{"rewarder": name, "macro": ESTIMATE} for name in names],
    }


@pytest.fixture(scope="module")
def walked(server):
    """Pages with something on them, and a session of each role."""
    keys = {
        state: validation(server, state, name=f"{state} " + "a-long-name-" * 12)
        for state in ("done", "failed", "cancelled", "running", "cancelling")
    }
    directory = server.folder / "data" / "runs" / keys["done"]
    directory.mkdir()
    (directory / "results.json").write_text(json.dumps(finding(60)))
    paths = ["/validations", "/validations?state=failed&text=x", "/catalogue", "/new"]
    paths += [f"/validations/{key}" for key in keys.values()]
    paths += [f"/new?from={keys['done']}"]
    tokens = open_tokens(server.folder / "data")
    sessions = {"nobody": None}
    for role in ROLES:
        token = tokens.add(f"walking {role}", role)
        # Bound to the user of the browser, which is this test's.
        sessions[role] = tokens.session(tokens.check(token), str(os.getuid()))
    tokens.jobs.close()
    return paths, sessions


def cookie_of(server, session):
    name = cookie_name({"server": ("127.0.0.1", server.port)})
    return {"name": name, "value": session, "url": server.address}


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_every_page_as_everybody(server, walked, tab, width, scheme):
    """Nothing is missing, nothing complains, nothing is wider than the window or inaccessible."""
    paths, sessions = walked
    tab.set_viewport_size({"width": width, "height": 900})
    tab.emulate_media(color_scheme=scheme)
    refused, violations = [], {}
    tab.on("response", lambda answer: refused.append((answer.status, answer.url)))
    for role, session in sessions.items():
        tab.context.clear_cookies()
        if session is not None:
            tab.context.add_cookies([cookie_of(server, session)])
        own = {"nobody": paths[:1], "annotate": ["/annotate"], "admin": [*paths, "/annotate"]}
        for path in own.get(role, paths):
            # A form asks for its plan after it has loaded; it is left once the answer is there.
            seen = role in ("nobody", "admin")  # others see fewer controls
            answered = "networkidle" if seen or path.startswith("/new") else "load"
            tab.goto(server.address + path, wait_until=answered)
            beyond = tab.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert beyond <= 0, (role, path)
            assert tab.locator("h1").count() == 1, (role, path)
            assert session or tab.locator("h1").inner_text() == "Sign in"
            if seen:
                violations[role, path] = accessibility_violations(tab)
    # A plan of a file that is not there is refused, which the console tells.
    bad = [item for item in refused if item[0] >= 400 and not item[1].endswith("/v1/plan")]
    assert bad == []
    assert not any(violations.values()), violations
    tab.complaints[:] = [item for item in tab.complaints if "/v1/plan" not in item]


def test_the_catalogue_by_kind_and_engine(server, walked, tab):
    _, sessions = walked
    tab.context.add_cookies([cookie_of(server, sessions["read"])])
    tab.goto(f"{server.address}/catalogue")
    tab.get_by_label("kind").select_option("pairwise")
    tab.get_by_label("engine").select_option("openai")
    kinds = tab.locator("article.card:visible").evaluate_all(
        "cards => cards.map((card) => `${card.dataset.kind} ${card.dataset.engine}`)"
    )
    assert set(kinds) == {"pairwise openai"}
    assert tab.locator("h2:visible, h3:visible").all_inner_texts()[0].startswith("Rewarders")
    expect(tab.get_by_role("status")).to_contain_text(f"{len(kinds)} of ")


def test_a_report_leads_back_to_its_validation(server, walked, tab):
    paths, sessions = walked
    tab.context.add_cookies([cookie_of(server, sessions["read"])])
    key = next(path for path in paths if path.startswith("/validations/")).rpartition("/")[2]
    tables = synthetic_tables(num_rewarders=4, num_questions=20, num_candidates=4, num_pairs=20)
    results = analyse(tables, draws=100)
    write_report(results, None, server.folder / "data" / "runs" / key / "report.html")
    tab.goto(f"{server.address}/validations/{key}")
    tab.get_by_role("link", name="Open the report").click()
    expect(tab.locator("#leaderboard")).to_be_visible()
    tab.get_by_role("link", name="Validation").click()
    tab.wait_for_url(f"{server.address}/validations/{key}")
    expect(tab.get_by_role("link", name="Open the report")).to_be_visible()


def test_fifty_validations_are_folded_found_and_shown(server, walked, tab):
    _, sessions = walked
    tab.context.add_cookies([cookie_of(server, sessions["read"])])
    for number in range(60):  # a page has fifty
        validation(server, "done", name=f"pairwise-{number:02}")
    tab.goto(f"{server.address}/validations?state=done")
    rows = tab.locator("tbody tr:visible")
    expect(rows).to_have_count(20)
    tab.get_by_label("Filter the rows").fill("pairwise-5")
    expect(rows).to_have_count(10)
    tab.get_by_label("Filter the rows").fill("")
    tab.get_by_role("button", name="Show all 50 rows").click()
    expect(rows).to_have_count(50)
    tab.get_by_role("button", name="Show the first 20").click()
    expect(rows).to_have_count(20)
