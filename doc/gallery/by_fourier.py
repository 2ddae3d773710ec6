"""Filtered back projection, directly and by Fourier transforms, and the difference of the two."""
import numpy as np
from pictures import save
import tomos


def main(folder=".", size=160):
    A = tomos.Projector(tomos.Grid(size), tomos.parallel(views=size, columns=size))
    b = A @ tomos.phantom("shepp-logan-2d-modified", size)
    y, x = np.mgrid[:size, :size] - (size - 1) / 2
    inside = np.hypot(x, y) < size / 2 - 2

    images, largest = {}, []
    for name in "ram-lak", "hann":
        direct = tomos.fbp(A, b, filter=name)
        apart = (tomos.fbp(A, b, filter=name, by="fourier") - direct) * inside
        extent = direct[inside].max() - direct[inside].min()
        largest.append(abs(apart).max() / extent)
        if not images:
            images["directly"] = direct
        images[f"difference x 4, {name}\nat most {100 * largest[-1]:.1f} % of the range"] = 0.5 + 4 * apart
    save(folder, "by_fourier", images, 0, 1)
    return largest


if __name__ == "__main__":
    print(main())
