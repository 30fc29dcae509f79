"""Tiny random checkpoints of every architecture that a card names.

Real classes, real files, a tokenizer of our own; sizes that load in a moment. `tiny_checkpoint`
makes the one that most tests use; these ask whether an engine is right for all of them.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from tiny_checkpoint import make_tokenizer

HIDDEN = 64
ERNIE_MARKS = ("START", "END", "PLACEHOLDER")
SPECIAL = [
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
    *("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"),  # Qwen
    *("<img>", "</img>", "<IMG_CONTEXT>"),  # InternVL
    *("<image>", "<video>"),  # LLaVA
    *("<start_of_image>", "<end_of_image>", "<image_soft_token>"),  # Gemma
    *("[IMG]", "[IMG_BREAK]", "[IMG_END]"),  # Pixtral
    *("<|begin_of_video|>", "<|end_of_video|>"),  # GLM
    *("<fake_token_around_image>", "<end_of_utterance>", "<global-img>"),  # Idefics
    *(f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)),
    *("<|START_OF_IMG|>", "<|END_OF_IMG|>", "<|IMG_PATCH|>", "<|IMG_LINE_BREAK|>"),  # Aya
    *("TILE_GLOBAL", "TILE_1", "TILE_2", "TILE_3", "TILE_4"),
    *(f"<|{kind}_{mark}|>" for kind in ("IMAGE", "VIDEO") for mark in ERNIE_MARKS),
    "<|image|>",  # Llama: last, because its embedding has one row more than its output
]

IMAGE_TOKEN = {
    "llava_onevision": "<image>",
    "mllama": "<|image|>",
    "gemma3": "<image_soft_token>",
    "pixtral": "[IMG]",
    "idefics3": "<image>",
    "smolvlm": "<image>",
    "ernie4_5_vl_moe": "<|IMAGE_PLACEHOLDER|>",
    "aya_vision": "<image>",
    "llava_next": "<image>",
}
"""What stands for an image, where it is not Qwen's."""
TEXT_ALONE = ("lfm2_vl", "mistral3", "llama4", "gemma4", "kimi_k25")
"""Their image processors need torchvision."""
PROCESSOR = {
    "pixtral": "PixtralProcessor",
    **dict.fromkeys(("qwen3_5", "qwen3_vl_moe", "qwen4_exp"), "Qwen3VLProcessor"),
    **dict.fromkeys(TEXT_ALONE, "LlavaProcessor"),
}
"""Where it is not named like the architecture."""
ERNIE_TOKENS = {
    f"{kind}_{name}": f"<|{kind.upper()}_{mark}|>"
    for kind in ("image", "video")
    for name, mark in zip(("start_token", "end_token", "token"), ERNIE_MARKS, strict=True)
}

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
    "{% if p.type == 'image' %}IMAGE{% else %}{{ p.text }}{% endif %}{% endfor %}{% endif %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

TEXT_CONFIG: dict[str, Any] = {
    "hidden_size": HIDDEN,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 4096,
    # Larger than usual, so that a random model has opinions and greedy has no near ties.
    "initializer_range": 0.12,
}
VISION_CONFIG: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 56,
    "patch_size": 14,
}
QWEN_VISION: dict[str, Any] = {
    "depth": 2,
    "num_heads": 2,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}
QWEN3_VISION: dict[str, Any] = {
    **QWEN_VISION,
    **{"hidden_size": 32, "intermediate_size": 64, "out_hidden_size": HIDDEN},
    **{"patch_size": 16, "num_position_embeddings": 64, "deepstack_visual_indexes": [0]},
}
ROPE = {"rope_type": "default", "rope_theta": 1e6}
MROPE = {"rope_parameters": {**ROPE, "mrope_section": [2, 3, 3]}}
NORMAL = {"image_mean": [0.5] * 3, "image_std": [0.25] * 3}
SQUARE = {"size": {"height": 56, "width": 56}, **NORMAL}


def make_architecture(name: str, folder: Path, template_of: str = "processor") -> Path:
    """Write a checkpoint of one of ARCHITECTURES; `template_of` says which file has its template.

    `tokenizer`: in tokenizer_config.json alone, as Phi-3.5-vision has it.
    """
    torch.manual_seed(0)
    end = "<|endoftext|>"
    tokens = {
        "start_image_token": "<img>",
        "end_image_token": "</img>",
        "context_image_token": "<IMG_CONTEXT>",
        "video_token": "<video>",
        "boi_token": "<start_of_image>",
        "eoi_token": "<end_of_image>",
        "image_token": IMAGE_TOKEN.get(name, "<|image_pad|>"),
        **(ERNIE_TOKENS if name == "ernie4_5_vl_moe" else {}),
    }
    tokenizer = make_tokenizer(
        [], SPECIAL, pad_token=end, bos_token=end, extra_special_tokens=tokens
    )
    ids = {token: tokenizer.convert_tokens_to_ids(token) for token in SPECIAL}
    architecture, config, image, processor = (ARCHITECTURES | NEWER)[name](ids)
    text = config.text_config
    text.vocab_size = len(tokenizer) - (name == "mllama")
    text.bos_token_id = text.pad_token_id = ids["<|endoftext|>"]
    text.eos_token_id = ids["<|im_end|>"]
    model = getattr(transformers, architecture)(config).eval()
    model.generation_config.eos_token_id = ids["<|im_end|>"]
    model.generation_config.pad_token_id = ids["<|endoftext|>"]
    with torch.no_grad():  # what begins at zero would hide the images from the text
        for parameter in model.parameters():
            if not parameter.any() and parameter.dim() < 3:
                parameter.normal_(std=0.5)
    model.save_pretrained(folder)
    template = TEMPLATE.replace("IMAGE", image)
    tokenizer.chat_template = template if template_of == "tokenizer" else None
    tokenizer.save_pretrained(folder)
    own = architecture.replace("ForConditionalGeneration", "Processor")
    settings = {**processor, "processor_class": PROCESSOR.get(name, own)}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings.pop("image")))
    if template_of == "tokenizer":
        # transformers 5 writes a file of its own; published checkpoints have it in the settings.
        (folder / "chat_template.jinja").unlink(missing_ok=True)
        place = folder / "tokenizer_config.json"
        place.write_text(json.dumps({**json.loads(place.read_text()), "chat_template": template}))
    else:
        (folder / "chat_template.jinja").write_text(template)
    (folder / "processor_config.json").write_text(json.dumps(settings))
    return folder


Made = tuple[str, Any, str, dict[str, Any]]


def _qwen(kind: str, **text: Any) -> Callable[[dict[str, int]], Made]:
    vision = {
        "Qwen2VL": {**QWEN_VISION, "embed_dim": 32, "hidden_size": HIDDEN, "patch_size": 14},
        "Qwen2_5_VL": {
            **QWEN_VISION,
            **{"hidden_size": 32, "intermediate_size": 64, "out_hidden_size": HIDDEN},
            **{"patch_size": 14, "window_size": 56, "fullatt_block_indexes": [1]},
        },
        "Qwen3VL": QWEN3_VISION,
        "Qwen3VLMoe": QWEN3_VISION,
    }.get(kind, {k: v for k, v in QWEN3_VISION.items() if k != "deepstack_visual_indexes"})

    def make(ids: dict[str, int]) -> Made:
        config = getattr(transformers, f"{kind}Config")(
            text_config={**TEXT_CONFIG, **MROPE, **text},
            vision_config=vision,
            image_token_id=ids["<|image_pad|>"],
            video_token_id=ids["<|video_pad|>"],
            vision_start_token_id=ids["<|vision_start|>"],
            vision_end_token_id=ids["<|vision_end|>"],
        )
        image = {
            "image_processor_type": "Qwen2VLImageProcessor",
            "patch_size": vision["patch_size"],
            "merge_size": 2,
            "temporal_patch_size": 2,
            "size": {"shortest_edge": 3136, "longest_edge": 100352},
            **NORMAL,
        }
        place = "<|vision_start|><|image_pad|><|vision_end|>"
        return f"{kind}ForConditionalGeneration", config, place, {"image": image}

    return make


def _internvl(ids: dict[str, int]) -> Made:
    config = transformers.InternVLConfig(
        text_config={"model_type": "qwen2", **TEXT_CONFIG, "rope_parameters": ROPE},
        vision_config={**VISION_CONFIG, "image_size": [56, 56], "patch_size": [14, 14]},
        image_token_id=ids["<IMG_CONTEXT>"],
        image_seq_length=4,
        tie_word_embeddings=False,
    )
    image = {
        "image_processor_type": "GotOcr2ImageProcessor",
        **{"crop_to_patches": True, "min_patches": 1, "max_patches": 4},
        **SQUARE,
    }
    return (
        "InternVLForConditionalGeneration",
        config,
        "<IMG_CONTEXT>",
        {"image": image, "image_seq_length": 4},
    )


def _llava_onevision(ids: dict[str, int]) -> Made:
    pinpoints = [[56, 56], [56, 112], [112, 56], [112, 112]]
    config = transformers.LlavaOnevisionConfig(
        text_config={"model_type": "qwen2", **TEXT_CONFIG, "rope_parameters": ROPE},
        vision_config={"model_type": "siglip_vision_model", **VISION_CONFIG},
        image_token_index=ids["<image>"],
        video_token_index=ids["<video>"],
        image_grid_pinpoints=pinpoints,
    )
    image = {
        "image_processor_type": "LlavaOnevisionImageProcessor",
        "image_grid_pinpoints": pinpoints,
        **SQUARE,
    }
    settings = {"num_image_tokens": 16, "vision_feature_select_strategy": "full"}
    return (
        "LlavaOnevisionForConditionalGeneration",
        config,
        "<image>",
        {"image": image, **settings},
    )


def _mllama(ids: dict[str, int]) -> Made:
    vision = {
        **{"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2},
        **{"num_global_layers": 1, "attention_heads": 2, "vision_output_dim": 64},
        **{"image_size": 56, "patch_size": 14, "intermediate_layers_indices": [0]},
    }
    config = transformers.MllamaConfig(
        text_config={
            **{k: v for k, v in TEXT_CONFIG.items() if k != "head_dim"},
            "num_hidden_layers": 3,
            "cross_attention_layers": [1],
            "rope_parameters": ROPE,
            "vocab_size": ids["<|image|>"],
            **{"pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 1},
        },
        vision_config=vision,
        image_token_index=ids["<|image|>"],
    )
    image = {"image_processor_type": "MllamaImageProcessor", "max_image_tiles": 4, **SQUARE}
    return "MllamaForConditionalGeneration", config, "<|image|>", {"image": image}


def _gemma3(ids: dict[str, int]) -> Made:
    config = transformers.Gemma3Config(
        text_config={
            **TEXT_CONFIG,
            "query_pre_attn_scalar": 16,
            "sliding_window": 512,
            "tie_word_embeddings": False,
        },
        vision_config={"model_type": "siglip_vision_model", **VISION_CONFIG},
        mm_tokens_per_image=4,
        boi_token_index=ids["<start_of_image>"],
        eoi_token_index=ids["<end_of_image>"],
        image_token_index=ids["<image_soft_token>"],
        tie_word_embeddings=False,
    )
    image = {"image_processor_type": "Gemma3ImageProcessor", **SQUARE}
    return (
        "Gemma3ForConditionalGeneration",
        config,
        "<start_of_image>",
        {"image": image, "image_seq_length": 4},
    )


def _pixtral(ids: dict[str, int]) -> Made:
    config = transformers.LlavaConfig(
        text_config={"model_type": "mistral", **TEXT_CONFIG, "rope_parameters": ROPE},
        vision_config={"model_type": "pixtral", **VISION_CONFIG, "image_size": 112},
        image_token_index=ids["[IMG]"],
        vision_feature_layer=-1,
        vision_feature_select_strategy="full",
        tie_word_embeddings=False,
    )
    image = {
        "image_processor_type": "PixtralImageProcessor",
        "patch_size": {"height": 14, "width": 14},
        "size": {"longest_edge": 112},
        **NORMAL,
    }
    return "LlavaForConditionalGeneration", config, "[IMG]", {"image": image, "patch_size": 14}


ARCHITECTURES: dict[str, Callable[[dict[str, int]], Made]] = {
    "qwen2_vl": _qwen("Qwen2VL"),
    "qwen2_5_vl": _qwen("Qwen2_5_VL"),
    "qwen3_vl": _qwen("Qwen3VL"),
    "internvl": _internvl,
    "llava_onevision": _llava_onevision,
    "mllama": _mllama,
    "gemma3": _gemma3,
    "pixtral": _pixtral,
}


def _glm4v(ids: dict[str, int]) -> Made:
    config = transformers.Glm4vConfig(
        text_config={**TEXT_CONFIG, "rope_parameters": {**ROPE, "mrope_section": [2, 3, 3]}},
        vision_config={
            **QWEN_VISION,
            **{"hidden_size": 32, "intermediate_size": 64, "out_hidden_size": HIDDEN},
            **{"patch_size": 14, "image_size": 112},
        },
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        image_start_token_id=ids["<|vision_start|>"],
        image_end_token_id=ids["<|vision_end|>"],
        video_start_token_id=ids["<|begin_of_video|>"],
        video_end_token_id=ids["<|end_of_video|>"],
    )
    image = {
        "image_processor_type": "Glm4vImageProcessor",
        "size": {"shortest_edge": 3136, "longest_edge": 100352},
        **NORMAL,
    }
    place = "<|vision_start|><|image_pad|><|vision_end|>"
    return "Glm4vForConditionalGeneration", config, place, {"image": image}


def _idefics(kind: str) -> Callable[[dict[str, int]], Made]:
    def make(ids: dict[str, int]) -> Made:
        config = getattr(transformers, f"{kind}Config")(
            text_config={"model_type": "llama", **TEXT_CONFIG, "rope_parameters": ROPE},
            vision_config=VISION_CONFIG,
            image_token_id=ids["<image>"],
            pad_token_id=ids["<|endoftext|>"],
        )
        image = {
            "image_processor_type": f"{kind}ImageProcessor",
            "size": {"longest_edge": 112},
            "max_image_size": {"longest_edge": 56},
            **NORMAL,
        }
        settings = {"image": image, "image_seq_len": 4}
        return f"{kind}ForConditionalGeneration", config, "<image>", settings

    return make


def _ernie(ids: dict[str, int]) -> Made:
    config = transformers.Ernie4_5_VLMoeConfig(
        text_config={
            **{**TEXT_CONFIG, "num_hidden_layers": 3},
            **{"rope_parameters": {**ROPE, "mrope_section": [3, 3, 2]}, "moe_num_experts": 4},
            **{"moe_k": 2, "moe_num_shared_experts": 1, "moe_intermediate_size": [32, 32]},
        },
        vision_config={**QWEN_VISION, "hidden_size": 32, "intermediate_size": 64, "patch_size": 14},
        **{f"{name}_id": ids[token] for name, token in ERNIE_TOKENS.items()},
    )
    image = {
        "image_processor_type": "Ernie4_5_VLMoeImageProcessor",
        **{"patch_size": 14, "merge_size": 2, "temporal_patch_size": 1},
        "size": {"shortest_edge": 3136, "longest_edge": 100352},
        **NORMAL,
    }
    place = "<|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|>"
    return "Ernie4_5_VLMoeForConditionalGeneration", config, place, {"image": image}


def _aya_vision(ids: dict[str, int]) -> Made:
    config = transformers.AyaVisionConfig(
        text_config={**TEXT_CONFIG, "model_type": "cohere2", "sliding_window": 512,
                     "rope_parameters": ROPE},
        vision_config={"model_type": "siglip_vision_model", **VISION_CONFIG},
        image_token_index=ids["<|IMG_PATCH|>"],
    )  # fmt: skip
    image = {
        "image_processor_type": "GotOcr2ImageProcessor",
        **{"crop_to_patches": True, "min_patches": 1, "max_patches": 4},
        **SQUARE,
    }
    settings = {"image": image, "patch_size": 14, "img_size": 56, "downsample_factor": 2}
    return "AyaVisionForConditionalGeneration", config, "<image>", settings


def _llava_next(ids: dict[str, int]) -> Made:
    pinpoints = [[56, 112], [112, 56]]
    config = transformers.LlavaNextConfig(
        text_config={"model_type": "mistral", **TEXT_CONFIG, "rope_parameters": ROPE},
        vision_config={"model_type": "clip_vision_model", **VISION_CONFIG},
        image_token_index=ids["<image>"],
        image_grid_pinpoints=pinpoints,
    )
    image = {
        "image_processor_type": "LlavaNextImageProcessor",
        "image_grid_pinpoints": pinpoints,
        "crop_size": {"height": 56, "width": 56},
        "size": {"shortest_edge": 56},
        **NORMAL,
    }
    settings = {"patch_size": 14, "vision_feature_select_strategy": "default",
                "num_additional_image_tokens": 1}  # fmt: skip
    return "LlavaNextForConditionalGeneration", config, "<image>", {"image": image, **settings}


def _text_alone(
    kind: str, text: dict[str, Any], vision: dict[str, Any], **settings: Any
) -> Callable[[dict[str, int]], Made]:
    """An architecture whose processor needs torchvision: its language model, behind LLaVA's."""

    def make(ids: dict[str, int]) -> Made:
        config = getattr(transformers, f"{kind}Config")(
            text_config={**TEXT_CONFIG, **text}, vision_config=vision, **settings
        )
        image = {"image_processor_type": "CLIPImageProcessor", **SQUARE}
        return f"{kind}ForConditionalGeneration", config, "<image>", {"image": image}

    return make


LINEAR = {
    **{"layer_types": ["linear_attention", "full_attention"]},
    **{"linear_num_key_heads": 2, "linear_num_value_heads": 4},
    **{"linear_key_head_dim": 16, "linear_value_head_dim": 16, "partial_rotary_factor": 1.0},
}
MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
NEWER: dict[str, Callable[[dict[str, int]], Made]] = {
    "qwen3_5": _qwen("Qwen3_5", **LINEAR),
    "qwen3_vl_moe": _qwen("Qwen3VLMoe", **MOE),
    "glm4v": _glm4v,
    "qwen4_exp": _qwen(
        "Qwen4Exp", **LINEAR, **MOE, shared_expert_intermediate_size=32, hc_count=2, hc_lowrank=8,
        indexer_n_heads=2, indexer_kv_heads=1, indexer_head_dim=16, indexer_budget=16,
        indexer_compress_ratio=4,
    ),
    "ernie4_5_vl_moe": _ernie,
    "idefics3": _idefics("Idefics3"),
    "smolvlm": _idefics("SmolVLM"),
    "aya_vision": _aya_vision,
    "llava_next": _llava_next,
    "lfm2_vl": _text_alone(
        "Lfm2Vl",
        {"layer_types": ["conv", "full_attention", "conv"], "num_hidden_layers": 3},
        {"model_type": "siglip2_vision_model", **VISION_CONFIG},
    ),
    "mistral3": _text_alone(
        "Mistral3", {"model_type": "mistral", "rope_parameters": ROPE},
        {"model_type": "pixtral", **VISION_CONFIG},
    ),
    "llama4": _text_alone(
        "Llama4",
        {"intermediate_size_mlp": 128, "num_local_experts": 2, "attention_chunk_size": 64},
        {**VISION_CONFIG, "vision_output_dim": 32, "projector_input_dim": 32,
         "projector_output_dim": 32},
    ),
    "gemma4": _text_alone(
        "Gemma4",
        {"num_hidden_layers": 4, "layer_types": ["sliding_attention", "full_attention"] * 2,
         "sliding_window": 32, "global_head_dim": 32, "num_kv_shared_layers": 2,
         "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 600},
        {**VISION_CONFIG, "num_key_value_heads": 2, "head_dim": 16},
    ),
    "kimi_k25": _text_alone(
        "Kimi_K25",
        {"q_lora_rank": 32, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8,
         "v_head_dim": 16, "head_dim": 8, "num_key_value_heads": 4, "n_routed_experts": 4,
         "n_group": 1, "topk_group": 1, "num_experts_per_tok": 2,
         "moe_intermediate_size": 32, "first_k_dense_replace": 1},
        {**{k: v for k, v in VISION_CONFIG.items() if k != "image_size"}},
    ),
}  # fmt: skip
"""Architectures of newer models; tested for batches alone."""
