"""With noise in the data the error of an iteration falls, and then rises again."""
import matplotlib.pyplot as plt
from pictures import save, show
import tomos


def main(folder=".", size=128):
    A = tomos.Projector(tomos.Grid(size), tomos.parallel(views=90, columns=size))
    truth = tomos.phantom("shepp-logan-2d-modified", size)
    b = tomos.add_noise(A @ truth, 0.05)

    figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
    runs = {}
    for name, iterations in ("cgls", 40), ("sirt", 200):
        history = tomos.History()
        runs[name] = getattr(tomos, name)(A, b, iterations=iterations, truth=truth, history=history)
        axes[0].semilogx(range(1, iterations + 1), history.error, label=name.upper())
        axes[0].plot(history.best, history.error[history.best - 1], "ko", ms=4)
        runs[name + " best"] = history.best, history.error
    axes[0].set(xlabel="iteration", ylabel="relative error", ylim=(0.2, 0.9))
    axes[0].legend()

    best = runs["cgls best"][0]
    show(axes[1], f"CGLS, iteration {best}: the best", tomos.cgls(A, b, iterations=best), 0, 0.6)
    show(axes[2], "CGLS, iteration 40", runs["cgls"], 0, 0.6)
    save(folder, "semiconvergence", figure)
    return runs["cgls best"]


if __name__ == "__main__":
    print(main())
