"""A small visual world in the published formats, and tiny real models trained on it.

`scene` draws the pictures, `world` asks questions about them, `data` writes both as the
Parquet files of MMMU-Pro and VL-RewardBench. Those three import neither torch nor
transformers. `train` makes the committed checkpoints from seeds.
"""
