"""`import bon` as a library: without a run directory, a model or Ray (the echo engine)."""

import asyncio
import sys
import textwrap
from importlib.metadata import EntryPoint

import numpy as np
import pytest
from PIL import Image

import bon
from bon.choosing.rules import RULES
from bon.engines import ENGINES
from bon.rewarders.registry import REWARDERS

COMMON = {"engine": "echo", "engine_args": {"accuracy": 1.0}}
CRITIC = {
    **COMMON,
    "name": "critic",
    "kind": "pointwise",
    "prompt": {"text": "{{ prompt }}|{{ response }}"},
    "score": {"yes": ["Yes"], "no": ["No"]},
    "engine_args": {"accuracy": 0.8, "reply": "{choice}"},
}
JUDGE = {
    **COMMON,
    "name": "judge",
    "kind": "pairwise",
    "prompt": {"text": "{{ prompt }}|{{ first }}|{{ second }}"},
    "verdict": {"pattern": r"Overall Judgment: Answer (\d) is better"},
    "engine_args": {"accuracy": 0.9, "reply": "Overall Judgment: Answer {choice} is better"},
}
POLICY = {**COMMON, "name": "policy", "prompt": "bare", "n": 4}
ANSWERS = ["It is A.", "It is B.", "Answer: B"]


def install(monkeypatch, registry, **points):
    """Add parts as an installed package's entry points do."""
    found = {name: EntryPoint(name, value, registry.group) for name, value in points.items()}
    monkeypatch.setitem(vars(registry), "_installed", found)
    monkeypatch.setitem(vars(registry), "_added", {})


class Shortest(bon.Rewarder):
    """Prefers the shorter answer."""

    arity = "one"

    async def judge(self, item, shown, seeds):
        """Its length, negated."""
        return [bon.Verdict("scored", score=-float(len(item.responses[shown[0]])))] * len(seeds)


@pytest.fixture(autouse=True)
def _free():
    yield
    bon.close()


def test_what_there_is_to_see():
    assert {"score", "rank", "best_of_n", "correlate", "run", "demo", "load"} <= set(dir(bon))
    assert all(callable(getattr(bon, name)) for name in bon.__all__)
    assert bon.score.__name__ == "score"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = bon.nothing


def test_scores_of_every_kind():
    assert bon.score(Shortest, "Why?", ["aaa", "b"]) == [-3.0, -1.0]
    probabilities = bon.score(CRITIC, "Why?", ANSWERS)
    assert all(0 <= value <= 1 for value in probabilities)
    shares = bon.score(JUDGE, "Why?", ANSWERS)
    assert sum(shares) == pytest.approx(1.5)  # three comparisons, each shared by two
    assert bon.score(JUDGE, "Why?", ANSWERS) == shares


def test_equal_texts_tie():
    found = bon.rank(Shortest, "Why?", ["same", "other one", "same"])
    assert found.scores == (-4.0, -9.0, -4.0)
    assert found.probabilities == (0.5, 0.0, 0.5)
    first, _, again = bon.score(JUDGE, "Why?", ["same", "other one", "same"])
    assert first == again


def test_a_ranking_names_its_rule():
    found = bon.rank(Shortest, "Why?", ["aaa", "b", "cc"])
    assert found.order == (1, 2, 0)
    assert found.best == 1
    assert found.rule == "best_score"
    assert sum(found.probabilities) == pytest.approx(1)


def test_rules_that_a_kind_does_not_know_are_refused():
    with pytest.raises(bon.BonError, match="cannot be used under the rule 'copeland'"):
        bon.rank(Shortest, "Why?", ANSWERS, rule="copeland")
    with pytest.raises(bon.BonError, match="scale="):
        bon.rank(Shortest, "Why?", ANSWERS, options=["x", "y"], rule="weighted_vote")
    voted = bon.rank(Shortest, "Why?", ANSWERS, options=["x", "y"], rule="weighted_vote", scale=1e9)
    assert voted.probabilities[0] == 0  # two voices for B, one for A


def test_the_best_of_four(tmp_path):
    picture = Image.new("RGB", (8, 8), "red")
    picture.save(tmp_path / "red.png")
    options = ["red", "green", "blue"]
    one = bon.best_of_n(POLICY, JUDGE, "Which colour?", images=[picture], options=options)
    assert len(one.candidates) == 4
    assert one.text == one.candidates[one.ranking.best].text
    assert one.letter in "ABC"
    path = tmp_path / "red.png"
    data = path.read_bytes()
    same = [
        bon.best_of_n(POLICY, JUDGE, "Which colour?", images=[image], options=options, n=2)
        for image in (path, str(path), data)
    ]
    assert len({best.text for best in same}) == 1
    open_ended = bon.best_of_n(POLICY, Shortest, "Say a colour.", n=3)
    assert open_ended.letter is None


def test_in_a_loop_that_runs_already():
    async def both():
        there = await bon.ascore(JUDGE, "Why?", ANSWERS)
        return there, bon.score(JUDGE, "Why?", ANSWERS)

    one, two = asyncio.run(both())
    assert one == two


def test_mistakes_are_one_line():
    for call, says in (
        (lambda: bon.score("no-such-card", "Why?", ANSWERS), "no rewarder card 'no-such-card'"),
        (lambda: bon.rank(JUDGE, "Why?", []), "no answers to rank"),
        (lambda: bon.score(Shortest, "Why?", ["a"], images=["gone.png"]), "gone.png"),
        (lambda: bon.score(Shortest, "Why?", ["a"], images=[b"nothing"]), "image"),
        (lambda: bon.score(Shortest, "Why?", ["a"], options=["x"] * 40), "1 to 26 options"),
        (lambda: bon.register(3), "neither a Rewarder class nor a Rule nor an Adapter"),
    ):
        with pytest.raises(bon.BonError, match=says) as error:
            call()
        assert "\n" not in str(error.value)


def test_a_table_of_numbers():
    table = {
        "rewarder": list("abcdefgh"),
        "macro": [50, 55, 60, 62, 66, 70, 71, 80],
        "best_of_n": [40, 41, 45, 44, 47, 46, 50, 52],
    }
    (row,) = [r for r in bon.correlate(table).correlations if r.primary]
    expected = np.corrcoef(table["macro"], table["best_of_n"])[0, 1]
    assert row.pearson.estimate.value == pytest.approx(expected)


def test_parts_of_an_installed_package(tmp_path, monkeypatch):
    """Entry points: found without being imported, imported when they are named."""
    (tmp_path / "their_parts.py").write_text(
        textwrap.dedent(
            """
            import bon

            class Longest(bon.Rewarder):
                arity = "one"

                async def judge(self, item, shown, seeds):
                    score = float(len(item.responses[shown[0]]))
                    return [bon.Verdict("scored", score=score)] * len(seeds)
            """
        )
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    install(monkeypatch, REWARDERS, longest="their_parts:Longest", broken="their_parts:Nothing")
    assert REWARDERS.added == ["longest", "broken"]
    assert "their_parts" not in sys.modules
    card = {"name": "theirs", "kind": "python", "python": "longest", "engine": "none"}
    assert bon.score(card, "Why?", ["aaa", "b"]) == [3.0, 1.0]
    with pytest.raises(bon.BonError, match="cannot be imported"):
        bon.score({**card, "python": "broken"}, "Why?", ["aaa"])
    with pytest.raises(bon.BonError, match="is not a rewarder"):
        bon.score({**card, "python": "unheard-of"}, "Why?", ["aaa"])


def test_an_engine_of_an_installed_package(tmp_path, monkeypatch):
    (tmp_path / "their_engine.py").write_text(
        textwrap.dedent(
            """
            from bon.engines import EngineEntry
            from bon.engines.base import Engine, Reward
            from bon.engines.fields import EngineSettings, setting

            class LengthSettings(EngineSettings):
                factor: float = setting(1.0, "what a character is worth", shapes=True)

            class LengthEngine(Engine):
                name = "length"
                settings = LengthSettings

                def __init__(self, settings):
                    self._factor = settings.factor

                async def reward(self, request):
                    return Reward(self._factor * len(request.messages[-1].parts[0]), 1)

            ENTRY = EngineEntry(path="their_engine:LengthEngine", settings=LengthSettings)
            """
        )
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    install(monkeypatch, ENGINES, length="their_engine:ENTRY")
    card = {"name": "theirs", "kind": "scalar", "engine": "length"}
    assert bon.score({**card, "engine_args": {"factor": 2.0}}, "Why?", ["aaa", "b"]) == [6.0, 2.0]
    with pytest.raises(bon.BonError, match="unknown key 'facto'"):
        bon.score({**card, "engine_args": {"facto": 2.0}}, "Why?", ["aaa"])
    with pytest.raises(bon.BonError, match=r"no engine 'lenght' -> did you mean 'length'\?"):
        bon.score({**card, "engine": "lenght"}, "Why?", ["aaa"])


def test_a_rule_of_ones_own_chooses_and_may_be_registered_again():
    def worst(said):
        chosen = np.zeros(said.scores.shape)
        np.put_along_axis(chosen, said.scores.argmin(axis=1)[:, None], 1.0, axis=1)
        return chosen

    own = bon.Rule("worst", ("scores",), "lowest score", worst)
    try:
        bon.register(bon.register(own))
        assert bon.rank(Shortest, "Why?", ["aaa", "b", "cc"], rule="worst").best == 0
        with pytest.raises(bon.BonError, match="a selection rule 'best_score' already"):
            bon.register(bon.Rule("best_score", ("scores",), "mine", worst))
    finally:
        RULES._added.clear()
