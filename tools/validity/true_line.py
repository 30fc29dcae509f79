"""The line of true accuracies beside least squares: `python -m tools.validity.true_line`.

2,000 studies of 14 rewarders per row, true slope .5, errors of both axes with known variances,
rewarders scattered around the line by 0, 2 or 4 points.
"""

import numpy as np
from scipy import special

from bon.analysis.correlation.line import structural

STUDIES, REWARDERS, SLOPE = 2000, 14, 0.5


def main() -> None:
    """Print median slopes and how often 95% intervals cover the true slope."""
    rng = np.random.default_rng(0)
    t = special.stdtrit(REWARDERS - 2, 0.975)
    shape = (STUDIES, REWARDERS)
    print("reliability  scatter  fitted  slope  covers  least squares  covers")
    for reliability in (0.95, 0.8, 0.6):
        for scatter in (0.0, 0.02, 0.04):
            true = rng.normal(0.6, 0.1, shape)
            errors = np.full(shape, 0.01 * (1 / reliability - 1)), np.full(shape, 0.01**2)
            x = true + np.sqrt(errors[0]) * rng.normal(size=shape)
            y = 0.2 + SLOPE * true + np.hypot(scatter, 0.01) * rng.normal(size=shape)
            line = structural(x, y, *errors)
            known = np.isfinite(line.slope)
            covers = (abs(line.slope - SLOPE) < t * np.sqrt(line.slope_error))[known].mean()
            dx = x - x.mean(axis=1, keepdims=True)
            sxx = (dx**2).sum(axis=1)
            flat = (dx * y).sum(axis=1) / sxx
            rest = y - y.mean(axis=1, keepdims=True) - flat[:, None] * dx
            error = np.sqrt((rest**2).sum(axis=1) / (REWARDERS - 2) / sxx)
            print(
                f"{reliability:11.2f}  {scatter:7.2f}  {known.mean():6.3f}  "
                f"{np.median(line.slope[known]):5.3f}  {covers:6.3f}  {np.median(flat):13.3f}  "
                f"{(abs(flat - SLOPE) < t * error).mean():6.3f}"
            )


if __name__ == "__main__":
    main()
