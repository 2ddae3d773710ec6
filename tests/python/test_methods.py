"""Methods: results, callbacks, options, errors; recon with the arguments of TomoPy."""
import inspect
import subprocess
import sys
import time

import numpy as np
import pytest
import tomos
from tomos._methods import METHODS
from tomos._options import GROUPS


def error(x, truth):
    return float(np.linalg.norm(x - truth) / np.linalg.norm(truth))


@pytest.mark.parametrize("name", METHODS)
def test_every_method_comes_nearer(slice_problem, name):
    A, truth, y = slice_problem
    method = getattr(tomos, name)
    options = {"noise_level": 0.01} if name == "asd_pocs" else {}
    few, many = (method(A, y, iterations=n, **options) for n in (2, 12))
    assert many.shape == A.domain and many.dtype == np.float32
    assert error(many, truth) < error(few, truth) < 1
    np.testing.assert_array_equal(method(A, y[:, 0], iterations=2, **options), few[0])


def test_signatures_come_from_the_table():
    p = inspect.signature(tomos.sirt).parameters
    assert list(p)[:3] == ["A", "b", "x0"] and p["iterations"].default == 20
    assert p["minimum"].default == -np.inf and p["weights"].annotation is str
    assert "strength" not in p and "strength" in inspect.signature(tomos.cgls).parameters
    assert GROUPS["algebraic"].rows["weights"].described in " ".join(tomos.sirt.__doc__.split())
    assert "--" not in tomos.sirt.__doc__.replace("-------", "")
    assert inspect.signature(tomos.Projector).parameters["boundary"].default == "expand"
    assert list(inspect.signature(tomos.parallel).parameters)[0] == "angles"


def test_start_and_out(slice_problem):
    A, truth, y = slice_problem
    x = tomos.cgls(A, y, iterations=3)
    start = x.copy()
    more = tomos.sirt(A, y, x, iterations=2)
    np.testing.assert_array_equal(x, start)
    out = np.empty((A.domain[1], 2 * A.domain[2]), np.float32)[:, ::2]
    assert tomos.sirt(A, y, x, iterations=2, out=out) is out
    np.testing.assert_array_equal(out, more[0])


def test_callback_sees_the_iterates_and_stops(slice_problem):
    A, truth, y = slice_problem
    seen = []
    x = tomos.sirt(A, y, iterations=9, callback=lambda x, k,
                   r: seen.append((x.copy(), k, r)) or k == 4)
    assert [k for _, k, _ in seen] == [1, 2, 3, 4]
    np.testing.assert_array_equal(seen[-1][0], x)
    np.testing.assert_array_equal(seen[1][0], tomos.sirt(A, y, iterations=2))
    assert abs(seen[1][2] - error(A @ tomos.sirt(A, y, iterations=2), y)) < 1e-4
    # An array the library cannot work in is kept up to date all the same.
    out = np.empty((*A.domain[1:], 2), np.float32)[..., 0]
    values = []
    tomos.sirt(A, y[:, 0], iterations=2, out=out, callback=lambda x, k, r: values.append(x.copy()))
    np.testing.assert_array_equal(values[1], tomos.sirt(A, y, iterations=2)[0])


def test_exceptions_of_callbacks_are_raised(slice_problem):
    A, _, y = slice_problem
    with pytest.raises(ZeroDivisionError):
        tomos.sirt(A, y, callback=lambda x, k, r: 1 / 0)
    assert tomos.sirt(A, y, iterations=1).any()


def test_callback_runs_in_the_calling_thread(slice_problem):
    import threading
    A, _, y = slice_problem
    seen = set()
    tomos.sirt(A, y, iterations=2, callback=lambda *_: seen.add(threading.current_thread()))
    assert seen == {threading.current_thread()}


def test_history_mask_and_truth(slice_problem):
    A, truth, y = slice_problem
    history = tomos.History()
    mask = truth[0] > 0
    x = tomos.sirt(A, y, iterations=6, mask=mask, truth=truth, history=history, keep_best=True)
    assert not x[0][~mask].any() and history.best == 6 and history.ended == "iterations"
    assert len(history.residual) == 6 and (np.diff(history.error) < 0).all()
    assert abs(history.error[-1] - error(x, truth)) < 1e-4
    tomos.sirt(A, tomos.add_noise(y, 0.05), iterations=200, stop="discrepancy", noise_level=0.05,
               history=history)
    assert history.ended == "discrepancy" and 1 < len(history.residual) < 200


@pytest.mark.parametrize("call, failure, message", [
    (lambda A, y: tomos.sirt(A, y, iteration=3), TypeError,
     "no option 'iteration'; did you mean 'iterations'"),
    (lambda A, y: tomos.sirt(A, y, strength=3), TypeError, "tomos.sirt has no option 'strength'"),
    (lambda A, y: tomos.sirt(A, y, iterations=2.5), TypeError,
     r"iterations=2.5 is not of the kind"),
    (lambda A, y: tomos.sirt(A, y, relaxation=7), tomos.BadValue,
     "relaxation 7: it must be between"),
    (lambda A, y: tomos.sirt(A, y, weights="srt"), ValueError, "did you mean 'sirt'"),
    (lambda A, y: tomos.sirt(A, y, mask=np.ones((3, 3))), ValueError, "mask has shape"),
    (lambda A, y: tomos.sirt(A.T, y), ValueError, "the volume has shape"),
    (lambda A, y: tomos.fbp(A, y, filter="ramp"), ValueError, "filter 'ramp' is not known"),
    (lambda A, y: tomos.fdk(A, y), tomos.Unsupported, "parallel rays go with fbp"),
    (lambda A, y: tomos.sirt(A, y, ray_weights=-np.ones(y.shape)), ValueError,
     "must not be negative"),
])
def test_rejected(slice_problem, call, failure, message):
    A, _, y = slice_problem
    with pytest.raises(failure, match=message):
        call(A, y)


def test_absolute_values():
    disc = tomos.Phantom([tomos.Ellipsoid(axes=(20, 20, np.inf), value=0.02)])
    for scan in (tomos.parallel(views=180, columns=64),
                 tomos.fan(views=360, columns=90, source_axis=200, source_detector=250)):
        A = tomos.Projector(tomos.Grid(64), scan)
        x = tomos.fbp(A, disc.project(scan))[0]
        assert abs(x[24:40, 24:40].mean() - 0.02) < 2e-5


def test_options_of_the_projector():
    """fbp takes `plain` from the projector; its own argument wins."""
    scan = tomos.parallel(views=90, rows=16, columns=96)
    y = tomos.Phantom("ball", radius=30).project(scan)
    A, plain = tomos.Projector(None, scan, backend="cpu"), \
        tomos.Projector(None, scan, backend="cpu", plain=True)
    fast, reference = tomos.fbp(A, y), tomos.fbp(A, y, plain=True)
    assert not np.array_equal(fast, reference) and error(fast, reference) < 1e-5
    assert np.array_equal(tomos.fbp(plain, y), reference)
    assert np.array_equal(tomos.fbp(plain, y, plain=False), fast)
    assert np.array_equal(tomos.fbp_transpose(plain, fast),
                          tomos.fbp_transpose(A, fast, plain=True))


class TestRecon:
    theta = np.linspace(0, np.pi, 60, endpoint=False)
    blob = tomos.Phantom([tomos.Ellipsoid((6, 3, 0), (5, 4, np.inf), value=0.02)])

    def tomo(self, **options):
        return self.blob.project(tomos.parallel(self.theta, rows=3, columns=48, **options))

    def truth(self):
        return self.blob.volume(tomos.Grid((3, 48, 48)))

    @pytest.mark.parametrize("method", ["fbp", "gridrec", "sirt", "cgls", "osem"])
    def test_methods(self, method):
        rec = tomos.recon(self.tomo(), self.theta, algorithm=method)
        assert rec.shape == (3, 48, 48) and error(rec, self.truth()) < 0.35

    def test_sinogram_order_is_only_a_view(self):
        tomo = self.tomo()
        sinograms = np.ascontiguousarray(tomo.swapaxes(0, 1))
        np.testing.assert_array_equal(tomos.recon(sinograms, self.theta, sinogram_order=True),
                                      tomos.recon(tomo, self.theta))
        np.testing.assert_allclose(tomos.recon(sinograms[1], self.theta),
                                   tomos.recon(tomo, self.theta)[1], atol=1e-7)

    def test_center(self):
        rec = tomos.recon(self.tomo(axis=20.25), self.theta, center=20.25)
        plain = tomos.recon(self.tomo(), self.theta)
        assert error(rec[:, 10:38, 10:38], plain[:, 10:38, 10:38]) < 0.15
        assert error(tomos.recon(self.tomo(axis=20.25), self.theta, center=20.75), plain) > 0.2

    def test_degrees_and_pixel(self):
        tomo = self.tomo()
        rec = tomos.recon(tomo, np.degrees(self.theta), degrees=True, pixel=0.5)
        np.testing.assert_allclose(rec, 2 * tomos.recon(tomo, self.theta), rtol=1e-3, atol=1e-5)
        with pytest.raises(ValueError, match="degrees=True"):
            tomos.parallel(np.degrees(self.theta), columns=8)

    def test_tomopy_names(self):
        tomo = self.tomo()
        rec = tomos.recon(tomo, self.theta, algorithm="sirt", num_iter=3, num_gridx=40,
                          num_gridy=30,
                          ncore=1, nchunk=1)
        assert rec.shape == (3, 30, 40)
        a = tomos.recon(tomo, self.theta, algorithm="fbp", filter_name="shepp")
        np.testing.assert_array_equal(a, tomos.recon(tomo, self.theta, filter="shepp-logan"))
        start = tomos.recon(tomo, self.theta)
        near = tomos.recon(tomo, self.theta, algorithm="sirt", num_iter=1, init_recon=start)
        assert error(near, start) < 0.1

    def test_any_scan(self):
        scan = tomos.cone(views=40, rows=8, columns=24, source_axis=100, source_detector=150)
        ball = tomos.Phantom("ball", radius=5, value=0.1)
        rec = tomos.recon(ball.project(scan), geometry=scan, method="fdk")
        assert abs(rec[4, 12, 12] - 0.1) < 0.01

    @pytest.mark.parametrize("arguments, failure, message", [
        (dict(), TypeError, "needs theta"),
        (dict(theta=[0.0, 1.0]), ValueError, r"theta has shape \(2,\) for 60 views"),
        (dict(theta=theta, method="magic"), ValueError, "method 'magic' is not known"),
        (dict(theta=theta, geometry=1), TypeError, "one or the other"),
        (dict(theta=theta, callback=print), TypeError, "does not iterate"),
        (dict(theta=theta, cutof=1), TypeError, "did you mean 'cutoff'"),
    ])
    def test_rejected(self, arguments, failure, message):
        with pytest.raises(failure, match=message):
            tomos.recon(self.tomo(), **arguments)


INTERRUPT = """
import sys, threading, time, _thread, signal, os
import numpy as np, tomos
signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored where tests run
tomos.threads(1)
n = 256
scan = tomos.cone(views=400, rows=n, columns=n, source_axis=1000, source_detector=1500)
A = tomos.Projector(tomos.Grid((n, n, n)), scan, plain=True)
x, y = np.ones(A.domain, np.float32), np.ones(A.range, np.float32)
calls = {"forward": lambda: A @ x, "sirt": lambda: tomos.sirt(A, y), "fdk": lambda: tomos.fdk(A, y),
         "norm": lambda: A.norm()}
sent = []
def interrupt():
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
threading.Timer(0.6, interrupt).start()
try:
    calls[sys.argv[1]]()
    print("not interrupted")
except KeyboardInterrupt:
    print("stopped", time.monotonic() - sent[0])
"""


@pytest.mark.parametrize("call", ["forward", "sirt", "fdk", "norm"])
def test_ctrl_c_stops_within_a_second(call):
    done = subprocess.run([sys.executable, "-c", INTERRUPT, call], capture_output=True, text=True,
                          timeout=120)
    word, _, seconds = done.stdout.strip().partition(" ")
    # One second, and some more on a busy machine.
    assert word == "stopped" and float(seconds) < 1.5, done.stdout + done.stderr


def test_the_interpreter_lock_is_released():
    import threading
    A = tomos.Projector(tomos.Grid((64, 64, 64)), tomos.parallel(views=60, rows=64, columns=64))
    x, ticks, going = np.ones(A.domain, np.float32), 0, True

    def tick():
        nonlocal ticks
        while going:
            ticks += 1
            time.sleep(0.001)
    thread = threading.Thread(target=tick)
    thread.start()
    begin, before = time.monotonic(), ticks
    while time.monotonic() - begin < 0.3:
        A(x)
    ran, going = ticks - before, False
    thread.join()
    assert ran > 20


def test_progress_bar(slice_problem, capsys, monkeypatch):
    A, _, y = slice_problem
    tomos.sirt(A, y, iterations=3, progress=True)
    printed = capsys.readouterr().err
    assert "sirt" in printed and ("3/3" in printed or "3 of 3" in printed)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    tomos.fbp(A, y, progress=True)
    assert "fbp: 48 of 48" in capsys.readouterr().err


@pytest.mark.parametrize("scan", [
    tomos.parallel(views=20, rows=2, columns=16), tomos.parallel(views=40, columns=16,
                                                                 arc=2 * np.pi),
    tomos.fan(views=30, columns=24, source_axis=50, source_detector=70),
    tomos.fan(views=30, columns=24, source_axis=50, source_detector=70, arc=4.2),
    tomos.cone(views=30, rows=5, columns=24, source_axis=50, source_detector=70)])
@pytest.mark.parametrize("options", [{}, {"filter": "hann"}, {"interpolation": "nearest"},
                                     {"filter": "none"}, {"filter_taps": 5}])
def test_the_transpose_of_fbp(scan, options, rng):
    A = tomos.Projector(None, scan)
    x, y = rng.random(A.domain, np.float32), rng.random(A.range, np.float32)
    left = np.vdot(tomos.fbp(A, y, **options).astype(float), x)
    right = np.vdot(y.astype(float), tomos.fbp_transpose(A, x, **options))
    size = np.linalg.norm(tomos.fbp(A, y, **options)) * np.linalg.norm(x)
    assert abs(left - right) < 1e-5 * size


@pytest.mark.parametrize("scan, options, message", [
    (dict(roll=0.1), {}, "rotated detectors"),
    (dict(axis=3.0, arc=2 * np.pi), {}, "an offset detector"),
    ({}, {"padding": "edge"}, "padding other than zero"),
    ({}, {"interpolation": "oversampled"}, "oversampled interpolation")])
def test_without_a_transpose(scan, options, message):
    A = tomos.Projector(None, tomos.parallel(views=20, rows=4, columns=16, **scan))
    with pytest.raises(tomos.Unsupported, match=message):
        tomos.fbp_transpose(A, np.zeros(A.domain), **options)
