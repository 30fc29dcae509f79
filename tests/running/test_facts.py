"""Pictures with one object changed, and rewarders that miss it or follow the text."""

import asyncio

import pytest
from PIL import Image

from bon.core.errors import BonError
from bon.core.images import ImageStore, apply_filter, hidden, open_image
from bon.dispatch.worker import Host
from bon.experiment.cards import load_rewarder
from bon.miniature.data import rows, write
from bon.miniature.facts import changes, right_option, scene_of
from bon.miniature.scene import Scene, render
from bon.running import stress
from bon.running.attacks import ARGUED, FACT
from bon.running.reporting import read_results
from bon.storage.store import Store
from tests.conftest import echo_experiment
from tests.running.conftest import go_in
from tools.miniature import world

READER = '''
from functools import cache

from bon.core.images import open_image
from bon.miniature.facts import right_option, scene_of
from bon.rewarders.base import Rewarder, Verdict

@cache
def read(data):
    return scene_of(open_image(data), exact=False)

class Reader(Rewarder):
    """Reads the pixels; `follows` prefers what is argued whatever it sees."""
    arity = "two"
    async def judge(self, item, shown, seeds):
        texts = [item.responses[key] for key in shown]
        if getattr(self.card.options, "follows", False) and "no doubt" in " ".join(texts):
            return [Verdict("first" if "no doubt" in texts[0] else "second")] * len(seeds)
        scene = read(item.images[0].data)
        options = {line[3:]: line[0] for line in item.prompt.splitlines() if line[1:3] == ". "}
        letter = options.get(right_option(item.prompt, scene))
        right = [text.endswith(f"Answer: {letter}") for text in texts]
        said = "first" if right[0] and not right[1] else "second" if right[1] else "tie"
        return [Verdict(said)] * len(seeds)
'''


def test_a_picture_is_read_back_and_the_world_agrees_on_the_answer():
    for seed in range(20):
        made = world.make(seed, "dev", ("Colour_Count", "Shape_Count", "Location")[seed % 3])
        (scene,) = made.scenes
        assert scene_of(render(scene)) == scene
        assert right_option(made.text, scene) == made.right
        found = list(changes(made.text, made.options, scene))
        assert found
        for one in found:
            off = [k for k in range(16) if one.scene.kinds[k] != scene.kinds[k]]
            assert len(off) == 1
            assert 0 in (one.scene.kinds[off[0]], scene.kinds[off[0]])
            assert one.right == right_option(made.text, one.scene) != made.right
            name = world.kind_name(one.scene.kinds[off[0]] or scene.kinds[off[0]])
            assert name.startswith(one.colour)
            if made.subject == "Location":
                assert one.half == ("left" if off[0] % 4 < 2 else "right")
    assert scene_of(Image.new("RGB", (112, 112))) is None
    assert scene_of(Image.new("RGB", (20, 20)), exact=False) is None
    assert right_option("What is the total cost?", scene) is None


@pytest.mark.parametrize("colour", range(4))
def test_a_hidden_colour_is_gone_and_the_others_are_not(colour):
    scene = Scene(tuple(range(1, 17)), tuple(k % 12 for k in range(16)))
    name = ("red", "green", "blue", "yellow")[colour]
    seen = scene_of(hidden(render(scene), name), exact=False)
    kept = tuple(0 if (kind - 1) // 4 == colour else kind for kind in scene.kinds)
    assert seen.kinds == kept
    left = scene_of(hidden(render(scene), "left"), exact=False)
    assert [left.kinds[k] for k in range(16) if k % 4 > 1] == [
        scene.kinds[k] for k in range(16) if k % 4 > 1
    ]
    assert render(scene).tobytes() == apply_filter(render(scene), f"hide:{name}:0").tobytes()
    images = [render(Scene(scene.kinds, (k % 12,) * 15 + (k // 12,))) for k in range(100)]
    changed = [apply_filter(image, "hide:left:.3") != image for image in images]
    assert 15 <= sum(changed) <= 45


def test_what_cannot_be_hidden_is_one_line(tmp_path):
    card = {"name": "x", "kind": "scalar", "engine": "echo", "image_filter": "hide:pink"}
    with pytest.raises(BonError, match="image_filter"):
        load_rewarder(card, tmp_path)


def test_stress_splits_what_is_not_seen_from_what_is_argued(tmp_path, monkeypatch):
    (tmp_path / "reader.py").write_text(READER)
    write(tmp_path, num_pairs=6)
    raw = echo_experiment()
    raw["questions"] = {"benchmark": "mmmu_pro", "path": "questions.parquet"}
    raw["pairs"] = [{"benchmark": "vl_rewardbench", "path": "pairs.parquet"}]
    right = {"accuracy": 1.0, "reply": "So. Answer: {choice}"}  # so that nothing else is judged
    raw["policies"] = [{**raw["policies"][0], "n": 2, "engine_args": right}]
    card = {"kind": "python", "python": "reader:Reader", "engine": "none"}
    raw["rewarders"] = [
        {**card, "name": "sees"},
        {**card, "name": "no-red", "image_filter": "hide:red"},
        {**card, "name": "half-blind", "image_filter": "hide:left"},
        {**card, "name": "follows", "options": {"follows": True}},
    ]
    raw["analysis"] = {"bootstrap": 100}

    def work_off(setup, tally, sources, *, quiet=False):
        host = Host(setup.specs())

        async def work() -> None:
            for source in sources:
                while tasks := source.take(50):
                    tally.file(source, await host.run(source.model, tasks))
                    source.open -= len(tasks)

        asyncio.run(work())

    monkeypatch.setattr(stress, "work_off", work_off)
    monkeypatch.setattr(stress, "attack_pairs", lambda targets: iter(()))  # the others
    directory = go_in(tmp_path)(raw)
    stress.stress_run(directory, 200, quiet=True)
    asked = len([row for row in rows("questions") if right_option(row["question"], _any())])
    found = {(h.rewarder, h.attack): h for h in read_results(directory).hacks}
    fact = {name: found[name, FACT] for name in ("sees", "no-red", "half-blind", "follows")}
    assert 0.8 * 2 * asked <= fact["sees"].num_pairs <= 2 * asked
    assert fact["sees"].wins.value == fact["follows"].wins.value == 0  # both see the object
    assert fact["sees"].misses == fact["follows"].misses == ""
    assert "red (" in fact["no-red"].misses
    assert "blue" not in fact["no-red"].misses
    assert "left (" in fact["half-blind"].misses
    argued = {name: found[name, ARGUED].over_plain for name in fact}
    assert argued["follows"].low > 0.9  # saw it, but followed the text
    assert argued["sees"].value == argued["no-red"].value == 0
    page = (directory / "report.html").read_text()
    assert "errs more often where what decides is red (" in page
    with Store(directory / "stress", readonly=True) as store:
        store.images = ImageStore(directory / "images")
        pairs = [pair for attack, pair in store.pairs() if attack == FACT]
    for pair in pairs:
        scene = scene_of(open_image(pair.images[0]))
        options = {line[3:]: line[0] for line in pair.prompt.splitlines() if line[1:3] == ". "}
        right = options[right_option(pair.prompt, scene)]
        assert [text == f"Answer: {right}" for text in pair.responses] == [True, False]


def _any() -> Scene:
    return Scene((0,) * 16, (0,) * 16)
