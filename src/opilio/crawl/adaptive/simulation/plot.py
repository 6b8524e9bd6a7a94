"""A picture of a comparison: freshness over time, one line per rule."""

from pathlib import Path
from typing import Any

from opilio.crawl.adaptive.simulation.compare import Comparison
from opilio.errors import OpilioError

SUFFIXES = (".png", ".svg")


def check(path: Path) -> None:
    """Before the replay, which takes minutes, what would fail after it."""
    if path.suffix.lower() not in SUFFIXES:
        raise OpilioError(f"a plot is written as .png or .svg, not as {path.name}")
    if not path.parent.is_dir():
        raise OpilioError(f"the folder {path.parent} does not exist")
    _pyplot()


def _pyplot() -> Any:
    try:
        import matplotlib as mpl  # noqa: PLC0415 - an extra of its own: large, and only plots need it
    except ImportError:
        raise OpilioError("plots need matplotlib: pip install 'opilio[plot]'") from None
    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    return plt


def write(comparison: Comparison, path: Path) -> None:
    pyplot = _pyplot()
    figure, axes = pyplot.subplots(figsize=(10, 5.5), layout="constrained")
    for name, score in comparison.policies.items():
        part = comparison.days / len(score.series)
        axes.plot(
            [(index + 0.5) * part for index in range(len(score.series))],
            score.series,
            label=f"{name}  {score.freshness:.3f}",
            linewidth=2.6 if name == "adaptive" else 1.3,
            linestyle="--" if name == "oracle" else "-",
        )
    axes.axvspan(0, comparison.warm_up_days, color="0.94", label="warm-up (not scored)")
    axes.set_xlim(0, comparison.days)
    axes.set_xlabel("days")
    axes.set_ylabel("freshness, weighted by importance")
    axes.set_title(
        f"{comparison.pages:,} pages, {comparison.changes:,} changes, "
        f"{comparison.budget:g} crawls per page and day"
    )
    axes.legend(title="rule, freshness after warm-up", loc="lower right")
    axes.grid(alpha=0.3)
    figure.savefig(path)
    pyplot.close(figure)
