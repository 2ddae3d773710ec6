"""Scans drawn in 3-D: a helix and laminography."""
from pictures import plt, save
import tomos


def main(folder=".", views=72):
    scans = [tomos.helix(views=3 * views, rows=48, columns=64, source_axis=100,
                         source_detector=150, pitch=30, arc=1080, degrees=True),
             tomos.laminography(views=views, rows=48, columns=64, tilt=35, degrees=True)]
    figure = plt.figure(figsize=(10, 5), layout="constrained")
    for i, scan in enumerate(scans, 1):
        scan.plot(figure.add_subplot(1, 2, i, projection="3d"), views=4)
    save(folder, "scans", figure)
    return scans


if __name__ == "__main__":
    print(*main(), sep="\n")
