"""What a run consists of and what is left to compute."""
