"""lmms-eval's own classes on given questions; bench_peers.py runs it with lmms-eval's Python.

    python peer_lmms.py openai QUESTIONS URL IN_FLIGHT
    python peer_lmms.py hf QUESTIONS MODEL SAMPLES MAX_TOKENS BATCH

QUESTIONS has a line of JSON per question: `text` and `images` (files). Prints one line of JSON: the
seconds and CPU-seconds of `generate_until` (the images are open, the model is loaded), and
how many answers came, how many tokens they have.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from lmms_eval.api.instance import Instance
from PIL import Image


def instances(questions: list[dict[str, Any]], repeats: int, settings: dict[str, Any]) -> list[Any]:
    """A request per question and repeat, as `Task.build_all_requests` makes them."""
    meta = {"task": "bench", "repeats": repeats}
    return [
        Instance(
            "generate_until",
            ("", messages, dict(settings), at, "bench", "test"),
            idx=0,
            metadata={**meta, "doc_id": at},
        )
        for at in range(len(questions))
        for _ in range(repeats)
    ]


def messages(question: dict[str, Any]) -> list[dict[str, Any]]:
    """`doc_to_messages` of a task."""
    content = [{"type": "image", "url": image} for image in question["open"]]
    content.append({"type": "text", "text": question["text"]})
    return [{"role": "user", "content": content}]


def main() -> None:
    """Ask, and say what it took."""
    kind, file, *rest = sys.argv[1:]
    questions = [json.loads(line) for line in Path(file).read_text(encoding="utf-8").splitlines()]
    for question in questions:
        question["open"] = [Image.open(path).convert("RGB") for path in question["images"]]
    if kind == "openai":
        from lmms_eval.models.chat.async_openai import AsyncOpenAIChat

        url, in_flight = rest
        model = AsyncOpenAIChat("m", base_url=url, api_key="none", num_cpus=int(in_flight))
        asked = instances(questions, 1, {"max_new_tokens": 80, "temperature": 0})
    else:
        from lmms_eval.models.chat.qwen2_5_vl import Qwen2_5_VL

        path, samples, tokens, batch = rest
        size = json.loads((Path(path) / "preprocessor_config.json").read_text())["size"]
        model = Qwen2_5_VL(
            path,
            device="cpu",
            device_map="cpu",
            batch_size=int(batch),
            min_pixels=size["shortest_edge"],
            max_pixels=size["longest_edge"],
            system_prompt=None,
        )
        model.model.float()  # as bon's: it always loads bfloat16, which CPUs are slower in
        settings = {"max_new_tokens": int(tokens), "temperature": 1.0, "top_p": 1.0}
        asked = instances(questions, int(samples), settings)
    model.task_dict["bench"] = {"test": questions}
    began, cpu = time.perf_counter(), time.process_time()
    answers = model.generate_until(asked)
    found = {
        "wall": time.perf_counter() - began,
        "cpu": time.process_time() - cpu,
        "answers": sum("[LMMS_EVAL_REQUEST_FAILED" not in answer.text for answer in answers),
        "tokens": sum(answer.token_counts.output_tokens or 0 for answer in answers),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
