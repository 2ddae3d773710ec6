"""A cone beam whose detector sees little more than half of the object: the axis near one edge."""
import numpy as np
from pictures import save
import tomos


def main(folder=".", size=128):
    columns, rows, views = 5 * size // 8, 3 * size // 8, 3 * size
    distances = dict(source_axis=4 * size, source_detector=6 * size, pixel=1.5)
    head = tomos.Phantom("shepp-logan-modified", radius=0.48 * size)
    grid = tomos.Grid((rows // 3, size, size))

    wide = tomos.cone(views=views, rows=rows, columns=size + size // 8, **distances)
    offset = tomos.cone(views=views, rows=rows, columns=columns, axis=size / 16, **distances)
    middle = tomos.cone(views=views, rows=rows, columns=columns, **distances)

    found = {}
    for name, scan in (("wide detector", wide), ("offset detector", offset),
                       ("the same detector in the middle", middle)):
        A = tomos.Projector(grid, scan)
        found[f"{name}\n{scan.shape[2]} columns"] = tomos.fdk(A, head.project(scan))[grid.shape[0] // 2]
    save(folder, "offset_detector", found, 0, 0.6)
    truth = head.volume(grid)[grid.shape[0] // 2]
    return np.array([tomos.compare(truth, x).relative_l2 for x in found.values()])


if __name__ == "__main__":
    print(main())
