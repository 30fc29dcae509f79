"""What a large image leaves behind in a server that only passes it on."""

import base64
import io

import numpy as np
import psutil
import pytest
from PIL import Image

from tests.service.server import serving
from tests.service.test_online import CARDS, asks

MB = 1024 * 1024


def large(form):
    small = np.random.default_rng(0).integers(0, 255, (600, 650, 3), np.uint8)
    data = io.BytesIO()
    Image.fromarray(small).resize((6500, 6000), Image.Resampling.BILINEAR).save(
        data, form, quality=30
    )
    return data.getvalue()


@pytest.mark.parametrize("form", ["JPEG", "WEBP"])
def test_its_memory_is_given_back(tmp_path, form):
    online = {"rewarders": CARDS["rewarders"][2:], "backend": "process"}
    text = base64.b64encode(large(form)).decode()
    body = {"rewarder": "head", "candidates": ["a", "b"]}
    image = f"data:image/{form.lower()};base64,{text}"
    with serving(tmp_path, online=online) as server:
        server.client.post("/v1/score", json={**body, "messages": asks()})
        process = psutil.Process(server.process.pid)
        before = process.memory_info().rss
        for number in range(2):
            messages = asks(f"Question {number}?", image=image)
            answer = server.client.post("/v1/score", json={**body, "messages": messages})
            assert answer.status_code == 200, answer.text[:300]
        assert process.memory_info().rss - before < 120 * MB + 3 * len(text)
