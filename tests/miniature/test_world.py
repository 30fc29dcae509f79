"""Scenes and questions: drawing, right answers, wrong candidates, splits."""

import subprocess
import sys

import numpy as np
import pytest

from bon.miniature.scene import pixels, render, tiles
from tools.miniature.rng import Rng
from tools.miniature.world import (
    LETTERS,
    SPLITS,
    SUBJECTS,
    draw,
    kind_name,
    make,
    query,
    random_scene,
    split_of,
    wrong_response,
)


def test_the_data_side_imports_neither_torch_nor_transformers() -> None:
    code = (
        "import sys, bon.miniature.data;"
        "assert not {'torch', 'transformers', 'tokenizers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_scene_is_drawn_cell_by_cell() -> None:
    scene = random_scene(Rng("scene"), "dev")
    image = render(scene)
    assert image.size == (112, 112)
    assert image.mode == "RGB"
    board = np.asarray(image)
    for cell in range(16):
        row, column = divmod(cell, 4)
        drawn = board[28 * row : 28 * row + 28, 28 * column : 28 * column + 28]
        kind, variant = scene.kinds[cell], scene.variants[cell]
        assert (drawn == tiles()[cell, kind, variant]).all()
    assert (pixels([scene, scene])[1] == board).all()


def test_colours_are_what_they_are_called() -> None:
    strongest = {"red": 0, "green": 1, "blue": 2}
    for kind in range(1, 17):
        colour = kind_name(kind).split()[0]
        middle = tiles()[5, kind, 0, 13:17, 13:17].mean((0, 1))
        if colour in strongest:
            assert middle.argmax() == strongest[colour]
        else:
            assert middle[0] > 150
            assert middle[1] > 150
            assert middle[2] < 120


def test_every_board_has_one_split() -> None:
    rng = Rng("splits")
    boards = {split: {random_scene(rng, split).kinds for _ in range(200)} for split in SPLITS}
    for split, kinds in boards.items():
        assert all(split_of(k) == split for k in kinds)
    assert len(set.union(*boards.values())) == sum(map(len, boards.values()))


def test_the_same_seed_asks_the_same_question() -> None:
    assert make(7, "downstream") == make(7, "downstream")
    assert make(7, "downstream") != make(8, "downstream")
    # A changed stream would silently move every committed seed to another question.
    assert query(make(7, "downstream", "Difference")).startswith("<image 1> How many more ")
    assert Rng("x").below(1000) == Rng("x").below(1000)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_questions_are_answered_rightly(subject: str) -> None:
    rng = Rng("answers", subject)
    for _ in range(60):
        question = draw(rng, "train", subject)
        assert question.options[LETTERS.index(question.answer)] == question.right
        assert len(set(question.options)) == len(question.options) in range(4, 11)
        assert question.response == f"{question.solution} Answer: {question.answer}"
        assert f"{question.right} ({question.answer})" in question.solution
        assert len(question.scenes) == 1 + (subject == "Comparison")
        for number in range(1, len(question.scenes) + 1):
            assert f"<image {number}>" in question.text
        assert all(split_of(scene.kinds) == "train" for scene in question.scenes)


def test_right_answers_follow_from_the_scene() -> None:
    rng = Rng("facts")
    for _ in range(50):
        question = draw(rng, "train", "Location")
        cell = int(question.facts[0]) - 1
        assert question.right == kind_name(question.scenes[0].kinds[cell])
        question = draw(rng, "train", "Presence")
        there = {kind_name(kind) for kind in question.scenes[0].kinds}
        assert [option for option in question.options if option in there] == [question.right]
        question = draw(rng, "train", "Prices")
        _, _, n, m, price, other = question.facts
        assert int(question.right) == int(n) * int(price) + int(m) * int(other)
        question = draw(rng, "train", "Comparison")
        first, second = (
            sum(kind_name(k).startswith(str(question.facts[0]).split()[1]) for k in scene.kinds)
            for scene in question.scenes
        )
        assert int(question.right) == abs(first - second)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_wrong_candidates_are_wrong_and_in_shape(subject: str) -> None:
    rng = Rng("wrong", subject)
    for _ in range(60):
        question = draw(rng, "train", subject)
        wrong = wrong_response(rng, question)
        letter = wrong[-1]
        assert letter != question.answer
        assert LETTERS.index(letter) < len(question.options)
        assert f"({letter})" in wrong
        assert wrong.endswith(f" Answer: {letter}")
        assert "-1" not in wrong
        assert ": -" not in wrong


def test_difficulty_grows_with_the_number_of_objects() -> None:
    levels = {make(seed, "dev").difficulty for seed in range(60)}
    assert levels == {"Easy", "Medium", "Hard"}
