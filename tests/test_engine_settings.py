"""The settings that shipped cards give their engines are settings that the engines have."""

from pathlib import Path

import pytest

from bon.engines import build
from bon.experiment.cards import load_policy, load_rewarder, settings_of, shipped

CARDS = [(room, name) for room in ("policies", "rewarders") for name in shipped(room)]
API = [each for each in CARDS if "engine: openai" in shipped(each[0])[each[1]].read_text()]


@pytest.mark.parametrize(("room", "name"), API)
def test_an_endpoint_takes_what_its_card_asks(room, name, monkeypatch):
    load = load_policy if room == "policies" else load_rewarder
    loaded = load(name, Path())
    pytest.importorskip("httpx")
    if key := loaded.card.engine_args["api_key_env"]:
        monkeypatch.setenv(key, "not-a-key")
    engine = build("openai", settings_of(loaded, remote_code=False))
    asks_words = getattr(loaded.card, "score", None) and loaded.card.score.yes
    engine._check(loaded.card.sampling, 20 if asks_words else 0)  # refuses, or says nothing
