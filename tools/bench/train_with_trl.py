"""TRL's own GRPOTrainer trains a policy of the miniature, rewarded over HTTP by one of its judges.

pip install trl accelerate matplotlib
python tools/bench/train_with_trl.py --steps 60 --out build/trl

Prints what the trainer logs of each step, and leaves in OUT the server's data and the trainer's log
as `steps.json`.
"""

import argparse
import json
import threading
import time
from pathlib import Path
from typing import Any

import torch
import uvicorn
from datasets import Dataset
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor
from trl import GRPOConfig, GRPOTrainer

from bon.benchmarks import load_questions
from bon.commands.serve import reward_function
from bon.core.images import ImageStore
from bon.core.records import Question
from bon.experiment.config import DatasetSpec
from bon.miniature.data import checkpoint
from bon.policies.prompting import question_block
from bon.service.app import create_app
from bon.service.server.state import open_service
from bon.service.settings import Settings

POLICY = checkpoint("policy-a")
GROUP = 8


def dataset(data: Path, path: str, limit: int, images: bool) -> Dataset:
    """Questions as prompts, with their ids; TRL hands every column to the reward function."""
    spec = DatasetSpec(benchmark="mmmu_pro", path=path, limit=limit)
    rows = []
    for one in load_questions(spec, ImageStore(data / "images")):
        assert isinstance(one, Question)
        turn = {"role": "user", "content": question_block(one)}
        row: dict[str, Any] = {"prompt": [turn]}
        if images:
            row["images"] = [Image.open(ref.path).convert("RGB") for ref in one.images]
        rows.append(row)
    return Dataset.from_list(rows)


def train(reward: Any, rows: Dataset, out: Path, options: argparse.Namespace) -> list[Any]:
    """What the trainer logged, a row for each step."""
    config = GRPOConfig(
        output_dir=str(out / "trainer"),
        per_device_train_batch_size=4 * GROUP,
        num_generations=GROUP,
        max_completion_length=32,
        learning_rate=options.rate,
        lr_scheduler_type="constant",
        max_steps=options.steps,
        logging_steps=1,
        use_cpu=True,
        bf16=False,
        report_to=[],
        save_strategy="no",
        beta=0.0,
        seed=7,
        gradient_checkpointing=False,
        disable_tqdm=True,
    )
    trainer = GRPOTrainer(
        model=AutoModelForImageTextToText.from_pretrained(POLICY, dtype=torch.float32),
        reward_funcs=[reward],
        args=config,
        train_dataset=rows,
        processing_class=AutoProcessor.from_pretrained(POLICY, padding_side="left"),
    )
    trainer.train()
    return [row for row in trainer.state.log_history if "reward" in row]


def main(options: argparse.Namespace) -> None:
    """Serve, train, and keep what was rewarded."""
    data = options.out.absolute() / "data"
    data.mkdir(parents=True)
    questions = {"benchmark": "mmmu_pro", "path": "files/miniature/questions.parquet"}
    online = {"rewarders": [options.rewarder], "backend": "process"}
    settings = Settings.model_validate(
        {"data": data, "base": data, "auth": False, "online": online}
    )
    with open_service(settings) as service:
        config = uvicorn.Config(create_app(service), port=0, log_level="error", ws="none")
        server = uvicorn.Server(config)
        threading.Thread(target=server.run, daemon=True).start()
        while not server.started:
            time.sleep(0.1)
        address = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        scope: dict[str, Any] = {}
        exec(reward_function("trl", address, rewarder=options.rewarder), scope)
        began = time.perf_counter()
        path = str(data / questions["path"])
        rows = dataset(data, path, options.questions, options.images)
        log = train(scope["bon_reward"], rows, options.out, options)
        seconds = time.perf_counter() - began
        (options.out / "steps.json").write_text(json.dumps(log))
        print(f"{len(log)} steps in {seconds:.0f} s; kept in {data}")
        server.should_exit = True
        time.sleep(1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rewarder", default="mini-pair-d")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--questions", type=int, default=64)
    parser.add_argument("--rate", type=float, default=2e-4, help="learning rate")
    parser.add_argument("--images", action="store_true", help="also in the policy's own prompt")
    main(parser.parse_args())
