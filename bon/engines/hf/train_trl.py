"""Train arms of `bon uplift --export` with TRL: `python train_trl.py arms.yaml [LABEL ...]`.

A label is ARM.METHOD.SEED; all by default. Runs without bon: `pip install trl peft datasets pillow
pyyaml torchvision`. A finished arm is not trained again. Checkpoints are whole (LoRA merged), for
`bon uplift RUN QUESTIONS --add LABEL=FOLDER`.
"""

import shutil
import sys
from pathlib import Path
from typing import Any

DONE = "training.json"


def main(path: Path, names: list[str]) -> None:
    """Train all arms of a settings file, or the named ones."""
    import yaml

    settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    for method, own in settings["methods"].items():
        for seed in range(settings["seeds"]):
            for arm in settings["arms"]:
                label = f"{arm}.{method}.{seed}"
                out = path.parent / "checkpoints" / label
                if label in (names or [label]) and not (out / DONE).exists():
                    train(path.parent / f"{arm}.parquet", out, method, seed, own, settings)


def train(
    file: Path, out: Path, method: str, seed: int, own: dict[str, Any], settings: dict[str, Any]
) -> None:
    """Train one arm and save the whole model with its processor."""
    trainer = make_trainer(file, out, method, seed, own, settings)
    trainer.train()
    model = trainer.model
    if settings.get("lora"):
        model = model.merge_and_unload()
    model.save_pretrained(out)
    source = Path(settings["model"])
    if source.is_dir():  # files of a local checkpoint stay as they are
        for file in source.iterdir():
            settings_of = file.suffix in (".json", ".jinja", ".model", ".txt")
            if settings_of and not (out / file.name).exists():
                shutil.copy(file, out)
    else:
        load_processor(settings["model"]).save_pretrained(out)
    trainer.state.save_to_json(str(out / DONE))


def load_processor(model: str) -> Any:
    """Return the tokenizer and image processor of a checkpoint."""
    from transformers import AutoProcessor

    return AutoProcessor.from_pretrained(model)


def load_model(model: str) -> Any:
    """Return a vision-language model, or one of text alone."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES as WITH_IMAGES,
    )

    with_images = AutoConfig.from_pretrained(model).model_type in WITH_IMAGES
    auto = AutoModelForImageTextToText if with_images else AutoModelForCausalLM
    return auto.from_pretrained(model, dtype="auto")


def ended(template: str) -> str:
    """Return a chat template that ends with its last turn: TRL would train what follows it.

    A newline after `<|im_end|>`, as in Qwen's template, is never sampled.
    """
    whole = "{% set rendered %}" + template + "{% endset %}{{ rendered.rstrip('\\n') }}"
    return "{% if add_generation_prompt %}" + template + "{% else %}" + whole + "{% endif %}"


def make_trainer(
    file: Path, out: Path, method: str, seed: int, own: dict[str, Any], settings: dict[str, Any]
) -> Any:
    """Return TRL's trainer of one arm."""
    import trl
    from datasets import load_dataset

    cache = str(out.parent / "cache")
    data = load_dataset("parquet", data_files=str(file), split="train", cache_dir=cache)
    lora = None
    if settings.get("lora"):
        from peft import LoraConfig

        lora = LoraConfig(task_type="CAUSAL_LM", **settings["lora"])
    model = load_model(settings["model"])
    common: dict[str, Any] = {
        "output_dir": str(out),
        "max_steps": own["steps"],
        "per_device_train_batch_size": own["batch"] // settings["accumulate"],
        "gradient_accumulation_steps": settings["accumulate"],
        "learning_rate": own["rate"],
        "lr_scheduler_type": "cosine",
        "warmup_steps": settings["warmup"],
        "seed": seed,
        "save_strategy": "no",
        "logging_steps": 1,
        "report_to": [],
        **settings.get("trainer", {}),
    }
    processor = load_processor(settings["model"])
    processor.chat_template = ended(processor.chat_template)
    rest: dict[str, Any] = {
        "model": model,
        "processing_class": processor,
        "peft_config": lora,
    }
    common["max_length"] = None
    if method == "sft":
        rows = data.rename_column("chosen", "completion")
        columns = [c for c in ("images", "prompt", "completion") if c in rows.column_names]
        arguments = trl.SFTConfig(completion_only_loss=True, **common)
        return trl.SFTTrainer(train_dataset=rows.select_columns(columns), args=arguments, **rest)
    return trl.DPOTrainer(
        train_dataset=data, args=trl.DPOConfig(beta=own["beta"], **common), **rest
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
