import io
import pickle
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image
from synthetic import analyse, synthetic_tables

from bon.analysis import plots
from bon.analysis.artifacts import write_figures
from bon.analysis.plots.labels import overlap, place_labels, spread
from bon.analysis.plots.style import INK, style
from bon.analysis.results import Estimate, Results, RewarderInfo

DEMO_POINTS = Path(__file__).parents[1] / "data/demo_points.csv"
GALLERY = Path(__file__).parents[2] / "docs/images/gallery"
FIGURES = ("correlation", "accuracy_at_n")


@pytest.fixture(scope="module")
def results() -> Results:
    return analyse(
        synthetic_tables(num_rewarders=8, num_questions=60, num_pairs=80),
        draws=100,
        permutations=100,
    )


@pytest.fixture(scope="module")
def two_policies() -> Results:
    tables = synthetic_tables(
        num_rewarders=7, num_questions=40, num_pairs=60, policies=("alpha", "beta")
    )
    return analyse(tables, draws=100, permutations=100)


def texts(figure):
    return [t.get_text() for ax in figure.axes for t in ax.texts]


def boxes(figure):
    found = []
    for ax in figure.axes:
        for text in ax.texts:
            extent = text.get_window_extent()
            found.append((extent.x0, extent.y0, extent.x1, extent.y1))
    return found


def test_every_point_is_named_and_no_two_texts_overlap(results):
    for width in ("single", "double"):
        figure = plots.correlation(results, width=width)
        for rewarder in results.rewarders:
            if not rewarder.baseline:
                assert rewarder.rewarder in texts(figure)
        found = boxes(figure)
        for i, a in enumerate(found):
            assert all(overlap(a, b) == 0 for b in found[:i])


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


def test_correlation_shows_r_with_its_interval_and_what_to_compare_with(results):
    shown = " ".join(texts(plots.correlation(results)))
    assert "8 rewarders from 2 base models" in shown
    assert "[" not in shown
    tables = synthetic_tables(num_rewarders=8, num_questions=60, num_pairs=80)
    tables.rewarders["family"] = ""
    shown = " ".join(texts(plots.correlation(analyse(tables, draws=100, permutations=100))))
    assert "r = " in shown
    assert "[" in shown
    assert "better than majority vote" in shown
    assert "worse than doing nothing (pass@1)" in shown


def test_rewarders_without_a_base_model_have_a_colour_of_their_own():
    tables = synthetic_tables(num_rewarders=8, num_questions=60, num_pairs=80)
    tables.rewarders["family"] = ["alpha"] * 4 + ["beta"] * 3 + [""]
    tables.rewarders.loc[7, "kind"] = "judge of another tool"
    figure = plots.correlation(analyse(tables, draws=100, permutations=100))
    (legend,) = figure.legends
    looks = {
        text.get_text(): (handle.get_color(), handle.get_marker())
        for text, handle in zip(legend.get_texts(), legend.legend_handles, strict=True)
    }
    colours = [looks[name][0] for name in ("alpha", "beta", "no base model named")]
    assert len(set(colours)) == 3
    kinds = [look for name, look in looks.items() if look[1] not in ("None", "")]
    assert len({marker for _, marker in kinds}) == len(kinds) == 4


def test_a_family_has_one_colour_in_all_figures_and_no_line_has_it():
    tables = synthetic_tables(num_rewarders=6, num_questions=40, num_pairs=60)
    tables.rewarders["family"] = ["beta", "alpha", "", "beta", "alpha", "beta"]
    results = analyse(tables, draws=100, permutations=100)
    scatter, curves = plots.correlation(results), plots.accuracy_at_n(results)
    names = {text.get_text(): text for text in scatter.legends[0].get_texts()}
    handles = dict(zip(names, scatter.legends[0].legend_handles, strict=True))
    scattered = {name: handles[name].get_color() for name in ("alpha", "beta")}
    (ax,) = scatter.axes
    (fit,) = (line for line in ax.lines if line.get_linewidth() == 1.4)
    assert fit.get_color() not in scattered.values()
    families = {r.rewarder: r.family for r in results.rewarders}
    ends = {b.rewarder: 100 * b.accuracy.value for b in results.best_of_n if b.headline}
    for line in (line for ax in curves.axes for line in ax.lines if line.get_marker() in "os^"):
        (y,) = line.get_ydata()
        alike = {families[r] for r, end in ends.items() if r in families and abs(end - y) < 1e-9}
        expected = {scattered.get(family, INK) for family in alike}
        assert line.get_color() in expected


def test_of_a_race_only_the_end_is_drawn(results):
    """Fewer candidates are estimated from other questions: the curve would bend at its end."""

    def curves(results: Results) -> int:
        figure = plots.accuracy_at_n(results)
        return sum(len(line.get_xdata()) > 2 for ax in figure.axes for line in ax.lines)

    rows = list(results.best_of_n)
    at = next(i for i, b in enumerate(rows) if b.headline and b.rewarder.startswith("rewarder"))
    part = {"estimated": {"questions": rows[at].num_questions // 10}}
    raced = rows[at].model_dump()
    raced["curve"] = [
        {**point, **(part if 1 < point["n"] < rows[at].n else {})} for point in raced["curve"]
    ]
    rows[at] = type(rows[at]).model_validate(raced)
    assert rows[at].raced
    assert curves(results.model_copy(update={"best_of_n": tuple(rows)})) == curves(results) - 1


def test_a_label_stands_nearest_to_its_own_point_or_has_a_line_to_it():
    names = [f"mini-critic-{n:02}" for n in range(14)]
    rng = np.random.default_rng(8)
    at = np.column_stack([rng.uniform(50, 80, 14), rng.uniform(48, 72, 14)])
    with style():
        figure = Figure(figsize=(3.25, 4))
        FigureCanvasAgg(figure)
        ax = figure.add_subplot(xlim=(20, 100), ylim=(40, 80))
        place_labels(ax, at, names)
    pixels = ax.transData.transform(at)
    starts = [tuple(line.get_xydata()[0].round(6)) for line in ax.lines]
    for text in ax.texts:
        own, box = names.index(text.get_text()), text.get_window_extent()
        nearest = np.clip(pixels, (box.x0, box.y0), (box.x1, box.y1))
        gaps = np.hypot(*(nearest - pixels).T)
        assert tuple(at[own].round(6)) in starts or gaps.argmin() == own, text.get_text()


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
    policy = results.policies[0].model_copy(
        update={"pass_at_1": Estimate(value=0.476), "majority": Estimate(value=0.542)}
    )
    correlations = (main.model_copy(update={"points": points, "num_rewarders": 14}),)
    return results.model_copy(
        update={"correlations": correlations, "rewarders": tuple(infos), "policies": (policy,)}
    )  # fmt: skip


def scattered(demo: Results, seed: int) -> Results:
    """The same rewarders at random points around a line, no two at the same place."""
    rng, (c,) = np.random.default_rng(seed), demo.correlations
    xs, ys = np.linspace(0.5, 0.9, 14), rng.normal(0, 0.05, 14)
    points = tuple(
        p.model_copy(
            update={"x": Estimate(value=x), "y": Estimate(value=0.8 * x + y), "before": ""}
        )
        for p, x, y in zip(c.points, xs, ys, strict=True)
    )
    return demo.model_copy(update={"correlations": (c.model_copy(update={"points": points}),)})


@pytest.mark.parametrize("width", ["single", 4.8])
@pytest.mark.parametrize("seed", [None, *range(6)])
def test_no_text_stands_on_a_point_and_no_line_to_a_name_passes_another(demo, seed, width):
    shown = demo if seed is None else scattered(demo, seed)
    figure = plots.correlation(shown, width=width)
    (ax,), points = figure.axes, shown.main.points
    at = ax.transData.transform([(100 * p.x.value, 100 * p.y.value) for p in points])
    radius, names = 2.75 * figure.dpi / 72, [p.rewarder for p in points]
    notes = [text for text in ax.texts if text.get_text()]
    assert {text.get_text() for text in notes} >= set(names)
    lines = [ax.transData.transform(x.get_xydata()) for x in ax.lines if x.get_linewidth() == 0.45]
    for text in notes:
        box = text.get_window_extent()
        gaps = np.hypot(*(np.clip(at, (box.x0, box.y0), (box.x1, box.y1)) - at).T)
        assert gaps.min() > radius, (text.get_text(), names[gaps.argmin()])
        if text.get_text() in names:
            own = names.index(text.get_text())
            assert gaps.argmin() == own or any(np.allclose(line[0], at[own]) for line in lines)
    for start, end in lines:
        dots = start + (end - start) * np.linspace(0, 1, 50)[:, None]
        others = at[np.hypot(*(at - start).T) > 1e-6]
        assert np.hypot(*np.moveaxis(dots[:, None] - others, -1, 0)).min() > radius


def test_the_gallery_has_the_colours_of_the_report(demo):
    buffer = io.BytesIO()
    plots.correlation(demo).savefig(buffer, format="png")
    drawn, shown = (
        Image.open(file).convert("RGB") for file in (buffer, GALLERY / "correlation.png")
    )
    colours = np.unique(np.asarray(shown).reshape(-1, 3), axis=0).astype(int)
    for x, y in ((0.98, 0.03), (0.98, 0.7)):  # better than voting, worse than doing nothing
        tint = drawn.getpixel((int(x * drawn.width), int(y * drawn.height)))
        assert len(set(tint)) > 1
        assert np.abs(colours - tint).max(1).min() <= 1


def test_curves_name_the_divergence_from_the_policy(results):
    (top,) = plots.accuracy_at_n(results).axes[0].child_axes
    shown = dict(zip(top.get_xticks(), (t.get_text() for t in top.get_xticklabels()), strict=True))
    # ln n − (n − 1)/n: Stiennon et al. 2020; Beirami et al. 2024 (an upper bound)
    assert shown == {1: "0", 2: "0.19", 4: "0.64", 8: "1.2"}


def test_figures_as_files_have_their_data_beside_them(results, tmp_path):
    written = {path.name for path in write_figures(results, tmp_path)}
    suffixes = ("pdf", "png", "svg", "csv")
    every = (*FIGURES, "verdict")
    assert written == {f"{name}.{suffix}" for name in every for suffix in suffixes}
    points = pd.read_csv(tmp_path / "correlation.csv").set_index("rewarder")
    expected = {p.rewarder: p.x.value for p in results.main.points}
    assert points["x"].to_dict() == pytest.approx(expected)
    curves = pd.read_csv(tmp_path / "accuracy_at_n.csv")
    ends = {b.rewarder: b.accuracy.value for b in results.best_of_n if b.headline and b.curve}
    last = curves[curves["n"] == curves["n"].max()].set_index("rewarder")["accuracy"]
    assert last.to_dict() == pytest.approx(ends)


def test_a_figure_shows_itself_in_a_notebook(results):
    assert plots.correlation(results)._repr_png_().startswith(b"\x89PNG")


def test_results_are_pickled_and_compared(results):
    assert pickle.loads(pickle.dumps(results)) == results
    assert results.model_copy(update={"best_of_n": results.best_of_n[1:]}) != results


def test_one_panel_a_policy(two_policies):
    figure = plots.correlation(two_policies)
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["alpha", "beta"]


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


def test_long_labels_stay_inside_a_narrow_plot():
    names = [f"Qwen2.5-VL-{n}B-Instruct-pairwise-with-thinking-step-2000" for n in range(12)]
    with style():
        figure = Figure(figsize=(3.4, 3))
        FigureCanvasAgg(figure)
        ax = figure.add_subplot(xlim=(0, 100), ylim=(0, 100))
        at = [(8.0 * n + 2, 8.0 * n + 2) for n in range(12)]
        dropped = place_labels(ax, at, names)
    frame = ax.get_window_extent()
    boxes = [text.get_window_extent() for text in ax.texts]
    assert len(boxes) + len(dropped) == 12
    assert len(boxes) >= 6
    for box in boxes:
        assert frame.x0 - 1 <= box.x0 < box.x1 <= frame.x1 + 1
        assert frame.y0 - 1 <= box.y0 < box.y1 <= frame.y1 + 1
    assert all("…" in text.get_text() for text in ax.texts)
    assert len({text.get_text() for text in ax.texts}) == len(boxes)
