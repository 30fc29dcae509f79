import base64
import csv
import hashlib
import html
import json
import re
import zlib
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import expect
from synthetic import analyse, synthetic_tables

from bon.analysis.artifacts import frames, write_tables
from bon.analysis.decision.recommend import over_majority
from bon.analysis.finding.first_page import advise, first_page
from bon.analysis.report import (
    CandidateView,
    ChoiceView,
    QuestionView,
    build_views,
    figures,
    write_report,
)
from bon.analysis.report import page as pages
from bon.analysis.report.glossary import TERMS
from bon.analysis.report.page import _MARGIN
from bon.analysis.results import (
    CandidateFile,
    Counts,
    CurvePoint,
    DepthCurve,
    Estimate,
    LeakReport,
    PolicyResult,
    Results,
    RuleSupport,
)
from bon.analysis.results import phrasing as fmt
from bon.core.records import ImageRef, Question
from tests.conftest import accessibility_violations

HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def tables():
    return synthetic_tables(num_rewarders=6, num_questions=40, num_candidates=4, num_pairs=60)


@pytest.fixture(scope="module")
def results(tables) -> Results:
    return analyse(tables, draws=100)


@pytest.fixture(scope="module")
def views(tables):
    questions = {
        row["question"]: Question(
            key=row["question"],
            id=row["id"],
            dataset="synthetic",
            text=f"Question {row['id']}: {HOSTILE} <image 1>",
            options=tuple(f"option {x}" for x in "ABCDE"),
            answer=row["answer"],
        )
        for row in tables.questions.to_dict("records")
    }
    said = dict.fromkeys(tables.judgements.index, f"because {HOSTILE}")
    texts = "Text {} {}".format
    return list(build_views(tables, questions, lambda k: texts(k, HOSTILE), lambda _: said))


@pytest.fixture(scope="module")
def page(results, views, tmp_path_factory) -> Path:
    return write_report(results, views, tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture(autouse=True, scope="module")
def draw_once():
    """The same results have the same figures: draw them once."""
    drawn, draw = {}, pages.report_figures
    with pytest.MonkeyPatch.context() as patch:

        def cached(results, pick):
            key = (id(results.correlations), id(results.policies), id(results.best_of_n))
            if key not in drawn:
                drawn[key] = (draw(results, pick), results)  # kept alive, so ids stay its own
            return drawn[key][0]

        patch.setattr(pages, "report_figures", cached)
        yield


def embedded(page: Path):
    """The browser's data as the page's script reads it."""
    text = page.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="bon-data">(.*?)</script>', text, re.S)
    data = json.loads(found[1])
    return data, unpack(data["index"])


def unpack(text: str):
    return json.loads(zlib.decompress(base64.b64decode(text)))


def test_accuracy_by_tag_names_the_number_of_pairs(tables, tmp_path):
    """VL-RewardBench's error tags, where the data have such a column."""
    tags = ["counting", "existence", "counting"] * (len(tables.pairs) // 3)
    found = analyse(replace(tables, pairs=tables.pairs.assign(tag=tags)), draws=100)
    text = write_report(found, [], tmp_path / "report.html").read_text(encoding="utf-8")
    part = text.partition("Accuracy by tag on")[2].partition("</table>")[0]
    n = len(tables.pairs)
    assert f"counting ({2 * n // 3})" in part
    assert f"existence ({n // 3})" in part
    shown = {b.rewarder for b in found.benchmarks} - {"random", "longest"}
    assert all(name in part for name in shown)


class Tags(HTMLParser):
    """Tags with their attributes, and whether what was opened was closed."""

    VOID = ("meta", "input", "br", "img", "link", "path", "use", "rect")

    def __init__(self):
        super().__init__()
        self.seen, self.open = [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def parse(text: str) -> Tags:
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    return tags


# ------------------------------------------------------------------ the page


def test_one_file_without_requests_that_a_strict_policy_allows(page):
    text = page.read_text(encoding="utf-8")
    assert page.stat().st_size < 2_000_000
    assert [p.name for p in page.parent.iterdir()] == ["report.html"]
    tags = parse(text)
    for tag, attrs in tags.seen:
        assert "style" not in attrs
        assert not any(name.startswith("on") for name in attrs)
        assert "src" not in attrs
        assert attrs.get("href", "#").startswith(("#", "data:image/svg+xml;base64,")), (tag, attrs)
    policy = next(a["content"] for t, a in tags.seen if a.get("http-equiv"))
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert len([t for t, a in tags.seen if t == "script" and "type" not in a]) == 1
    ids = [a["id"] for _, a in tags.seen if "id" in a]
    assert len(ids) == len(set(ids))


def test_every_section_is_there_and_no_nan(page, results):
    text = page.read_text(encoding="utf-8")
    tags = parse(text).seen
    ids = {attrs["id"]: tag for tag, attrs in tags if "id" in attrs}
    assert ids["answer"] == ids["leaderboard"] == "section"
    folded = ("sure", "other-n", "categories", "leaks", "judges", "asked", "numbers", "questions")
    assert all(ids[name] == "details" for name in folded)
    assert results.finding.sentence in text.replace("&#39;", "'").replace("&lt;", "<")
    body = re.sub(r"<(script|style).*?</\1>", "", text, flags=re.S)
    assert not re.search(r"\b(nan|NaN|inf|None|undefined)\b", re.sub(r"<[^>]+>", " ", body))


def test_the_caption_tells_of_the_band_that_is_drawn(tables, results, page, tmp_path):
    assert results.main.fit.band[0].low is None
    assert "line without a band" in page.read_text(encoding="utf-8")
    bases = tables.rewarders.assign(family=tables.rewarders["rewarder"])
    apart = analyse(replace(tables, rewarders=bases), draws=100)
    assert apart.main.fit.band[0].low is not None
    other = write_report(apart, None, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "line with its band" in other


def test_the_page_recommends_the_vote_that_nothing_beats(results):
    even = Estimate(value=0.051, low=-0.01, high=0.112, n=40)
    rows = tuple(
        b if b.rule == "baseline" else b.model_copy(update={"versus_majority": even})
        for b in results.best_of_n
    )
    first = first_page(results.model_copy(update={"best_of_n": rows}))
    assert first.pick == "majority vote"
    vote = results.policies[0].majority
    assert first.choice == (
        f"Nothing beats majority vote here: {100 * vote.value:.1f}% right "
        f"[{100 * vote.low:.1f}, {100 * vote.high:.1f}], at no cost."
    )
    assert first.because.startswith("The best of 6 rewarders, rewarder-")
    assert first.because.endswith(" over it.")
    assert first.advice.pick is None
    assert first.advice.sentence.startswith("Nothing is shown to beat majority vote")


def test_terms_are_documented_as_they_are_explained():
    page = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text(encoding="utf-8")
    rows = [f"| {name} | {meaning} |" for name, meaning in TERMS.items()]
    assert page.splitlines()[-len(rows) :] == rows


def test_what_is_worse_than_the_vote_is_said_in_words(results, tmp_path):
    first = next(b for b in results.best_of_n if b.headline and b.rewarder == "rewarder-00")
    worse = first.model_copy(update={"verdict_versus_majority": "below"})
    changed = tuple(worse if b is first else b for b in results.best_of_n)
    page = write_report(
        results.model_copy(update={"best_of_n": changed}), None, tmp_path / "r.html"
    )
    assert "▼ below" in page.read_text(encoding="utf-8")


def test_rules_with_one_reason_are_one_line(results, tmp_path):
    rules = [
        RuleSupport(policy="p", rewarder=name, rule=rule, supported=False, reason="lacks rows")
        for rule in ("knockout", "weighted_vote")
        for name in ("judge", "critic")
    ]
    changed = results.model_copy(update={"rules": rules})
    text = write_report(changed, None, tmp_path / "report.html").read_text()
    lines = re.findall(r"<li>([^<]*lacks rows)</li>", text)
    assert lines == [
        f"{name} (p), knockout, weighted vote: lacks rows" for name in ("critic", "judge")
    ]


def test_hostile_text_in_the_results_is_text(results, tmp_path):
    finding = results.finding.model_copy(update={"sentence": HOSTILE, "caveats": (HOSTILE,)})
    changed = results.model_copy(update={"finding": finding, "warnings": (HOSTILE,)})
    text = write_report(changed, None, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<script>document" not in text
    assert "<img" not in text
    assert text.count("&lt;/script&gt;") >= 3
    parse(text)


def test_each_figure_is_drawn_once_and_the_template_once(results, views, tmp_path, monkeypatch):
    drawn, rendered = [], []
    svg, render = figures.plots.inline_svg, pages.render
    monkeypatch.setattr(pages, "report_figures", figures.report_figures)
    monkeypatch.setattr(figures.plots, "inline_svg", lambda *a: drawn.append(a[1]) or svg(*a))
    monkeypatch.setattr(pages, "render", lambda *a, **k: rendered.append(a[0]) or render(*a, **k))
    write_report(results, views, tmp_path / "r.html")
    assert rendered == ["report.html.jinja"]
    assert len(drawn) == len(set(drawn)) == 4  # page one in two widths, density, accuracy by n


def test_same_input_same_bytes(results, views, tmp_path):
    pages = [write_report(results, views, tmp_path / n / "r.html") for n in "ab"]
    assert pages[0].read_bytes() == pages[1].read_bytes()


def test_a_run_of_answers_without_rewarders_has_a_sensible_report(tmp_path):
    e = Estimate(value=0.5, low=0.45, high=0.55, n=100, method="wilson")
    tables = synthetic_tables(num_rewarders=2, num_questions=30, num_candidates=2, num_pairs=20)
    base = analyse(tables, draws=100)
    policy = PolicyResult.model_validate(
        base.policies[0].model_dump()
        | {"pass_at_1": e.model_dump(), "pass_at_1_without_leaks": None}
    )
    bare = base.model_copy(
        update={
            "policies": (policy,), "rewarders": (), "benchmarks": (),
            "best_of_n": tuple(b for b in base.best_of_n if b.rule == "baseline"),
            "comparisons": (), "correlations": (), "correlation_by_n": (), "verdicts": (),
            "needed": (), "judging": (), "rules": (), "counts": Counts(questions=30),
            "leaks": LeakReport(num_questions=0, num_pairs=0),
            "protocol": base.protocol.model_copy(update={"rewarders": (), "differences": ()}),
            "finding": base.finding.model_copy(
                update={"verdict": "cannot tell", "sentence": "No rewarder: it cannot tell."}
            ),
        }
    )  # fmt: skip
    text = write_report(bare, [], tmp_path / "r.html").read_text(encoding="utf-8")
    assert "No rewarder: it cannot tell." in text
    assert "<h1>Use " in text
    assert "majority vote" in text
    assert "50.0%" in text
    assert 'id="judges"' not in text
    parse(text)


# ------------------------------------------------------------------ the browser's data


def test_views_say_what_was_judged_and_picked(views, tables):
    view = next(v for v in views if v.choices)
    assert len(view.candidates) == 4
    assert {c.rewarder for c in view.choices} <= set(tables.rewarders["rewarder"])
    for choice in view.choices:
        known = [s for s in choice.scores if s is not None]
        best = [i for i, s in enumerate(choice.scores) if s == max(known)]
        assert list(choice.picked) == best
        assert choice.judgements
    pairwise = next(c for v in views for c in v.choices if c.rewarder == "rewarder-00")
    assert all(0 <= s <= 1 for s in pairwise.scores if s is not None)
    assert sum(s for s in pairwise.scores if s is not None) == pytest.approx(2, abs=0.6)
    unanimous = [v for v in views if len({c.correct for c in v.candidates}) == 1]
    assert all(v.choices == () for v in unanimous)


def test_picks_can_be_given(tables):
    key = next(iter(tables.judgements.query("item_kind == 'question'")["item"]))
    picks = {("policy-a", key, "rewarder-01"): (3,)}
    views = build_views(tables, {}, str, picks=picks)
    view = next(v for v in views if v.key == key)
    assert next(c for c in view.choices if c.rewarder == "rewarder-01").picked == (3,)
    assert view.text == ""


def test_the_page_holds_all_of_it(page, views):
    data, index = embedded(page)
    assert index["id"] == [v.id for v in views]
    details = [d for chunk in data["chunks"] for d in unpack(chunk)]
    for i, view in enumerate(views):
        assert [c[3] for c in details[i]["c"]["0"]] == [int(c.correct) for c in view.candidates]
        assert [c[4] for c in details[i]["c"]["0"]] == [c.text for c in view.candidates]
        shown = {data["rewarders"][r]: judged for r, _, _, judged in details[i]["s"].get("0", [])}
        for choice in view.choices:
            assert len(shown[choice.rewarder]) == len(choice.judgements)


def one(key: str, **changes) -> QuestionView:
    """A question with three candidates: right, wrong, wrong; two rewarders."""
    candidates = tuple(
        CandidateView("p", i, f"text {i}", answer, "parsed", answer == "B")
        for i, answer in enumerate(changes.pop("answers", "BCD"))
    )
    choices = tuple(
        ChoiceView(f"r{k}", "p", picked, (0.1, 0.2, None), ((0, 1, "first", None, ""),))
        for k, picked in enumerate(changes.pop("picked", ((0,), (1,))))
    )
    fields = {"text": "What?", "options": ("a", "b", "c", "d"), "answer": "B", "id": key}
    return QuestionView(key=key, candidates=candidates, choices=choices, **(fields | changes))


def test_filters(results, tmp_path):
    shown = [
        one("disagree"),
        one("agree", picked=((0,), (0,))),
        one("tied", picked=((0, 1), (1,))),
        one("wrong", answers="ACD", picked=((0,), (0,))),
        one("vote", answers="BBD", picked=((2,), (0,))),
        one("leaked", leaked=True, picked=()),
    ]
    _, index = embedded(write_report(results, shown, tmp_path / "r.html"))
    flags = dict(zip(index["id"], index["flags"], strict=True))
    assert {k for k, v in flags.items() if v & 8} == {"disagree", "vote"}
    assert {k for k, v in flags.items() if v & 2} == {"wrong"}
    assert {k for k, v in flags.items() if v & 1} == {"leaked"}
    state = dict(zip(index["id"], index["state"], strict=True))
    assert state["vote"]["0"][0] == "r"
    assert [s for _, s, _ in state["vote"]["0"][1]] == ["w", "r"]
    assert state["tied"]["0"][0] == "m"
    assert state["tied"]["0"][1][0][1] == "m"


def test_ids_that_repeat_are_linked_by_key(results, tmp_path):
    shown = [one("a" * 20), one("b" * 20, id="x"), one("c" * 20, id="x")]
    _, index = embedded(write_report(results, shown, tmp_path / "r.html"))
    assert index["link"] == ["a" * 20, "b" * 16, "c" * 16]


def full(results, tmp_path) -> int:
    """A size at which the page has no room for its questions."""
    return write_report(results, None, tmp_path / "bare.html").stat().st_size + _MARGIN


def test_what_does_not_fit_goes_beside(results, views, tmp_path):
    most = full(results, tmp_path)
    path = write_report(results, views, tmp_path / "r.html", max_bytes=most)
    data, index = embedded(path)
    assert path.stat().st_size < most
    assert len(index["id"]) == len(views)
    assert data["chunks"] is None
    chunk = (tmp_path / "r_files" / "data" / "0000.js").read_text(encoding="utf-8")
    assert chunk.startswith('bonChunk(0,"')
    assert "&#39;self&#39; file:; img-src" in path.read_text(encoding="utf-8")
    # a later report that fits leaves nothing of this behind
    write_report(results, views, tmp_path / "r.html")
    assert not (tmp_path / "r_files" / "data").exists()


def test_images(results, tmp_path):
    file = tmp_path / "pixel.png"
    Image.new("RGB", (2, 2), "red").save(file)
    (tmp_path / "copy.png").write_bytes(file.read_bytes())
    sources = (str(file), str(tmp_path / "copy.png"), str(tmp_path / "gone.png"))
    shown = [one("q", images=sources)]

    def images(**options):
        page = write_report(results, shown, tmp_path / "r.html", **options)
        data, _ = embedded(page)
        numbers = unpack(data["chunks"][0])[0]["i"]
        found = [None if number is None else data["images"][number] for number in numbers]
        return found, page.read_text(encoding="utf-8")

    found, text = images()
    assert found == [None, None, None]
    assert "img-src data:;" in text
    found, text = images(images=True)
    assert found[0] == found[1]
    assert (tmp_path / found[0]).read_bytes() == file.read_bytes()
    assert found[2] is None
    assert "img-src data: &#39;self&#39; file:;" in text


def test_candidates_of_files_carry_the_name_of_their_file(results, views, tmp_path):
    first = results.policies[0]
    share = first.pass_at_1
    files = tuple(
        CandidateFile(index=i, label=f"file-{i}", accuracy=share, unparsed=share) for i in range(2)
    )
    named = results.model_copy(
        update={"policies": (first.model_copy(update={"files": files}), *results.policies[1:])}
    )
    data, _ = embedded(write_report(named, views[:3], tmp_path / "r.html"))
    assert data["labels"]["policy-a"]["1"] == "file-1"
    data, _ = embedded(write_report(results, views[:3], tmp_path / "r.html"))
    assert data["labels"] == {"policy-a": {}}


def test_axes_whose_r_reads_alike_are_one_row(results):
    main = results.main
    twin = main.model_copy(update={"axis": "overall", "primary": False})
    estimate = main.pearson.estimate.model_copy(update={"value": 0.1, "low": 0.0, "high": 0.2})
    other = main.pearson.model_copy(update={"estimate": estimate})
    apart = twin.model_copy(update={"pearson": other})
    for second, shown in ((twin, [main.axis]), (apart, [main.axis, "overall"])):
        both = results.model_copy(update={"correlations": (main, second)})
        assert [c.axis for c in pages._coefficients(both)] == shown


def test_the_page_says_what_happens_at_the_last_n(results):
    estimate = Estimate(value=4.0, low=4.0, high=8.0)
    points = tuple(CurvePoint(n=n, accuracy=estimate) for n in (1, 64))
    curves = tuple(
        DepthCurve(
            policy=policy, rewarder=name, num_questions=9, points=points, peak=estimate, most=most,
            sentence="",
        )
        for policy in "ab"
        for name, most in (("head", 8), ("judge", None), ("majority", 8))
    )  # fmt: skip
    deep = results.model_copy(update={"depth": curves})
    assert pages._other_n(deep).endswith(" At n = 64 it is past its peak under head.")
    assert "64" not in pages._other_n(results)


def test_image_references_of_a_question_become_paths(tables):
    key = str(tables.questions["question"].iloc[0])
    known = {key: Question(key, "id", "d", "text", ("a",), "A", images=(ImageRef("00", "x.png"),))}
    assert next(build_views(tables, known, str)).images == ("x.png",)


# ------------------------------------------------------------------ numbers and tables


def test_numbers_as_text():
    e = Estimate(value=0.472, low=0.431, high=0.51)
    assert fmt.share(e) == "47.2% [43.1, 51.0]"
    assert fmt.difference(Estimate(value=-0.031, low=-0.05, high=0.01)) == "−3.1 [−5.0, +1.0]"
    assert fmt.difference(Estimate(value=-0.0001)) == "0.0"
    assert fmt.gained(e) == "+47.2 points [+43.1, +51.0]"
    assert fmt.bounded(Estimate(value=0.946, low=-0.61, high=1.0)) == ".95 [−.61, 1.00]"
    assert fmt.share(Estimate(value=None)) == fmt.share(None) == "–"
    assert fmt.percent(float("nan")) == "–"
    assert fmt.p_value(0.0004) == "< .001"
    assert fmt.p_value(0.0044) == "= .004"
    assert fmt.p_value(0.11) == "= .11"
    assert fmt.size(7e9) == "7 B"
    assert fmt.duration(90) == "1.5 min"
    assert [fmt.duration(s) for s in (0.0764, 3.41, 884, 4000)] == [
        "0.076 s", "3.4 s", "15 min", "1.1 h",
    ]  # fmt: skip
    assert fmt.count(-1200) == "−1,200"
    assert fmt.money(0.0) == "$0"


def test_tables(results, tmp_path):
    import pandas as pd

    for name in ("depth_points.csv", "mine.csv"):
        (tmp_path / name).write_text("x\n1\n")
    written = write_tables(results, tmp_path)
    assert {p.suffix for p in written} == {".csv", ".parquet"}
    assert set(tmp_path.iterdir()) - set(written) == {tmp_path / "mine.csv"}, "no earlier table"
    made = frames(results)
    lengths = {name: len(made[f"best_of_n_{name}"]) for name in ("curve", "slices")}
    assert lengths == {n: sum(len(getattr(b, n)) for b in results.best_of_n) for n in lengths}
    points = made["correlations_points"].query("axis == 'macro' and leaks == 'out'")
    assert set(points["rewarder"]) == {p.rewarder for p in results.main.points}
    best = pd.read_csv(tmp_path / "best_of_n.csv")
    assert len(best) == len(results.best_of_n)
    assert best["accuracy_low"].le(best["accuracy"]).all()
    parquet = pd.read_parquet(tmp_path / "correlations.parquet")
    assert list(parquet.columns) == list(made["correlations"].columns)
    assert parquet["pearson"].iloc[0] == results.correlations[0].pearson.estimate.value


# ------------------------------------------------------------------ in a browser


@pytest.mark.browser
def test_a_link_opens_its_question_and_shows_hostile_text_as_text(page, views, tab):
    view = next(v for v in views if v.choices)
    tab.goto(f"{page.as_uri()}#q={view.id}")
    shown = tab.locator("#view")
    expect(tab.locator(f'#view[data-question="{view.id}"]')).to_be_visible()
    assert tab.title() == "synthetic · bon report"
    assert "<img src=x onerror=alert(1)>" in shown.inner_text()
    assert "[image 1]" in shown.inner_text()
    assert "<image 1>" not in tab.locator("#browser").inner_text()
    assert tab.locator('img[src="x"]').count() == 0
    assert shown.locator(".card").count() == len(view.candidates)
    assert "picked by" in shown.inner_text()
    expect(tab.locator("#tally")).to_contain_text(f"{len(views)} questions")


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "dark")])
def test_nothing_in_the_way_of_any_reader(page, tab, width, scheme):
    tab.set_viewport_size({"width": width, "height": 900})
    tab.emulate_media(color_scheme=scheme)
    tab.goto(page.as_uri())
    expect(tab.locator("#browser")).to_be_attached()
    assert accessibility_violations(tab) == []


@pytest.mark.browser
def test_the_browser_by_keyboard_search_and_filter(page, views, tab):
    def question():
        return tab.locator("[data-question]").first.get_attribute("data-question")

    tab.goto(page.as_uri())
    tab.get_by_text("What did each rewarder choose?").click()
    expect(tab.locator("#place")).to_contain_text(f"1 of {len(views)}")
    assert question() == views[0].id
    tab.keyboard.press("j")  # the browser is not on the screen yet: not its key
    assert question() == views[0].id
    tab.locator("#view").scroll_into_view_if_needed()
    tab.keyboard.press("j")
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("k")
    expect(tab.locator("#place")).to_contain_text(f"2 of {len(views)}")
    assert question() == views[1].id
    assert tab.url.endswith(f"#q={views[1].id}")
    tab.keyboard.press("/")
    tab.keyboard.type(views[7].id)
    expect(tab.locator("#place")).to_contain_text("1 of 1")
    assert question() == views[7].id
    tab.locator("#find").fill("")
    tab.get_by_role("button", name="all wrong", exact=True).click()
    wrong = [v for v in views if not any(c.correct for c in v.candidates)]
    expect(tab.locator("#tally")).to_contain_text(f"{len(wrong)} ")
    tab.get_by_role("button", name="Theme").click()
    assert tab.evaluate("document.documentElement.dataset.theme") == "light"


@pytest.mark.browser
def test_two_rewarders_stand_side_by_side_where_they_chose_different_answers(page, views, tab):
    policy = views[0].candidates[0].policy
    one, other = sorted({choice.rewarder for view in views for choice in view.choices})[:2]

    def answers(view, rewarder):
        texts = {c.index: c.answer for c in view.candidates if c.policy == policy}
        return [
            {texts[i] for i in choice.picked}
            for choice in view.choices
            if (choice.policy, choice.rewarder) == (policy, rewarder) and choice.picked
        ]

    differ = [
        view.id
        for view in views
        if answers(view, one)
        and answers(view, other)
        and answers(view, one) != answers(view, other)
    ]
    assert 0 < len(differ) < len(views)
    tab.goto(page.as_uri())
    tab.get_by_text("What did each rewarder choose?").click()
    tab.locator("#by-rewarder").select_option(label=one)
    tab.locator("#by-other").select_option(label=other)
    expect(tab.locator("#tally")).to_contain_text(f"{len(differ)} of {len(views)}")
    expect(tab.locator(".versus h3")).to_have_text([f"{one} picked", f"{other} picked"])
    assert tab.locator("[data-question]").first.get_attribute("data-question") == differ[0]
    (shown,) = (view for view in views if view.id == differ[0])
    letters = [
        set(section.locator(".letter").all_inner_texts())
        for section in tab.locator(".versus section").all()
    ]
    assert letters == [answers(shown, one)[0], answers(shown, other)[0]]
    expect(tab.locator("#view button.csv")).to_have_count(1)


FIRST_SCREEN = """() => {
  const walk = document.createTreeWalker(document.querySelector("main"), 4);
  let text = "", block = null;
  while (walk.nextNode()) {
    const box = document.createRange(), parent = walk.currentNode.parentElement;
    box.selectNodeContents(walk.currentNode);
    const at = box.getBoundingClientRect();
    if (parent.closest("svg, .fig") || !at.height) continue;
    if (at.top >= innerHeight || at.bottom <= 0) continue;
    const own = parent.closest(".rest, h1, h2, h3, p, dt, dd, th, td, label");
    text += (own === block ? "" : " ") + walk.currentNode.textContent;
    block = own;
  }
  return text;
}"""


@pytest.mark.browser
def test_the_first_screen_answers_a_principal_investigator(results, page, tab):
    tab.set_viewport_size({"width": 1280, "height": 800})
    tab.goto(page.as_uri())
    text = " ".join(tab.evaluate(FIRST_SCREEN).split()).partition(" Leaderboard ")[0]
    assert 30 < len(text.split()) <= 110
    advice = advise(results)
    gain = over_majority(results)[advice.pick]
    assert f"Take {advice.pick}: {fmt.gained(gain)} over majority vote" in text
    assert f"{fmt.gained(advice.over_free)} corrected for picking it among 6 rewarders" in text
    (v,) = results.verdicts
    yes, no = (int(100 * p) for p in (v.p_yes, v.p_low))  # a chance is rounded down
    assert f"Does the benchmark predict Best-of-4? Cannot tell (yes: {yes}%, no: {no}%)" in text
    assert f"over {v.num_rewarders} rewarders from 2 base models" in text
    assert re.search(r"To trust it \d+ rewarders from \d+ base models: \d+% of such studies", text)
    assert "Caveat rewarder-04 is right on" in text
    assert tab.locator("#answer figure svg:visible").count() == 2
    defined = tab.locator("#answer abbr").evaluate_all(
        "all => all.map((a) => [a.textContent, a.title])"
    )
    assert dict(defined) == {
        "majority vote": TERMS["majority vote"],
        "rewarders": TERMS["rewarder"], "base models": TERMS["base model"], "r": TERMS["r"],
    }  # fmt: skip


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_the_leaderboards_fit(page, tab, width):
    tab.set_viewport_size({"width": width, "height": 800})
    tab.goto(page.as_uri())
    shown = tab.locator("#leaderboard .scroll")
    assert shown.count() == 1
    assert shown.evaluate("b => b.scrollWidth <= b.clientWidth")
    bars = tab.locator("#leaderboard tbody tr:not(.base) td:nth-child(2) svg")
    assert bars.first.evaluate("b => b.getBoundingClientRect().width") > 60
    assert len(tab.inner_text("main").split()) <= 700
    tab.locator("#numbers summary").first.click()
    box = tab.locator("#numbers .scroll").first
    assert box.evaluate("b => b.scrollWidth <= b.clientWidth")
    columns = tab.locator("#numbers thead th:visible").count()
    tab.locator("#numbers").get_by_label("All columns").check()
    assert tab.locator("#numbers thead th:visible").count() > columns


@pytest.mark.browser
def test_headline_table_and_figure_show_one_number(results, page, tab):
    """The headline is the first cell of the table and the height of the big mark."""
    tab.goto(page.as_uri())
    gain = over_majority(results)[advise(results).pick]
    row = tab.locator("#leaderboard tr.chosen")
    assert row.locator("th").inner_text().startswith(f"{advise(results).pick} ")
    assert row.locator("td").first.get_attribute("data-v") == str(gain.value)
    headline = tab.locator("h1").inner_text()
    assert f" {row.locator('.v').first.inner_text()} points [" in headline
    rewarders = tab.locator("#leaderboard tbody tr:not(.base)")
    assert rewarders.first.get_attribute("class") == row.get_attribute("class")
    titles = tab.locator("#answer svg.wide title").all_text_contents()
    (mark,) = (t for t in titles if t.startswith(advise(results).pick))
    assert f"{fmt.difference(gain)} points over majority vote" in mark
    filled = rewarders.locator("td:nth-child(2) circle.on").count()
    gains = [over_majority(results)[r.rewarder] for r in results.rewarders if not r.baseline]
    assert filled == sum(e.low > 0 or e.high < 0 for e in gains)


@pytest.mark.browser
def test_every_table_is_saved_as_csv_without_formulas(results, tmp_path, tab):
    evil = "=cmd|' /C calc'!A0"
    text = results.model_dump_json().replace('"rewarder-03"', json.dumps(evil))
    page = write_report(Results.model_validate_json(text), None, tmp_path / "r.html")
    tab.goto(page.as_uri())
    assert tab.locator("button.csv").count() == tab.locator("main table").count()
    with tab.expect_download() as download:
        tab.get_by_role("button", name="Leaderboard as CSV").click()
    saved = Path(download.value.path()).read_text(encoding="utf-8")
    rows = list(csv.DictReader(saved.splitlines()))
    assert download.value.suggested_filename == "Leaderboard.csv"
    gains = over_majority(Results.model_validate_json(text))
    shown = {row["rewarder"]: row for row in rows}
    assert f"'{evil}" in shown
    assert evil not in shown
    for name, gain in gains.items():
        if name in shown:
            assert float(next(v for k, v in shown[name].items() if k == "gain")) == gain.value


TEXT_PIXELS = """() => [...document.querySelectorAll("#answer svg text")].filter(
    (text) => text.getClientRects().length
).map((text) => {
    const svg = text.ownerSVGElement;
    const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
    return parseFloat(getComputedStyle(text).fontSize) * scale;
})"""


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_text_of_figures_is_read_without_a_glass(page, tab, width):
    tab.set_viewport_size({"width": width, "height": 844})
    tab.goto(page.as_uri())
    pixels = tab.evaluate(TEXT_PIXELS)
    assert len(pixels) > 20
    assert min(pixels) >= 10.5
    assert max(pixels) >= 12.9


@pytest.mark.browser
def test_equal_responses_are_shown_once(results, tmp_path, tab):
    seven = [CandidateView("p", i, "The same.", "B", "parsed", 1.0) for i in range(7)]
    other = CandidateView("p", 7, "Another.", "C", "parsed", 0.0)
    choices = (
        ChoiceView("r0", "p", (3, 5), (0.7,) * 7 + (0.1,), ()),
        ChoiceView("r1", "p", (7,), (0.2,) * 7 + (0.3,), ()),
    )
    view = replace(one("q"), candidates=(*seven, other), choices=choices)
    tab.goto(f"{write_report(results, [view], tmp_path / 'r.html').as_uri()}#q=q")
    cards = tab.locator("#view .card")
    expect(cards).to_have_count(2)
    assert "#0 and 6 equal ones" in cards.first.inner_text()
    assert "picked by r0\n" in cards.first.inner_text()
    assert tab.locator("#view .scores thead th").count() == 4
    cells = tab.locator("#view .scores tbody tr").first.locator("td")
    assert cells.all_inner_texts() == ["0.70", "0.10", "✓ right"]
    assert "pick" in cells.first.get_attribute("class")
    assert "7 responses" in tab.locator("#view .options").inner_text()


@pytest.mark.browser
def test_the_glossary_is_one_click_away(page, tab):
    tab.goto(page.as_uri())
    tab.get_by_role("link", name="Glossary").click()
    expect(tab.locator("#glossary dt")).to_have_text(list(TERMS))
    expect(tab.locator("#glossary dd").first).to_be_visible()


@pytest.mark.browser
def test_categories_are_a_heat_table_with_intervals_and_r(results, page, tab):
    tab.goto(page.as_uri())
    tab.get_by_text("Which categories?").click()
    table = tab.locator("#categories table").first
    row = next(b for b in results.benchmarks if b.rewarder == "rewarder-05")
    cells = table.locator("tbody tr", has_text=row.rewarder).locator("td:visible")
    for cell, group in zip(cells.all()[1:], row.groups, strict=True):
        assert cell.inner_text().split("\n")[0] == fmt.percent(group.accuracy.value)
        assert cell.locator(".ci").inner_text().startswith("[")
    shades = table.locator("tbody [class*=heat-]").evaluate_all(
        "cells => cells.map((c) => [Number(c.dataset.v), getComputedStyle(c).backgroundColor])"
    )
    assert len({shade for value, shade in shades if value < 0.55}) <= 1
    assert len({shade for _, shade in shades}) > 3
    shown = [c for c in results.correlations if c.leaks == results.main.leaks]
    r = next(c.pearson for c in shown if c.axis == f"group:{row.groups[0].name}").estimate.value
    assert fmt.coefficient(r) in table.locator("tfoot").inner_text()


@pytest.mark.browser
def test_the_leaderboard_sorts(page, tab):
    tab.goto(page.as_uri())
    table = tab.locator("#leaderboard table.sortable").first
    head = table.get_by_role("button", name="gain")
    cells = table.locator("tbody tr td:nth-child(2)")

    def values():
        return [float(v) for v in cells.evaluate_all("c => c.map(x => x.dataset.v)")]

    head.click()
    first = values()
    head.click()
    assert first != values()
    assert {tuple(first), tuple(values())} == {
        tuple(sorted(first)), tuple(sorted(first, reverse=True)),
    }  # fmt: skip


@pytest.mark.browser
def test_questions_beside_the_page_are_loaded(results, views, tmp_path, tab):
    page = write_report(results, views, tmp_path / "r.html", max_bytes=full(results, tmp_path))
    assert (tmp_path / "r_files" / "data" / "0000.js").exists()
    tab.goto(f"{page.as_uri()}#q={views[1].id}")
    expect(tab.locator("#view")).to_contain_text("Text policy-a-00001-0")


@pytest.mark.browser
@pytest.mark.parametrize("width", [360, 1280])
def test_the_page_is_never_wider_than_the_screen(page, tab, width):
    tab.set_viewport_size({"width": width, "height": 800})
    tab.goto(page.as_uri())
    tab.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("browser", [True, False])
def test_the_policy_lets_exactly_this_style_and_script_run(tmp_path, results, views, browser):
    page = write_report(results, views if browser else None, tmp_path / "r.html").read_text()
    policy = html.unescape(re.search(r'Security-Policy" content="([^"]*)"', page)[1])
    for tag in ("style", "script"):
        (body,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.S)
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
