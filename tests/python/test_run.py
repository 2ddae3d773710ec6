"""tomos.run: a scan file reconstructed into a volume file, as by the command `tomos recon`."""
import contextlib
import inspect
import signal
import threading
import time
import warnings

import numpy as np
import pytest
import tomos
from conftest import COMMAND, command

ROWS, COLUMNS, VIEWS = 12, 40, 36
SCANS = {
    "parallel": tomos.parallel(views=VIEWS, rows=ROWS, columns=COLUMNS),
    "fan": tomos.fan(views=VIEWS, rows=ROWS, columns=COLUMNS, source_axis=200, source_detector=250),
    "cone": tomos.cone(views=VIEWS, rows=ROWS, columns=COLUMNS, source_axis=200,
                       source_detector=250),
}


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    """A folder with a file of projections for each geometry."""
    folder = tmp_path_factory.mktemp("scans")
    object_ = tomos.Phantom("random", radius=14, count=9, value=0.02)
    for name, geometry in SCANS.items():
        tomos.write(folder / f"{name}.h5", object_.project(geometry), geometry=geometry)
    return folder


@pytest.fixture
def counts(tmp_path):
    """A measured scan without a geometry: counts, flats and darks in a Data Exchange file."""
    h5py = pytest.importorskip("h5py")
    data = tomos.Phantom("random", radius=14, count=9, value=0.02).project(SCANS["parallel"])
    path = tmp_path / "counts.h5"
    with h5py.File(path, "w") as file:
        file["exchange/data"] = (100 + 4000 * np.exp(-data)).astype(np.uint16)
        file["exchange/data_white"] = np.full((2, ROWS, COLUMNS), 4100, np.uint16)
        file["exchange/data_dark"] = np.full((2, ROWS, COLUMNS), 100, np.uint16)
        file["exchange/theta"] = np.arange(VIEWS) * 180.0 / VIEWS
    return path


def files(path):
    """The bytes of a file, or of the files of a folder."""
    if path.is_dir():
        return {member.name: member.read_bytes() for member in sorted(path.iterdir())}
    return path.read_bytes()


def least_memory(scan, **options):
    """The memory with which the plan has the most slabs."""
    for kilobytes in range(12 * 1024, 40 * 1024, 64):
        with contextlib.suppress(tomos.OutOfMemory):
            memory = f"{kilobytes}K"
            tomos.run(scan, dry_run=True, memory=memory, **options)
            return memory
    raise AssertionError("no memory is small enough")


def late(stage, done, total, value):
    """True in the last third of a run, when the slabs before have been written."""
    if 3 * done >= 2 * total:
        time.sleep(0.2)
    return 3 * done >= 2 * total


@pytest.mark.parametrize("scan, method, options", [
    ("parallel", "fbp", {}), ("parallel", "fbp",
                              {"filter": "hann", "rows": "2:7", "size": [30, 20]}),
    ("fan", "fbp", {"interpolation": "nearest"}), ("cone", "fdk", {"memory": "20M"}),
    ("cone", None, {}), ("parallel", "sirt", {"iterations": 3, "minimum": 0.0}),
    ("cone", "cgls", {"iterations": 3}), ("fan", "pdhg", {"iterations": 3, "strength": 0.01}),
])
@pytest.mark.parametrize("output", ["volume.npy", "volume.tiff", "slices"])
@pytest.mark.skipif(COMMAND is None, reason="the command is not built or not installed")
def test_the_same_bytes_as_the_command(scans, tmp_path, scan, method, options, output):
    words = [f"--{name}={','.join(map(str, np.atleast_1d(value)))}"
             for name, value in options.items()]
    end = "/" if output == "slices" else ""
    command("recon", scans / f"{scan}.h5", *(["--method", method] if method else []), *words,
            "-o", f"{tmp_path / 'command'}_{output}{end}")
    report = tomos.run(scans / f"{scan}.h5", f"{tmp_path / 'python'}_{output}{end}", method,
                       **options)
    assert files(tmp_path / f"python_{output}") == files(tmp_path / f"command_{output}")
    assert report.slices == report.shape[0] and report.resumed == 0 and report.slabs >= 1


def test_the_same_as_the_operator(scans, tmp_path):
    for name, method in (("parallel", tomos.fbp), ("fan", tomos.fbp), ("cone", tomos.fdk)):
        report = tomos.run(scans / f"{name}.h5", tmp_path / f"{name}.npy", filter="cosine")
        A = tomos.Projector(None, SCANS[name])
        wanted = method(A, tomos.read(scans / f"{name}.h5"), filter="cosine")
        assert report.shape == A.domain
        np.testing.assert_allclose(np.load(report.output), wanted, atol=2e-7)


def test_the_default_output_is_a_folder_beside_the_scan(scans):
    report = tomos.run(scans / "parallel.h5")
    assert report.output == str(scans / "parallel_rec/")  + "/"
    assert len(list((scans / "parallel_rec").glob("*.tiff"))) == ROWS
    with pytest.raises(tomos.FileFailure, match="parallel_rec.* exists"):
        tomos.run(scans / "parallel.h5")
    assert tomos.run(scans / "parallel.h5", overwrite=True).slices == ROWS


def test_counts_with_flats(counts, tmp_path):
    report = tomos.run(counts, tmp_path / "rec.npy", rings="vo", axis_method="pairs",
                       zingers="space", pixel=0.5)
    assert any(line.startswith("axis ") for line in report.lines)
    assert isinstance(report.prep, tomos.PrepReport) and report.read_bytes > 0
    other = tomos.run(counts, tmp_path / "other.npy", axis=19.5,
                      angles=np.arange(VIEWS) * 180 / VIEWS,
                      degrees=True)
    given = tomos.run(counts, tmp_path / "given.npy", geometry=SCANS["parallel"])
    assert files(tmp_path / "given.npy") == files(tmp_path / "other.npy")
    assert other.prep.stripes == given.prep.stripes == 0


@pytest.mark.parametrize("theta", [False, True])
def test_a_flat_in_a_file_of_its_own(counts, tmp_path, theta):
    """One frame of a Data Exchange file is a projection, not a sinogram."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(counts) as file, h5py.File(tmp_path / "flat.h5", "w") as flat:
        flat["exchange/data"] = file["exchange/data_white"][:1]
        if theta:
            flat["exchange/theta"] = [0.0]
    report = tomos.run(counts, tmp_path / "rec.npy", axis=19.5, flats=tmp_path / "flat.h5")
    assert report.slices == ROWS


def test_a_doubtful_axis_is_a_warning(tmp_path):
    tomos.write(tmp_path / "even.npy", np.ones((20, 4, 32)), content="projections")
    with pytest.warns(UserWarning, match="nothing to find the axis from"):
        tomos.run(tmp_path / "even.npy", tmp_path / "rec.npy", angles=np.arange(20) * np.pi / 20)


def test_a_large_job_on_a_reference_kernel_is_a_warning(scans, tmp_path):
    with pytest.warns(UserWarning, match="the back projection, .* reference kernel, which is slow: cpu has no "
                      "optimised kernel of 'line-march' for point sources"):
        tomos.run(scans / "cone.h5", tmp_path / "rec.npy", "sirt", forward="line-march", size=(300, 300, 300),
                  iterations=100, backend="cpu", dry_run=True)


def test_stages(scans, tmp_path):
    report = tomos.run(scans / "parallel.h5", tmp_path / "stages.npy", backend="cpu")
    assert list(report.stages) == ["read", "upload", "prepare", "reconstruct", "download", "write"]
    assert report.stages["upload"] == report.stages["download"] == (0, 0)
    seconds = {name: stage[0] for name, stage in report.stages.items()}
    assert seconds[report.limiting] == max(seconds.values()) > 0
    assert report.stages["write"][1] == report.written_bytes
    assert 0 < report.start_seconds < report.seconds


def test_dry_run(scans, tmp_path):
    plan = tomos.run(scans / "parallel.h5", tmp_path / "plan.npy", dry_run=True, rows=slice(2, 10),
                     filter="hann")
    assert plan.shape == (8, COLUMNS, COLUMNS) and plan.slices == 0 and not plan.complete
    assert plan.slabs == 1 and 1e6 < plan.planned_bytes < 1e9
    assert [line.split()[0] for line in plan.lines] == ["scan", "method", "volume", "slices",
                                                        "plan", "time"]
    assert not list(tmp_path.iterdir())


def test_verbose_prints_the_lines(scans, tmp_path, capsys):
    report = tomos.run(scans / "fan.h5", tmp_path / "a.npy")
    assert capsys.readouterr().out == ""
    assert tomos.run(scans / "fan.h5", tmp_path / "b.npy", verbose=True).lines[0] == report.lines[0]
    assert report.lines[0] in capsys.readouterr().out


def test_warnings_are_of_python_and_name_the_caller(tmp_path):
    short = tomos.parallel(views=20, rows=2, columns=24, arc=1.5)
    tomos.write(tmp_path / "short.h5", np.ones(short.shape), geometry=short)
    with pytest.warns(UserWarning, match=r"^the views cover 85.* of 180 degrees") as caught:
        report = tomos.run(tmp_path / "short.h5", tmp_path / "a.npy")
    assert caught[0].filename == __file__
    assert any(line.startswith("warning: the views cover") for line in report.lines)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="the views cover"):
            tomos.run(tmp_path / "short.h5", tmp_path / "b.npy")
    assert not (tmp_path / "b.npy").exists()


def test_progress(scans, tmp_path, capsys):
    steps, threads = [], set()

    def report(*step):
        steps.append(step)
        threads.add(threading.current_thread())
    tomos.run(scans / "cone.h5", tmp_path / "a.npy", progress=report)
    assert threads == {threading.current_thread()}
    assert all(isinstance(stage, str) and 0 <= done <= total for stage, done, total, _ in steps)
    assert steps[-1][0] == "fdk" and steps[-1][1] == steps[-1][2]
    tomos.run(scans / "cone.h5", tmp_path / "b.npy", progress=True)
    assert "fdk" in capsys.readouterr().err


def interrupt(*_):
    """As Ctrl-C does, in the main thread."""
    signal.raise_signal(signal.SIGINT)


class Own(Exception):
    pass


def fail(*_):
    raise Own("mine")


@pytest.mark.parametrize("progress, failure", [
    (lambda *_: True, tomos.Cancelled), (fail, Own), (interrupt, KeyboardInterrupt)])
@pytest.mark.parametrize("output", ["volume.h5", "volume.tiff", "slices/"])
def test_stopped_and_resumed(scans, tmp_path, progress, failure, output):
    scan, path = scans / "parallel.h5", f"{tmp_path}/{output}"
    memory = least_memory(scan)
    with pytest.raises(failure) as caught:
        tomos.run(scan, path, memory=memory,
                  progress=lambda *step: late(*step) and progress(*step))
    kept = "finished slices are kept, and resume=True continues from there"
    assert kept in str(caught.value) or kept in getattr(caught.value, "__notes__", [kept])
    whole = tomos.run(scan, f"{tmp_path}/whole_{output}")
    rest = tomos.run(scan, path, memory=memory, resume=True)
    assert 0 < rest.resumed < ROWS and rest.resumed + rest.slices == ROWS == whole.slices
    np.testing.assert_array_equal(tomos.read(path), tomos.read(f"{tmp_path}/whole_{output}"))


@pytest.fixture(scope="module")
def tall(tmp_path_factory):
    """A scan of three groups of 16 slices, its projector, projections and true volume."""
    geometry = tomos.parallel(views=24, rows=40, columns=32)
    A = tomos.Projector(None, geometry)
    phantom = tomos.Phantom("random", radius=11, count=9, value=0.02)
    b, path = phantom.project(geometry), tmp_path_factory.mktemp("tall") / "tall.h5"
    tomos.write(path, b, geometry=geometry)
    return path, A, b, phantom.volume(A.grid)


@pytest.mark.parametrize("method", ["sirt", "sart", "mlem", "fista", "block"])
def test_iterative_methods_are_those_of_the_operator(tall, tmp_path, method):
    path, A, b, _ = tall
    report, history = tomos.run(path, tmp_path / "rec.npy", method, iterations=4), tomos.History()
    wanted = getattr(tomos, method)(A, b, iterations=4, history=history)
    np.testing.assert_allclose(np.load(report.output), wanted, atol=2e-6 * np.abs(wanted).max())
    assert report.iterations == 4 and report.ended == "iterations" and report.complete
    assert report.slabs == 3 and report.slices == 40
    assert abs(report.residual - history.residual[-1]) < 1e-5 * report.residual


def test_iterative_progress(tall, tmp_path):
    path, A, b, _ = tall
    steps, history = [], tomos.History()
    tomos.run(path, tmp_path / "rec.npy", "sirt", iterations=4, rows=":16",
              progress=lambda *step: steps.append(step))
    part = tomos.Projector(None, tomos.parallel(views=24, rows=16, columns=32))
    tomos.sirt(part, b[:, :16], iterations=4, history=history)
    values = [value for stage, done, total, value in steps if stage == "sirt" and value > 0]
    np.testing.assert_allclose(values, history.residual, rtol=1e-6)


def test_iterative_inputs_are_arrays_or_files(tall, tmp_path, rng):
    path, A, b, truth = tall
    mask, weights = (truth > 0).astype(np.float32), rng.random(b.shape, np.float32)
    history = tomos.History()
    wanted = tomos.sirt(A, b, truth / 2, iterations=3, mask=mask, ray_weights=weights, truth=truth,
                        history=history)
    given = {"start": truth / 2, "mask": mask, "ray_weights": weights, "truth": truth}
    for name, array in given.items():
        tomos.write(tmp_path / f"{name}.npy", array,
                    content="projections" if name == "ray_weights" else "volume")
    for i, inputs in enumerate((given, {name: tmp_path / f"{name}.npy" for name in given})):
        report = tomos.run(path, tmp_path / f"{i}.npy", "sirt", iterations=3, **inputs)
        np.testing.assert_array_equal(np.load(report.output), wanted)
        assert abs(report.error - history.error[-1]) < 1e-6
        assert report.best == history.best and report.difference is None


def test_compare(tall, tmp_path):
    path, A, b, truth = tall
    for method, options in (("sirt", {"iterations": 3}), ("fbp", {})):
        report = tomos.run(path, tmp_path / f"{method}.npy", method, compare=truth, **options)
        wanted = tomos.compare(truth, np.load(report.output))
        np.testing.assert_allclose(report.difference, wanted, rtol=1e-5)


def test_hdf5_outputs_have_the_call(tall, tmp_path):
    h5py = pytest.importorskip("h5py")
    path, A, b, truth = tall
    tomos.run(path, tmp_path / "rec.h5", "sirt", iterations=2, start=truth[:16], rows=slice(0, 16))
    with h5py.File(tmp_path / "rec.h5") as file:
        text = file["process/command"][()].decode()
    assert text == (f"tomos.run({str(path)!r}, output={str(tmp_path / 'rec.h5')!r}, method='sirt', "
                    "iterations=2, rows='0:16', start=<array (16, 32, 32)>, backend='auto')")


def test_iterative_plan(tall, tmp_path):
    plan = tomos.run(tall[0], tmp_path / "rec.npy", "sirt", dry_run=True)
    assert plan.shape == (40, 32, 32) and plan.slabs == 3 and plan.slices == plan.iterations == 0
    assert np.isnan(plan.residual) and not list(tmp_path.iterdir())


@pytest.mark.parametrize("output", ["volume.h5", "slices/"])
@pytest.mark.parametrize("stop, failure", [
    (lambda *_: True, tomos.Cancelled), (interrupt, KeyboardInterrupt)])
def test_iterative_stopped_and_resumed(tall, tmp_path, output, stop, failure):
    path = tall[0]
    options = {"iterations": 5, "minimum": 0}
    with pytest.raises(failure):
        tomos.run(path, f"{tmp_path}/{output}", "sirt", **options,
                  progress=lambda *step: late(*step) and stop(*step))
    rest = tomos.run(path, f"{tmp_path}/{output}", "sirt", resume=True, **options)
    whole = tomos.run(path, f"{tmp_path}/whole_{output}", "sirt", **options)
    assert rest.resumed in (16, 32) and rest.slices == 40 - rest.resumed and whole.resumed == 0
    np.testing.assert_array_equal(tomos.read(rest.output), tomos.read(whole.output))


def test_one_slab_stopped_has_its_last_iterate(tall, tmp_path):
    path = tall[0]
    report = tomos.run(path, tmp_path / "rec.npy", "sirt", iterations=9, rows=":16",
                       progress=lambda stage, done, total, value: done == 3)
    assert report.complete and report.ended == "cancelled" and report.iterations == 3
    tomos.run(path, tmp_path / "three.npy", "sirt", iterations=3, rows=":16")
    assert files(tmp_path / "rec.npy") == files(tmp_path / "three.npy")


def test_ctrl_c_is_prompt(tmp_path):
    """A signal while the library computes, without a progress function."""
    geometry = tomos.cone(views=720, rows=160, columns=160, source_axis=500, source_detector=600)
    tomos.write(tmp_path / "large.npy", np.ones(geometry.shape, np.float32), content="projections")
    times = []

    def send():
        times.append(time.monotonic())
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    timer = threading.Timer(0.5, send)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        tomos.run(tmp_path / "large.npy", tmp_path / "rec.npy", geometry=geometry, size=320)
    # The whole run takes ten seconds and more; on an idle machine Ctrl-C takes a fraction of one.
    assert time.monotonic() - times[0] < 3
    timer.join()
    assert not (tmp_path / "rec.npy").exists()


def test_from_several_threads(scans, tmp_path):
    failures = []

    def work(i):
        try:
            tomos.run(scans / "cone.h5", tmp_path / f"{i}.npy", progress=lambda *_: False)
        except BaseException as failure:
            failures.append(failure)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and len({files(tmp_path / f"{i}.npy") for i in range(4)}) == 1


def test_penalty_within_slices(tall, tmp_path):
    path, A, b, _ = tall
    options = dict(strength=0.5, iterations=3, norm=50.0, penalty_within="slices")
    report, wanted = tomos.run(path, tmp_path / "v.npy", "pdhg", **options), tomos.pdhg(A, b, **options)
    assert report.slabs == 3
    np.testing.assert_allclose(np.load(report.output), wanted, atol=2e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("options, failure, message", [
    (dict(filtr="hann"), TypeError, "tomos.run has no option 'filtr'; did you mean 'filter'"),
    (dict(filter="hans"), ValueError, "filter 'hans' is not known; did you mean 'hann'"),
    (dict(method="srit"), ValueError, "method 'srit' is not known; did you mean 'sirt'"),
    (dict(method="magic"), ValueError, "method 'magic' is not known; there are fbp, fdk, sirt"),
    (dict(iterations=3), ValueError, "iterations has no effect with method fbp"),
    (dict(filter="hann", method="sirt"), ValueError, "filter has no effect with method sirt"),
    (dict(strength=1.0, method="sirt"), ValueError, "strength has no effect with method sirt"),
    (dict(start=np.ones((ROWS, COLUMNS, COLUMNS))), ValueError,
     "start has no effect with method fbp"),
    (dict(mask="mask.npy"), ValueError, "mask has no effect with method fbp"),
    (dict(mask=np.ones((3, 3)), method="sirt"), tomos.BadFile, "mask.* is 1 x 3 x 3"),
    (dict(truth="missing.npy", method="sirt"), OSError, "'missing.npy' cannot be opened"),
    (dict(stored="csrr", method="sirt"), ValueError, "'csrr' is not known; did you mean 'csr'"),
    (dict(keep_best=True, method="sirt"), ValueError, "keep_best has no effect without truth"),
    (dict(ring_snr=3.0), ValueError, "ring_snr has no effect without rings=vo"),
    (dict(tolerance=1e-3, method="sirt"), ValueError,
     "tolerance has no effect without stop=change"),
    (dict(flat_average="mean"), ValueError, "flat_average has no effect without flat fields"),
    (dict(window=[0, 1]), ValueError, "window has no effect without type=uint16|uint8"),
    (dict(compress=3), ValueError, "compress has no effect without an HDF5 file"),
    (dict(rows="9:2"), ValueError, "rows '9:2': it must be FIRST:END with 0 <= FIRST < END <= 12"),
    (dict(rows=slice(0, 8, 2)), ValueError, "rows are used with step 1, not 2"),
    (dict(columns=slice(-3, None)), ValueError, "columns '-3:': it must be FIRST:END"),
    (dict(axis=3.0), ValueError, "'axis' has no effect: '.*parallel.h5' has a geometry of its own"),
    (dict(axis_method="vo"), ValueError,
     "'axis_method' has no effect: '.*' has a geometry of its own"),
    (dict(geometry=SCANS["parallel"], arc=1.0), ValueError,
     "'arc' has no effect: the views are those of `geometry`"),
    (dict(geometry=tomos.parallel(views=3, columns=4)), ValueError,
     "has the shape 36 x 12 x 40, but"),
    (dict(angles=np.arange(VIEWS) * 5.0), ValueError, "look like degrees: give degrees=True"),
    (dict(memory="1K"), MemoryError, "MiB of memory are too few"),
    (dict(method="pdhg", strength=1.0, memory="80M"), MemoryError,
     "set the option 'penalty_within' to 'slices'"),
    (dict(memory="3 X"), ValueError, "the unit 'X' is not known for a size"),
    (dict(memory=None, iterations=2.5, method="sirt"), TypeError,
     "iterations=2.5 is not of the kind"),
    (dict(backend="cude"), ValueError, "backend 'cude' is not known; did you mean 'cuda'"),
    (dict(backend=3), TypeError, "a backend is one of the names"),
    (dict(method="fdk"), NotImplementedError, "parallel rays go with fbp"),
    (dict(output="volume.foo"), ValueError, "does not say the format to write"),
    (dict(output=None, overwrite=True), ValueError, "output '.*parallel.h5' is the scan itself"),
    (dict(scan="missing.h5"), OSError, "'missing.h5' cannot be opened: No such file"),
    (dict(scan=3), TypeError, "expected str, bytes or os.PathLike"),
    (dict(progress=3), TypeError, "progress is True, False or a function"),
])
def test_what_is_rejected(scans, tmp_path, options, failure, message):
    given = {"scan": scans / "parallel.h5", "output": tmp_path / "rec.npy", **options}
    given["output"] = given["output"] or given["scan"]
    with pytest.raises(failure, match=message):
        tomos.run(**given)
    assert not (tmp_path / "rec.npy").exists()


def test_every_option_of_the_command_is_a_keyword():
    parameters = inspect.signature(tomos.run).parameters
    assert list(parameters)[:3] == ["scan", "output", "method"]
    assert {"filter", "iterations", "rings", "axis", "size", "forward", "memory", "type", "share",
            "resume",
            "dry_run", "flats"} <= set(parameters)
    for name in parameters:
        assert f"    {name}: " in tomos.run.__doc__ or f"`{name}" in tomos.run.__doc__, name
