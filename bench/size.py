"""The size of a run: `OPILIO_BENCH_SCALE=0.01 python -m bench …` only shows that a bench works; figures count at 1."""

import os

SCALE = float(os.environ.get("OPILIO_BENCH_SCALE", "1"))


def scaled(full: int, least: int) -> int:
    """`full` times the scale, and never less than what the bench needs to make sense."""
    return max(least, int(full * SCALE))
