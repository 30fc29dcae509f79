import io
import pickle
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
from PIL import Image
from synthetic import analyse, synthetic_tables

import bon
from bon.analysis import plots
from bon.analysis.artifacts import write_figures
from bon.analysis.decision.recommend import over_majority
from bon.analysis.plots.curves import spread
from bon.analysis.plots.style import INK, MUTED, OTHER, family_colours
from bon.analysis.results import Estimate, Results, RewarderInfo

DEMO_POINTS = Path(__file__).parents[1] / "data/demo_points.csv"
GALLERY = Path(__file__).parents[2] / "docs/images/gallery"
FIGURES = ("correlation", "accuracy_at_n")


@pytest.fixture(scope="module")
def results() -> Results:
    return analyse(
        synthetic_tables(num_rewarders=8, num_questions=60, num_pairs=80),
        draws=100,
    )


@pytest.fixture(scope="module")
def two_policies() -> Results:
    tables = synthetic_tables(
        num_rewarders=7, num_questions=40, num_pairs=60, policies=("alpha", "beta")
    )
    return analyse(tables, draws=100)


def texts(figure):
    return [t.get_text() for ax in figure.axes for t in ax.texts]


def boxes(figure):
    extents = [text.get_window_extent() for ax in figure.axes for text in ax.texts]
    return [(box.x0, box.y0, box.x1, box.y1) for box in extents]


def overlapping(figure) -> list[tuple[str, str]]:
    """Pairs of texts of which one covers a part of the other."""
    shown, places = texts(figure), boxes(figure)
    return [
        (shown[i], shown[j])
        for i, a in enumerate(places)
        for j, b in enumerate(places[:i])
        if min(a[2], b[2]) - max(a[0], b[0]) > 0.5 and min(a[3], b[3]) - max(a[1], b[1]) > 0.5
    ]


@pytest.mark.parametrize("width", ["single", "double"])
@pytest.mark.parametrize("name", FIGURES)
def test_all_labels_lie_inside_the_figure(two_policies, name, width):
    figure = getattr(plots, name)(two_policies, width=width)
    figure.draw_without_rendering()
    for ax in figure.axes:
        for text in (t for t in (*ax.texts, ax.xaxis.label, ax.yaxis.label) if t.get_text()):
            box, room = text.get_window_extent(), figure.bbox
            assert box.x0 > -1, text.get_text()
            assert box.y0 > -1, text.get_text()
            assert box.x1 < room.x1 + 1, text.get_text()
            assert box.y1 < room.y1 + 1, text.get_text()


@pytest.mark.parametrize("width", ["single", "double"])
def test_the_names_of_curves_lie_inside_the_figure(results, width):
    names = {r.rewarder: f"{r.rewarder}-of-a-long-name" for r in results.rewarders}
    text = results.model_dump_json()
    for short, long in names.items():
        if short.startswith("rewarder-"):
            text = text.replace(f'"{short}"', f'"{long}"')
    figure = plots.accuracy_at_n(Results.model_validate_json(text), width=width)
    right = figure.bbox.x1
    assert all(box[2] <= right + 1 for box in boxes(figure))
    assert all(not a.get_xlabel() or a.get_window_extent().width > 0.3 * right for a in figure.axes)


def test_the_mean_and_each_policy_show_points_over_majority_vote(two_policies):
    mean = over_majority(two_policies)
    by_policy = {
        p.policy: {
            b.rewarder: b.versus_majority
            for b in two_policies.best_of_n
            if b.headline and b.policy == p.policy
        }
        for p in two_policies.policies
    }
    for policy, gains in ((None, mean), *by_policy.items()):
        (ax,) = plots.correlation(two_policies, policy=policy).axes
        marks = [line for line in ax.lines if line.get_gid()]
        drawn = sorted(float(line.get_ydata()[0]) for line in marks)
        names = [p.rewarder for p in two_policies.main.points]
        assert drawn == pytest.approx(sorted(100 * gains[name].value for name in names))
        filled = sum(line.get_markerfacecolor() == line.get_color() for line in marks)
        assert filled == sum(gains[n].low > 0 or gains[n].high < 0 for n in names)
        assert {"majority vote", "pass@1"} <= set(texts(ax.figure))
    assert "r = " in ax.get_title(loc="left")
    assert ax.get_title(loc="left").startswith("beta\n")
    with pytest.raises(bon.BonError, match="no policy 'gamma'"):
        plots.correlation(two_policies, policy="gamma")
    with pytest.raises(bon.BonError, match="no policy 'gamma' -> choose one of alpha, beta"):
        plots.accuracy_at_n(two_policies, policy="gamma")


def test_the_mean_is_that_of_the_headline_where_one_policy_has_no_correlation(two_policies):
    """The height of a mark is the table's number, and no line is drawn of fewer policies."""
    some = tuple(c for c in two_policies.correlations if c.policy == "alpha")
    left = two_policies.model_copy(update={"correlations": some})
    gains = over_majority(two_policies)
    rows = plots.points(left)
    assert {r["rewarder"]: r["gain"] for r in rows} == pytest.approx(
        {r["rewarder"]: gains[r["rewarder"]].value for r in rows}
    )
    (ax,) = plots.correlation(left).axes
    assert all(len(line.get_xdata()) <= 2 for line in ax.lines)
    assert "mean of 2 policies" in ax.get_ylabel()


def test_only_base_models_of_several_rewarders_have_a_colour():
    tables = synthetic_tables(num_rewarders=8, num_questions=60, num_pairs=80)
    tables.rewarders["family"] = ["alpha"] * 4 + ["beta"] * 2 + ["gamma", ""]
    figure = plots.correlation(analyse(tables, draws=100))
    (legend,) = figure.legends
    handles = zip(legend.get_texts(), legend.legend_handles, strict=True)
    looks = {text.get_text(): handle.get_color() for text, handle in handles}
    assert list(looks) == ["alpha", "beta", "others, one each"]
    assert looks.pop("others, one each") == OTHER
    assert len(set(looks.values())) == 2
    assert OTHER not in looks.values()


def test_a_base_model_has_one_colour_in_all_figures_and_no_line_has_it():
    tables = synthetic_tables(num_rewarders=6, num_questions=40, num_pairs=60)
    tables.rewarders["family"] = ["beta", "alpha", "", "beta", "alpha", "beta"]
    results = analyse(tables, draws=100)
    scatter, curves = plots.correlation(results), plots.accuracy_at_n(results)
    (legend,) = scatter.legends
    handles = zip(legend.get_texts(), legend.legend_handles, strict=True)
    colours = {text.get_text(): handle.get_color() for text, handle in handles}
    (ax,) = scatter.axes
    (fit,) = (line for line in ax.lines if len(line.get_xdata()) > 2)
    assert fit.get_color() not in colours.values()
    families = {r.rewarder: r.family for r in results.rewarders}
    ends = {b.rewarder: 100 * b.accuracy.value for b in results.best_of_n if b.headline}
    (ax,) = curves.axes
    for line in (line for line in ax.lines if len(line.get_xdata()) > 2):
        end = line.get_ydata()[-1]
        alike = {families[r] for r, y in ends.items() if r in families and abs(end - y) < 1e-9}
        assert not alike or line.get_color() in {colours.get(f, OTHER) for f in alike} | {INK}


def test_of_a_race_only_the_end_is_drawn(results):
    """Fewer candidates are estimated from other questions: the curve would bend at its end."""

    def curves(results: Results) -> int:
        figure = plots.accuracy_at_n(results)
        return sum(len(line.get_xdata()) > 2 for ax in figure.axes for line in ax.lines)

    rows = list(results.best_of_n)
    at = next(i for i, b in enumerate(rows) if b.headline and b.rewarder.startswith("rewarder"))
    part = {"estimated": rows[at].num_questions // 10}
    raced = rows[at].model_dump()
    raced["curve"] = [
        {**point, **(part if 1 < point["n"] < rows[at].n else {})} for point in raced["curve"]
    ]
    rows[at] = type(rows[at]).model_validate(raced)
    assert rows[at].raced
    assert curves(results.model_copy(update={"best_of_n": tuple(rows)})) == curves(results) - 1


@pytest.fixture(scope="module")
def demo(results) -> Results:
    """The points of the demo's report, with the lines that its panel has."""
    table = pd.read_csv(DEMO_POINTS, keep_default_na=False).to_dict("records")
    main = results.main
    points = tuple(
        main.points[0].model_copy(
            update={key: row[key] for key in ("rewarder", "family", "before")}
            | {
                axis: Estimate(value=row[axis], low=row[f"{axis}_low"], high=row[f"{axis}_high"])
                for axis in "xy"
            }
        )
        for row in table
    )
    infos = [
        RewarderInfo(rewarder=r["rewarder"], kind=r["kind"], family=r["family"]) for r in table
    ]
    some = next(b for b in results.best_of_n if b.headline)
    gains = {p.rewarder: [v - 0.542 for v in (p.y.value, p.y.low, p.y.high)] for p in points}
    gains |= {"majority": [0.0] * 3, "random": [-0.066] * 3}
    best = tuple(
        some.model_copy(
            update={
                "rewarder": name,
                "versus_majority": Estimate(value=value, low=low, high=high),
            }
        )
        for name, (value, low, high) in gains.items()
    )
    correlations = (main.model_copy(update={"points": points, "num_rewarders": 14}),)
    return results.model_copy(
        update={"correlations": correlations, "rewarders": tuple(infos), "best_of_n": best}
    )


def scattered(demo: Results, seed: int) -> Results:
    """The same rewarders at random points around a line, no two at the same place."""
    rng, (c,) = np.random.default_rng(seed), demo.correlations
    xs, ys = np.linspace(0.5, 0.9, 14), rng.normal(0, 0.05, 14)
    points = tuple(
        p.model_copy(update={"x": Estimate(value=x)}) for p, x in zip(c.points, xs, strict=True)
    )
    gains = {
        p.rewarder: Estimate(value=0.8 * (x - 0.7) + y)
        for p, x, y in zip(points, xs, ys, strict=True)
    }
    best = tuple(
        b.model_copy(update={"versus_majority": gains.get(b.rewarder, b.versus_majority)})
        for b in demo.best_of_n
    )
    correlations = (c.model_copy(update={"points": points}),)
    return demo.model_copy(update={"correlations": correlations, "best_of_n": best})


@pytest.mark.parametrize("width", ["single", 4.8])
@pytest.mark.parametrize("seed", [None, *range(6)])
def test_no_name_covers_a_point_or_a_text(demo, seed, width):
    """A name without room is left out: of fourteen at most three, in a column of a paper."""
    shown = demo if seed is None else scattered(demo, seed)
    figure = plots.correlation(shown, width=width)
    (ax,) = figure.axes
    at = ax.transData.transform([line.get_xydata()[0] for line in ax.lines if line.get_gid()])
    radius, names = 2.4 * figure.dpi / 72, {p.rewarder for p in shown.main.points}
    assert overlapping(figure) == []
    named = [text for text in ax.texts if text.get_text() in names]
    assert len(named) >= 11
    for text in named:
        box = text.get_window_extent()
        gaps = np.hypot(*(np.clip(at, (box.x0, box.y0), (box.x1, box.y1)) - at).T)
        assert gaps.min() > radius, text.get_text()


def test_the_pick_and_the_ends_of_the_benchmark_are_named_first(demo):
    by_x = [p.rewarder for p in sorted(demo.main.points, key=lambda p: p.x.value)]
    figure = plots.correlation(demo, names=3, emphasis=by_x[5])
    named = {text.get_text(): text for text in figure.axes[0].texts} | {}
    assert set(named) == {"majority vote", "pass@1", by_x[0], by_x[5], by_x[-1]}
    assert named[by_x[5]].get_fontweight() == "bold"


def test_a_name_is_short_and_never_printed_to_the_terminal(demo, capsys):
    long = {p.rewarder: f"{p.rewarder}-of-a-name-that-no-column-holds" for p in demo.main.points}
    text = demo.model_dump_json()
    for short, name in long.items():
        text = text.replace(f'"{short}"', f'"{name}"')
    figure = plots.correlation(Results.model_validate_json(text), width=2.2, size=12)
    assert all(len(text) <= 24 for text in texts(figure))
    assert overlapping(figure) == []
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("draw", ["correlation", "accuracy_at_n", "verdict"])
def test_figures_obey_the_settings_of_the_user(results, draw):
    """A style sheet or rcParams, as a paper has them; an argument is above both."""
    plot = getattr(plots, draw)
    with matplotlib.rc_context({"font.family": ["serif"], "font.size": 14}):
        figure = plot(results, width=3.3)
        figure.draw_without_rendering()
        labels = [text for ax in figure.axes for text in (ax.xaxis.label, *ax.get_xticklabels())]
        assert {tuple(text.get_fontfamily()) for text in labels} == {("serif",)}
        assert labels[1].get_fontsize() == 14
        assert overlapping(figure) == []
        for ax in figure.axes:
            for text in (ax.xaxis.label, ax.yaxis.label):
                box = text.get_window_extent()
                assert not text.get_text() or (box.x0 > -1 and box.x1 < figure.bbox.x1 + 1)
                assert not text.get_text() or (box.y0 > -1 and box.y1 < figure.bbox.y1 + 1)
        own = plot(results, width=3.3, height=5, size=6, font="DejaVu Sans")
    assert own.get_size_inches().tolist() == [3.3, 5]
    assert own.axes[0].xaxis.label.get_fontsize() == 6
    assert own.axes[0].xaxis.label.get_fontfamily() == ["DejaVu Sans"]


@pytest.mark.parametrize(
    ("look", "line"),
    [
        ({"width": "triple"}, "a figure has no width 'triple' -> use single, double or inches"),
        ({"width": 0}, "a figure has no width 0 -> use single, double or inches"),
        ({"height": "tall"}, "a figure has no height 'tall' -> use inches"),
        ({"font": "No Such Font"}, "matplotlib finds no font 'No Such Font' -> "),
    ],
)
def test_a_look_that_does_not_exist_is_one_line(results, look, line):
    for name in FIGURES:
        with pytest.raises(bon.BonError) as error:
            getattr(plots, name)(results, **look)
        assert str(error.value).startswith(line)


def test_the_gallery_has_the_colours_of_the_report(demo):
    buffer = io.BytesIO()
    plots.correlation(demo).savefig(buffer, format="png")
    for file in (buffer, GALLERY / "correlation.png"):
        pixels = np.asarray(Image.open(file).convert("RGB")).reshape(-1, 3)
        colours = np.unique(pixels, axis=0).astype(int)
        for colour in (*family_colours([r.family for r in demo.rewarders]).values(), INK):
            rgb = [round(255 * part) for part in matplotlib.colors.to_rgb(colour)]
            assert np.abs(colours - rgb).max(1).min() <= 4


def test_figures_as_files_have_their_data_beside_them(results, tmp_path):
    written = {path.name for path in write_figures(results, tmp_path)}
    suffixes = ("pdf", "png", "svg", "csv")
    every = (*FIGURES, "verdict")
    assert written == {f"{name}.{suffix}" for name in every for suffix in suffixes}
    points = pd.read_csv(tmp_path / "correlation.csv").set_index("rewarder")
    expected = {p.rewarder: p.x.value for p in results.main.points}
    assert points["x"].to_dict() == pytest.approx(expected)
    gains = over_majority(results)
    assert points["gain"].to_dict() == pytest.approx({n: gains[n].value for n in expected})
    density = pd.read_csv(tmp_path / "verdict.csv")
    assert density["density"].tolist() == pytest.approx(results.verdicts[0].density)
    curves = pd.read_csv(tmp_path / "accuracy_at_n.csv")
    ends = {b.rewarder: b.accuracy.value for b in results.best_of_n if b.headline and b.curve}
    last = curves[curves["n"] == curves["n"].max()].set_index("rewarder")["accuracy"]
    assert last.to_dict() == pytest.approx(ends)


def test_a_figure_shows_itself_in_a_notebook(results):
    assert plots.correlation(results)._repr_png_().startswith(b"\x89PNG")


def test_results_are_pickled_and_compared(results):
    assert pickle.loads(pickle.dumps(results)) == results
    assert results.model_copy(update={"best_of_n": results.best_of_n[1:]}) != results


def test_same_figure_twice_has_the_same_bytes(results, tmp_path):
    for name in ("a", "b"):
        plots.save(plots.correlation(results), tmp_path / name / "figure")
    for suffix in (".png", ".svg", ".pdf"):
        first, second = ((tmp_path / n / f"figure{suffix}").read_bytes() for n in "ab")
        assert first == second
    assert b"CreationDate" not in (tmp_path / "a" / "figure.pdf").read_bytes()


def test_save_writes_the_one_format_that_was_asked_for(results, tmp_path):
    assert plots.save(plots.accuracy_at_n(results), tmp_path / "n.svg") == [tmp_path / "n.svg"]
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_leaves_the_settings_alone(results, two_policies, name):
    before = dict(matplotlib.rcParams)
    for width, shown in (("double", results), ("single", two_policies)):
        figure = getattr(plots, name)(shown, width=width)
        assert not any("nan" in t.lower() for t in texts(figure))
    assert dict(matplotlib.rcParams) == before


def test_figures_of_nothing_say_so(results):
    empty = results.model_copy(
        update={"correlations": (), "best_of_n": (), "benchmarks": (), "correlation_by_n": ()}
    )
    for name in FIGURES:
        with pytest.raises(plots.NothingToDrawError):
            getattr(plots, name)(empty)


def test_svg_in_a_page_has_no_styles_of_its_own(results):
    svg, css = plots.inline_svg(plots.correlation(results), "f0", 'a "quoted" <name>')
    assert " style=" not in svg
    assert "#" not in css
    assert "var(--series-1)" in css
    for name in (*FIGURES, "verdict"):  # colours that a page turns into its own, light and dark
        drawn = [t for ax in getattr(plots, name)(results).axes for t in ax.texts]
        assert {text.get_color() for text in drawn} <= {INK, MUTED}
    assert "<metadata" not in svg
    assert 'aria-label="a &quot;quoted&quot; &lt;name&gt;"' in svg
    ids = [part.split('"')[0] for part in svg.split(' id="')[1:]]
    assert len(set(ids)) == len(ids)
    assert all(name.startswith("f0-") for name in ids)


def test_spread_keeps_order_and_distance():
    rng = np.random.default_rng(0)
    for _ in range(50):
        wanted = list(rng.uniform(0, 100, 9))
        placed = spread(wanted, 8, 0, 100)
        assert np.argsort(placed).tolist() == np.argsort(wanted).tolist()
        assert min(np.diff(sorted(placed))) > 8 - 1e-9
        assert min(placed) >= -1e-9
        assert max(placed) <= 100 + 1e-9
    assert spread([5.0, 50.0], 8, 0, 100) == [5.0, 50.0]
    assert spread([], 8, 0, 100) == []
