"""People who label the miniature's answers, simulated with a known error."""

from collections.abc import Mapping

from tools.miniature.rng import Rng


def labels(
    truth: Mapping[str, bool], error: float, annotators: int = 3, seed: int = 0
) -> list[dict[str, str | int]]:
    """Return rows of item, annotator and label (1 or 0), as `bon calibrate --labels` reads them.

    truth: by item, whether it is right. error: how often an annotator is wrong.
    """
    return [
        {
            "item": item,
            "annotator": f"person-{person}",
            "label": int(is_right != Rng("annotator", seed, person, item).chance(error)),
        }
        for item, is_right in truth.items()
        for person in range(1, annotators + 1)
    ]
