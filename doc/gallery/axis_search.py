"""Where is the axis? find_center says; a reconstruction about the right one has the least below zero."""
import matplotlib.pyplot as plt
import numpy as np
from pictures import save, show
import tomos


def main(folder=".", size=128, true=None):
    true = size / 2 + 3.4 if true is None else true
    theta = np.linspace(0, np.pi, 2 * size, endpoint=False)
    head = tomos.Phantom("shepp-logan-2d-modified", radius=0.44 * size)
    tomo = tomos.add_noise(head.project(tomos.parallel(theta, columns=size, axis=true)), 0.01)[:, 0]

    def below_zero(center):
        x = tomos.recon(tomo, theta, center=center, filter="hann")
        return -x[x < 0].sum()

    centres = np.arange(size / 2 - 2, size / 2 + 9, 0.5)
    sums = [below_zero(c) for c in centres]
    found = tomos.find_center(tomo, theta)

    figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
    axes[0].plot(centres, sums, ".-")
    axes[0].axvline(found, color="grey", lw=0.8)
    axes[0].set(xlabel="column of the axis", ylabel="what lies below zero", yticks=[])
    for axis, c in zip(axes[1:], (found - 2, found)):
        show(axis, f"axis at {c:.1f}", tomos.recon(tomo, theta, center=c), 0, 0.6)
    save(folder, "axis_search", figure)
    return found, true


if __name__ == "__main__":
    print(main())
