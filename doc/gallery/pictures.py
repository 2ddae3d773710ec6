"""Pictures of the gallery: slices side by side."""
from pathlib import Path

import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


def show(axes, title, image, low, high):
    axes.imshow(image, cmap="gray", vmin=low, vmax=high, interpolation="nearest")
    axes.set_title(title, fontsize=9)
    axes.axis("off")


def save(folder, name, what, low=0, high=1):
    """A figure, or images by their titles."""
    if isinstance(what, dict):
        figure, axes = plt.subplots(1, len(what), figsize=(3.2 * len(what), 3.9), layout="constrained")
        for place, (title, image) in zip(axes, what.items()):
            show(place, title, image, low, high)
    else:
        figure = what
    path = Path(folder) / f"{name}.png"
    figure.savefig(path, dpi=58)
    plt.close(figure)
    return path
