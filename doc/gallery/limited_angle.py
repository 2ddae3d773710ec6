"""Views over 130 of 180 degrees: what a penalty on the total variation brings back."""
import numpy as np
from pictures import save
import tomos


def main(folder=".", size=128, iterations=600):
    scan = tomos.parallel(views=130, columns=size, arc=130, start=25, degrees=True)
    A = tomos.Projector(tomos.Grid(size), scan)
    truth = tomos.phantom("shepp-logan-2d-modified", size)
    b = tomos.add_noise(A @ truth, 0.005)

    found = {
        "filtered back projection": tomos.fbp(A, b),
        "SIRT, x >= 0": tomos.sirt(A, b, iterations=iterations // 2, minimum=0),
        "total variation, x >= 0": tomos.pdhg(A, b, iterations=iterations, strength=0.05, minimum=0),
    }
    errors = [tomos.compare(truth, x).relative_l2 for x in found.values()]
    images = {f"{name}\nerror {e:.2f}": x for (name, x), e in zip(found.items(), errors)}
    save(folder, "limited_angle", images, 0, 0.6)
    return np.array(errors)


if __name__ == "__main__":
    print(main())
