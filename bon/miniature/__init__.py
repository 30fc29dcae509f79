"""A small visual world in published formats, and the checkpoints of tiny models trained on it.

`scene` draws images, `data` writes questions and pairs as the Parquet files of MMMU-Pro and
VL-RewardBench, without torch and transformers; `tools/miniature` makes and trains it all.
"""
