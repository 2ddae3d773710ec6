"""Filtered back projection and SIRT from 36 noisy views of one slice."""
import numpy as np
from pictures import save
import tomos


def main(folder=".", size=192):
    A = tomos.Projector(tomos.Grid(size), tomos.parallel(views=36, columns=size))
    truth = tomos.phantom("shepp-logan-2d-modified", size)
    b = tomos.add_noise(A @ truth, 0.02)

    fbp = tomos.fbp(A, b, filter="hann")
    sirt = tomos.sirt(A, b, iterations=150, minimum=0)

    images = {"the phantom": truth}
    for name, x in ("filtered back projection", fbp), ("SIRT, 150 iterations, x >= 0", sirt):
        images[f"{name}\nerror {tomos.compare(truth, x).relative_l2:.2f}"] = x
    save(folder, "few_views", images, 0, 0.6)
    return np.array([tomos.compare(truth, x).relative_l2 for x in (fbp, sirt)])


if __name__ == "__main__":
    print(main())
