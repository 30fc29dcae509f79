"""Published figures come out, and bad tables give one clear line."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import stats

from bon.analysis.estimators import resampling
from bon.analysis.published import correlate_table
from bon.analysis.published_tables import flags, read_csv
from bon.analysis.results import Options
from bon.core.errors import BonError

SHARED = Path(__file__).parents[2] / ".." / "shared" / "data" / "published"
needs_data = pytest.mark.skipif(not SHARED.exists(), reason="needs ../shared/data/published")
FAST = Options(draws=500)

POLICIES = ("Qwen2-VL-7B", "LLaVA-OneVision-7B")


@pytest.fixture(scope="module")
def figure():
    """The published table, with judges taken as independent."""
    frame = read_csv(SHARED / "vl_rewardbench_bon_figure.csv")
    return correlate_table(frame.assign(family=frame["judge"]), options=Options(draws=4000))


@needs_data
def test_the_base_models_of_the_published_figure_are_guessed():
    path = SHARED / "vl_rewardbench_bon_figure.csv"
    finding = correlate_table(path, options=Options(draws=100)).finding
    assert any(
        caveat.startswith("Base models are guessed from names") for caveat in finding.caveats
    )


@needs_data
@pytest.mark.parametrize(
    ("axis", "policy", "r", "p", "without"),
    [
        ("x_as_plotted", 0, 0.946, 0.004, 0.82),
        ("x_as_plotted", 1, 0.914, 0.011, 0.67),
        ("macro", 0, 0.951, 0.0035, 0.83),
        ("macro", 1, 0.919, 0.0096, 0.60),
    ],
)
def test_the_published_figure(figure, axis, policy, r, p, without):
    """The file rounds the digitised heights to a tenth, so r is right to two digits."""
    found = next(c for c in figure.correlations if (c.axis, c.policy) == (axis, POLICIES[policy]))
    assert found.num_rewarders == 6
    assert found.pearson.estimate.value == pytest.approx(r, abs=0.003)
    x, y = ([getattr(point, a).value for point in found.points] for a in "xy")
    assert stats.pearsonr(x, y)[1] == pytest.approx(p, abs=0.001)
    others = np.array([p.rewarder != "GPT-4o" for p in found.points])
    left = resampling.pearson_among(np.array(x), np.array(y), others[None])
    assert left[0] == pytest.approx(without, abs=0.01)


@needs_data
def test_its_intervals_ranks_and_lines(figure):
    first, second = (
        next(c for c in figure.correlations if (c.axis, c.policy) == ("macro", p)) for p in POLICIES
    )
    assert first.spearman.estimate.value == pytest.approx(0.943, abs=0.001)
    assert second.spearman.estimate.value == pytest.approx(0.543, abs=0.001)
    assert first.fit.slope.value == pytest.approx(0.276, abs=0.002)
    assert "Fisher" in first.pearson.read
    assert figure.finding.verdict == "perhaps"
    assert any("Without GPT-4o" in caveat for caveat in figure.finding.caveats)
    assert {(r.policy, r.name): r.accuracy for r in figure.references}[
        POLICIES[1], "majority vote"
    ] == pytest.approx(0.375)


@needs_data
def test_the_mixed_axis_is_flagged_from_the_data(figure):
    (flag,) = figure.flags
    assert flag.kind == "mixed axis"
    assert flag.rows == ("Phi-3.5-Vision",)
    assert "x_as_plotted" in flag.sentence


@needs_data
def test_overall_scores_that_do_not_follow_from_the_groups_are_flagged():
    (flag,) = flags(read_csv(SHARED / "vl_rewardbench_table2.csv"))
    assert flag.kind == "overall"
    assert len(flag.rows) == 8
    assert "28.2% stated, 31.9% implied" in flag.sentence


def table(**changes) -> pd.DataFrame:
    columns = {
        "judge": ["a", "b", "c", "d"],
        "macro": [40.0, 50.0, 60.0, 70.0],
        "best_of_n": [41.0, 42.0, 44.0, 47.0],
    }
    return pd.DataFrame({**columns, **changes})


def test_fractions_and_percent_give_the_same():
    percent = correlate_table(table(), options=FAST)
    fraction = correlate_table(
        table(macro=[0.4, 0.5, 0.6, 0.7], best_of_n=[0.41, 0.42, 0.44, 0.47]), options=FAST
    )
    assert set(percent.units.values()) == {"percent"}
    assert set(fraction.units.values()) == {"fraction"}
    a, b = percent.correlations[0], fraction.correlations[0]
    assert a.pearson.estimate.value == pytest.approx(b.pearson.estimate.value)
    assert a.points[0].y.value == pytest.approx(0.41)


def test_extra_columns_are_used():
    frame = table(size=[1e9, 2e9, 4e9, 3e9], family=["f", "f", "g", "g"])
    found = correlate_table(frame, options=FAST)
    assert found.correlations[0].points[3].family == "g"
    assert "null" not in found.finding.sentence


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (table(macro=[40.0, None, None, 70.0]), "2 rewarders for the policy"),
        (table().head(2), "2 rewarders"),
        (table(macro=[50.0] * 4), "same value in column 'macro'"),
        (table(best_of_n=[41.0] * 4), "same value in column 'best_of_n'"),
        (table(macro=[40.0, 0.5, 60.0, 70.0]), "column 'macro' holds fractions while others"),
        (table(judge=["a", "b", "b", "d"]), "'b' occurs twice"),
        (table(macro=["40", "50", "6O", "70"]), "column 'macro' holds '6O' in the row of 'c'"),
        (table(macro=["x", "y", "z", "w"]), "no column with a benchmark score"),
        (table().rename(columns={"best_of_n": "score"}), "no column with the Best-of-N accuracy"),
        (table()[["macro", "best_of_n"]], "no column with the names"),
        (table().drop(columns="macro"), "no column with a benchmark score"),
    ],
)
def test_bad_tables_give_one_clear_line(frame, says):
    with pytest.raises(BonError) as caught:
        correlate_table(frame, options=FAST)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [("", "holds no rows"), ("judge,macro\n", "holds no rows"), ("a,b\n1,2,3\n4\n", "not a table")],
)
def test_bad_files(tmp_path, text, says):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(BonError, match=says):
        read_csv(path)
    with pytest.raises(BonError, match="no file"):
        read_csv(tmp_path / "nothing.csv")


LATEX = r"""\begin{table}[t] \caption{Judges}
\begin{tabular}{l|ccc|c}
\toprule
\multirow{2}{*}{\textbf{Method}} & \multicolumn{3}{c|}{\textbf{VL-RB}} & MMMU \\
\cmidrule(lr){2-4} & General & Halluc. & Overall & (BoN@8) \\
\midrule
\multicolumn{5}{c}{\textit{Proprietary}} \\
GPT-4o~\cite{gpt4o} & 49.1 & 67.6 & \underline{65.8} & 55.2$_{\pm 0.4}$ \\[2pt] % 2024
Claude \& co & 43.4 & 55.0 & 55.3 & 53.0$_{\pm 0.4}$ \\
\midrule
\rowcolor{gray!20} Qwen2-VL$^\dagger$ & 31.6 & 19.1 & 28.3 & \textbf{47.4}$_{\pm 0.4}$ \\
LLaVA-OV & 32.2 & -- & 29.6 & 48.1$_{\pm 0.4}$ \\
\bottomrule
\end{tabular}
\end{table}"""

MARKDOWN = """Our board, of *May*:

|              | General | Halluc. | **Overall** | MMMU (BoN@8) |
|:-------------|--------:|--------:|------------:|:------------:|
| GPT-4o       | 49.1    | 67.6    | 65.8        | 55.2 ± 0.4   |
| Claude & co  | 43.4    | 55.0    | 55.3        | 53.0 ± 0.4   |
| `Qwen2-VL`   | 31.6    | 19.1    | 28.3        | **47.4** ± 0.4 |
| LLaVA-OV     | 32.2    | –       | 29.6        | 48.1 ± 0.4   |

More in the [appendix](a.md)."""


@pytest.mark.parametrize(("name", "text"), [("paper.tex", LATEX), ("README.md", MARKDOWN)])
def test_tables_of_papers_and_readmes(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    found = correlate_table(tmp_path / name, options=FAST)
    shown = {(c.axis.removeprefix("VL-RB "), c.num_rewarders) for c in found.correlations}
    assert shown == {("Overall", 4), ("General", 4), ("Halluc.", 3)}
    overall = next(c for c in found.correlations if c.axis.endswith("Overall"))
    assert [p.rewarder for p in overall.points] == ["GPT-4o", "Claude & co", "Qwen2-VL", "LLaVA-OV"]
    assert [p.x.value for p in overall.points] == pytest.approx([0.658, 0.553, 0.283, 0.296])
    assert [p.y.value for p in overall.points] == pytest.approx([0.552, 0.53, 0.474, 0.481])
    assert all(p.y.low is not None for p in overall.points)


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        (r"\begin{tabular}[t]{@{}l*{2}{c}>{\columncolor[gray]{.9}}c@{}} \hline\hline Method &", ""),
        (r"\begin{tabularx}{\textwidth}{lccc}\toprule Method &", "x"),
        (r"\begin{tabular*}{.9\linewidth}{lccc}\toprule Method &", "*"),
    ],
)
def test_tables_of_other_kinds_and_old_styles(tmp_path, begin, end):
    cells = r"VL-RB & BoN@8 & N \\ \hline {\bf A} & \best{70.9} & {\bf 55} & 1\\ "
    cells += r"B & 61 & \textcolor{red}{50.1} & 2\tabularnewline C\footnote{x} & 60 & 49 & 3\\"
    (tmp_path / "t.tex").write_text(f"{begin} {cells} \\end{{tabular{end}}}")
    frame = read_csv(tmp_path / "t.tex")
    assert list(frame["Method"]) == ["A", "B", "C"]
    assert list(frame["VL-RB"]) == [70.9, 61, 60]
    assert list(frame["BoN@8"]) == [55, 50.1, 49]


def test_of_several_tables_none_is_chosen(tmp_path):
    for name, text in (("two.tex", LATEX + LATEX), ("two.md", MARKDOWN + "\n\n" + MARKDOWN)):
        (tmp_path / name).write_text(text)
        with pytest.raises(BonError, match=r"2 tables, which begin with: .* -> copy the one meant"):
            read_csv(tmp_path / name)


@pytest.mark.parametrize("cell", ["47_{0.4}", "47$^{2}$", "47 {0.4}", "47.1^1", r"47\std{0.4}"])
def test_two_numbers_of_a_cell_are_not_one(tmp_path, cell):
    """As a CSV file, and as LaTeX, whose styles are removed before."""
    rows = [["judge", "macro", "bon"], ["a", "60", "50"], ["b", cell, "51"], ["c", "70", "52"]]
    body = r" \\ ".join(" & ".join(row) for row in rows)
    texts = ["\n".join(map(",".join, rows)), rf"\begin{{tabular}}{{lll}} {body} \end{{tabular}}"]
    for text in texts:
        (tmp_path / "t.csv").write_text(text)
        with pytest.raises(BonError, match="in the row of 'b', which is not a number"):
            correlate_table(tmp_path / "t.csv", options=FAST)


@pytest.mark.parametrize("kind", ["json", "jsonl", "parquet", "xlsx"])
def test_files_of_rows(tmp_path, kind):
    path, frame = tmp_path / f"t.{kind}", table()
    match kind:
        case "parquet":
            frame.to_parquet(path)
        case "xlsx":
            frame.to_excel(path, index=False)
        case _:
            frame.to_json(path, orient="records", lines=kind == "jsonl")
    a, b = (correlate_table(source, options=FAST).correlations[0] for source in (path, frame))
    assert (a.pearson, a.points) == (b.pearson, b.points)
    path.write_text("[1")
    with pytest.raises(BonError, match=f"t.{kind} is not a table: .* -> save it as CSV"):
        read_csv(path)
    with pytest.raises(BonError, match="no file"):
        read_csv(tmp_path / f"nothing.{kind}")


def test_a_table_begins_with_the_names_of_its_rewarders():
    found = correlate_table(table().rename(columns={"judge": "Verifier"}), options=FAST)
    assert [p.rewarder for p in found.correlations[0].points] == list("abcd")


def test_three_rewarders_say_that_nothing_can_be_told():
    found = correlate_table(table().head(3), options=FAST)
    assert found.finding.verdict == "cannot tell"
    assert found.correlations[0].pearson.estimate.low is None
    assert "NaN" not in found.model_dump_json()


@pytest.fixture
def printed(tmp_path):
    """A table as a paper prints it: two benchmarks, three outcomes, a note, and gaps."""
    path = tmp_path / "paper.csv"
    path.write_text(
        "Model,Maker,Family,Own,BenchA,BenchA 1,BenchA 2,MRR,"
        "Best-of-8,Best-of-8 MATH,PPO,Arena,Why\n"
        "a,L,f1,yes,51.0%,50,52,0.31,44.0,80.1,1,-12.5,first\n"
        "b,L,f2,yes,55.0%,55,55,0.35,45.5,80.9,–,-3.0,\n"
        "c,M,f3,,60.0%,58,62,0.30,46.0,81.0,2,0.5,\n"
        "d,M,f4,,63.0%,66,60,0.41,47.5,82.4,3,n/a,\n"
        "e,N,f5,,70.0%,69,71,0.44,49.0,83.0,5,21.0,\n"
        "f,N,f6,,72.0%,75,69,,50.0,83.3,4,30.5,last\n"
    )
    return path


def test_a_printed_table_has_a_verdict_per_pair_of_columns(printed):
    report = correlate_table(printed, FAST, outcomes=["Best-of-8", "PPO", "Arena"])
    pairs = {(c.axis, c.outcome): c.num_rewarders for c in report.correlations}
    assert next(iter(pairs)) == ("BenchA", "Best-of-8")
    benchmarks = {"BenchA", "BenchA 1", "BenchA 2", "MRR"}
    assert {x for x, _ in pairs} == benchmarks, "another Best-of-8 column is no benchmark"
    assert pairs["BenchA", "Best-of-8"] == 6
    assert pairs["MRR", "PPO"] == 4, "rows drop out per pair"
    assert pairs["BenchA", "Arena"] == 5
    assert report.units["MRR"] == "fraction"
    assert report.units["Arena"] == "scale"
    assert {(v.axis, v.outcome) for v in report.verdicts} == {
        pair for pair, n in pairs.items() if n >= 5
    }
    assert "BenchA predicts Best-of-8" in report.finding.sentence
    assert "6 rewarders" in report.finding.sentence
    assert any("BenchA_n" in line for line in report.finding.would_change)
    own = {(c.x, c.method): c.num_rewarders for c in report.without_own}
    assert own["BenchA", "Best-of-8"] == 4
    assert len(report.agreement) == 3


def test_a_policy_of_two_rewarders_is_left_out():
    frame = pd.concat([table(policy="one"), table(policy="two").head(2)])
    report = correlate_table(frame, FAST)
    assert [c.policy for c in report.correlations] == ["one"]
    assert any("macro and best_of_n for two" in warning for warning in report.warnings)


def test_outcomes_are_known_by_name_or_declared(printed):
    known = correlate_table(printed, FAST)
    assert {c.outcome for c in known.correlations} == {"Best-of-8", "Best-of-8 MATH", "PPO"}
    text = printed.read_text().replace("Arena", "outcome: Arena")
    printed.write_text(text)
    declared = correlate_table(printed, FAST)
    assert {c.outcome for c in declared.correlations} == {"Arena"}
    assert "PPO" not in {c.axis for c in declared.correlations}
    chosen = correlate_table(printed, FAST, outcomes=["PPO"], benchmarks=["Best-of-8"])
    assert ("Best-of-8", "PPO") in {(c.axis, c.outcome) for c in chosen.correlations}
    with pytest.raises(BonError, match="no column 'DPO'"):
        correlate_table(printed, FAST, outcomes=["DPO"])


@pytest.mark.parametrize("suffix", ["n", "se"])
def test_counts_or_standard_errors_let_a_verdict_say_no(suffix):
    rng = np.random.default_rng(1)
    x, y = rng.uniform(40, 80, 40), rng.uniform(40, 80, 40)
    frame = pd.DataFrame({"judge": [f"m{i}" for i in range(40)], "score": x, "best_of_8": y})
    frame["family"] = frame["judge"]
    (without,) = correlate_table(frame, FAST).verdicts
    assert without.p_low is None
    value = 2000 if suffix == "n" else 1.1
    given = frame.assign(**{f"score_{suffix}": value, f"best_of_8_{suffix}": value})
    (verdict,) = correlate_table(given, FAST).verdicts
    assert verdict.word == "no"
    assert verdict.reliability_x == pytest.approx(0.99, abs=0.02)
    assert verdict.points[0].x.low < verdict.points[0].x.value


ERRORS = (1.5, 2.0, 2.5, 3.0, 1.0, 2.0)
SHAPES = {
    "plus-minus": "{v} ± {e}",
    "close": "{v}±{e}",
    "parentheses": "{v} ({e})",
    "percent": "{v} ± {e}%",
    "both percent": "{v}% ± {e}%",
    "thin spaces": "{v}\u2009±\u202f{e}",
    "ascii": "{v} +/- {e}",
    "latex": r"$\textbf{{{v}}}_{{\pm {e}}}$",
    "marks": "**{v}**†  ({e})*",
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_cell_with_its_error_is_that_column_with_a_column_of_errors(tmp_path, shape):
    x, y = (51.5, 55, 60, 63, 70, 72), (44, 45.5, 46, 47.5, 49, 50)
    lines = ["judge,family,score,best_of_8", *(
        f"m{i},f{i},{shape.format(v=x[i], e=ERRORS[i])},{shape.format(v=y[i], e=ERRORS[i])}"
        for i in range(6)
    )]  # fmt: skip
    path = tmp_path / "paper.csv"
    path.write_text("\n".join(lines))
    found = correlate_table(path, FAST)
    frame = {"judge": [f"m{i}" for i in range(6)], "family": [f"f{i}" for i in range(6)]}
    beside = correlate_table(
        pd.DataFrame(
            frame | {"score": x, "score_se": ERRORS, "best_of_8": y, "best_of_8_se": ERRORS}
        ),
        FAST,
    )
    assert found.correlations == beside.correlations
    assert found.verdicts == beside.verdicts
    assert found.verdicts[0].reliability_x is not None
    assert found.correlations[0].points[0].x.low == pytest.approx(0.515 - 1.96 * 0.015, abs=1e-4)
    assert not any("score_se" in line for line in found.finding.would_change)


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("60.1†", 0.601), ("60.1*", 0.601), ("60.1^\\dagger", 0.601), ("**60.1**", 0.601),
        ("\u200960.1\u202f%", 0.601), ("60,1", 0.601), ("+60.1", 0.601), ("60.1$^{*}$", 0.601),
        ("\u2013", None), ("n/a", None), ("", None),
    ],
)  # fmt: skip
def test_a_cell_may_have_marks_and_strange_spaces(cell, value):
    found = correlate_table(
        table(macro=[40, 50, cell, 70], best_of_n=["41", "42", "44", "47"]), FAST
    )
    points = {p.rewarder: p.x.value for p in found.correlations[0].points}
    assert points.get("c") == (None if value is None else pytest.approx(value))


@pytest.mark.parametrize("minus", ["-", "−", "\u2013", "\u2010", "\u2011", "－"])
def test_every_minus_is_one(minus):
    cells = [f"{minus}12.5", f"{minus} 3.0", "0.5", "21"]
    found = correlate_table(table(macro=cells), FAST)
    assert [p.x.value for p in found.correlations[0].points] == [-12.5, -3.0, 0.5, 21]


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["983", "1,178", "1,203.5", "2,000"], [983, 1178, 1203.5, 2000]),  # Elo ratings
        (["1,178 ± 9", "1,203 ± 8", "983 ± 11", "990 ± 10"], [1178, 1203, 983, 990]),
        (["11,5", "12,125", "13", "14,25"], [0.115, 0.12125, 0.13, 0.1425]),
        (["0,834", "0,701", "0,655", "0,900"], [0.834, 0.701, 0.655, 0.9]),
    ],
)
def test_a_comma_separates_thousands_or_decimals_of_a_whole_column(cells, values):
    found = correlate_table(table(macro=cells), FAST).correlations[0].points
    assert [point.x.value for point in found] == pytest.approx(values)


@pytest.mark.parametrize(
    "cell", ["60.1 (+1.2)", "60.1 [58.0, 62.3]", "60.1 (58.0–62.3)", "60.1 ± ", "60.1 ± 1.2 ± 3"]
)
@pytest.mark.parametrize("many", [1, 4])
def test_a_cell_that_holds_more_than_its_error_is_refused(cell, many):
    """Also where every cell is so: the column is no note."""
    cells = [cell] * many + [40, 50, 60, 70][many:]
    with pytest.raises(BonError, match=r"which is not a number -> .*macro_se"):
        correlate_table(table(macro=cells, other=[1.0, 2, 3, 5]), FAST)


def test_errors_of_another_kind_have_a_column_that_counts_instead():
    cells = ["40 ± 10", "50 ± 10", "60 ± 10", "70 ± 10"]
    said = table(macro=cells, macro_se=[1.0, 1.0, 1.0, None])
    points = correlate_table(said, FAST).correlations[0].points
    assert points[0].x.low == pytest.approx(0.4 - 1.96 * 0.01, abs=1e-4)
    assert points[3].x.low is None, "unknown, not 10"
    notes = table(params=["7B", "47 (13 active)", "8 (MoE)", "9"], open=[True, False, True, True])
    assert {c.axis for c in correlate_table(notes, FAST).correlations} == {"macro"}


FIRST_CONTACT = {
    "merged header": (
        "Model,VL-RB,,MMMU-Pro\n,General,Overall,BoN@8\na,1,40,41\nb,2,50,42.5\nc,4,60,44\nd,9,71,47",
        {"VL-RB General", "VL-RB Overall"}, {"MMMU-Pro BoN@8"},
    ),
    "links and arrows": (
        "| | VL-RB ↑ | PPO↑ |\n|-|-|-|\n| [a](https://a.b/c) | **40**<sub>±1</sub> | 41 |\n"
        "| b | 50 | 42.5 |\n"
        "| c | 60 | 44 |\n| d | 71 | 47 |\n",
        {"VL-RB"}, {"PPO"},
    ),
    "no outer bars": (
        "RM | VL-RB | Best@8\n-- | -: | --\na | 40 | 41\nb | 50 | 42.5\nc | 60 | 44\nd | 71 | 47",
        {"VL-RB"}, {"Best@8"},
    ),
    "ranks": (
        "Rank,Model,VL-RB,VL-RB rank,BoN@8,BoN@8 rank\n2,a,40,4,41,4\n1,b,50,3,42.5,3\n"
        "4,c,60,2,44,2\n3,d,71,1,47,1",
        {"VL-RB"}, {"BoN@8"},
    ),
    "an index and sizes": (
        ",model,# Params (B),Release year,VL-RB,Best@8\n0,a,7,2024,40,41\n1,b,,2024,50,42.5\n"
        "2,c,8,2025,60,44\n3,d,72,2023,71,47",
        {"VL-RB"}, {"Best@8"},
    ),
    "a version in a name": ("RM,RewardBench 2.0,BoN@8\na,40,41\nb,50,42.5\nc,60,44\nd,71,47",
                            {"RewardBench 2.0"}, {"BoN@8"}),
    "rows of no rewarder": (
        "judge,VL-RB,BoN@8\nRandom guess,50,40\na,40,41\nb,50,42.5\nc,60,44\nd,71,47\n"
        "Human performance,95,90\nMajority voting†,50,43\nAverage,55.2,43.6\nΔ best − worst,31,6",
        {"VL-RB"}, {"BoN@8"},
    ),
    "blank policies": (
        "policy,judge,VL-RB,BoN@8\np,a,40,41\n,b,50,42.5\n,c,60,44\n,d,71,47\n"
        "q,a,40,51\n,b,50,52\n,c,60,54\n,d,71,57",
        {"VL-RB"}, {"BoN@8"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", FIRST_CONTACT)
def test_tables_as_strangers_bring_them(tmp_path, kind):
    text, benchmarks, outcomes = FIRST_CONTACT[kind]
    path = tmp_path / "table"
    path.write_text(text, encoding="utf-8")
    found = correlate_table(path, FAST)
    assert {c.axis for c in found.correlations} == benchmarks
    assert {c.outcome for c in found.correlations} == outcomes
    assert len({c.policy for c in found.correlations}) == 1 + ("policy" in text)
    for c in found.correlations[-1:]:
        assert [p.rewarder for p in c.points] == list("abcd")
        assert [p.x.value for p in c.points] == pytest.approx([0.4, 0.5, 0.6, 0.71])
    said = any("not as rewarders: Random guess" in warning for warning in found.warnings)
    assert said == (kind == "rows of no rewarder") == bool(found.references)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("judge,m,bon\na,40 (3),1\nb,50 (2),2\nc,60 (1),4", "holds ranks beside its numbers"),
        ("judge,m,all,bon\na,40.5/2,40,1\nb,50.1/3,50,2\nc,60.2/1,60,4", "which is not a number"),
        ("judge,m,bon,ppo\na,40,1,4 ↑1\nb,50,2,5 ↑2\nc,60,4,6 ↑3", "which is not a number"),
        ("judge  m  bon\na  40  1\nb  50  2\nc  60  4", "holds a single column"),
        ("|judge|m|bon|\n|-|-|-|\n|a|40<sup>1</sup>|1|\n|b|50|2|\n|c|60|4|", "is not a number"),
        ("policy,judge,m,bon\n,a,40,1\n,b,50,2\np,c,60,4", "row 1 has no name in column 'policy'"),
    ],
)
def test_what_cannot_be_read_for_certain_is_refused(tmp_path, text, says):
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    with pytest.raises(BonError, match=says):
        correlate_table(tmp_path / "t.csv", FAST)


STUDIES = sorted((Path(__file__).parents[2] / "examples" / "published").glob("*.yaml"))


@pytest.mark.parametrize("description", STUDIES, ids=lambda path: path.stem)
def test_every_published_study_says_where_it_is_from_and_is_read(description):
    study = yaml.safe_load(description.read_text())
    assert {"title", "table", "licence", "outcomes", "own", "checked"} <= set(study)
    assert study.keys() & {"paper", "repository"}
    report = correlate_table(description.with_suffix(".csv"), FAST)
    assert all(c.num_rewarders >= 3 for c in report.correlations)
    own = study["own"] not in ("none", "not stated")
    assert own == bool(report.without_own)


def test_ratings_have_no_points_of_a_percent():
    """Their gap is a standard deviation, so that their unit changes nothing."""
    ratings = np.array([1178, 983, 1203, 1099, 1250, 1010, 1150, 1066])
    y = [50.2, 45.1, 51.0, 47.7, 53.3, 46.0, 48.0, 48.9]
    names = [f"m{i}" for i in range(8)]
    one, other, share = (
        correlate_table(pd.DataFrame({"judge": names, "score": x, "best_of_8": y}), FAST)
        for x in (ratings, ratings * 10, ratings / 2000)
    )
    assert "of two a standard deviation apart the higher one picks better" in one.finding.sentence
    assert one.verdicts[0].beats == pytest.approx(other.verdicts[0].beats)
    assert one.verdicts[0].beats > 0.7
    assert "of two 5 points apart" in share.finding.sentence
