"""Draws a soak's samples.

python -m bench.soak_plot SAMPLES.jsonl PLOT.svg
"""

import json
import sys
from pathlib import Path


def main(samples: Path, plot: Path) -> None:
    import matplotlib as mpl  # type: ignore[import-not-found]  # in the benches' environment alone

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    found = [sample for line in samples.read_text().splitlines() if "at_s" in (sample := json.loads(line))]
    minutes = [sample["at_s"] / 60 for sample in found]
    figure, axes = plt.subplots(4, 1, sharex=True, figsize=(9, 10), layout="constrained")
    rows = (
        ("resident memory, MiB", [sample["resident_kib"] / 1024 for sample in found]),
        ("tasks", [sample["tasks"] for sample in found]),
        ("descriptors", [sample["descriptors"] for sample in found]),
        ("streaming", [sample["streaming"] for sample in found]),
    )
    for axis, (title, values) in zip(axes, rows, strict=True):
        axis.plot(minutes, values, linewidth=1)
        axis.set_ylabel(title)
        axis.set_ylim(0, 1.15 * max(values))
        axis.grid(visible=True, alpha=0.3)
    axes[-1].set_xlabel("minutes")
    figure.savefig(plot)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
