"""Gradients through projectors and filtered back projection, for PyTorch.

    >>> A = tomos.Projector(tomos.Grid(16), tomos.parallel(views=12, columns=16))
    >>> project = tomos.torch.Operator(A)          # a torch.nn.Module; project.T the adjoint
    >>> x = torch.zeros(16, 16, requires_grad=True)
    >>> loss = (project(x) - 1).square().sum()
    >>> loss.backward()
    >>> x.grad.shape
    torch.Size([16, 16])

Tensors may have more axes in front (batches, channels): the operator is applied to each part. They
stay on their device, the host or a GPU that the projector's backend uses; float64 tensors are
converted, as the library computes in float32.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from ._geometry import as_poses, pose_change
from ._methods import fbp as _fbp, fbp_transpose as _fbp_transpose
from ._operator import _PROJECTIONS, _VOLUME
from ._projector import Projector

__all__ = ["FBP", "Operator", "adjoint", "fbp", "forward", "posed"]


def _shapes(shape: tuple, axis: int) -> list:
    """Shapes that the last axes of a tensor may have."""
    flat = [shape[:axis] + shape[axis + 1:]] if shape[axis] == 1 else []
    return [shape, *flat]


def _split(x: torch.Tensor, shape: tuple, axis: int, what: str) -> tuple:
    """The axes in front, and the number of those behind: 3, or 2 without the flat axis."""
    for last in _shapes(shape, axis):
        if tuple(x.shape[-len(last):]) == last:
            return tuple(x.shape[:x.ndim - len(last)]), len(last)
    raise ValueError(f"{what} has shape {tuple(x.shape)}; its last axes must be "
                     + " or ".join(map(str, _shapes(shape, axis))))


def _apply(function: Any, x: torch.Tensor, source: tuple, target: tuple) -> torch.Tensor:
    """Applies a linear map to each part of a tensor; source and target: shape, flat axis, name."""
    (shape, axis, what), (result, result_axis, _) = source, target
    batch, ndim = _split(x, shape, axis, what)
    last = _shapes(result, result_axis)[0 if ndim == 3 else -1]
    parts = x.detach().to(torch.float32).reshape(math.prod(batch), *shape)
    out = torch.empty((len(parts), *result), dtype=torch.float32, device=x.device)
    for part, result_part in zip(parts, out):
        function(part, result_part)
    return out.reshape(*batch, *last).to(x.dtype)


class _Linear(torch.autograd.Function):
    """y = F x with the gradient F' g; `maps` has F, F', source and target."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, maps: tuple) -> torch.Tensor:
        ctx.maps, ctx.shape = maps, x.shape
        function, _, source, target = maps
        return _apply(function, x, source, target)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple:
        function, transposed, source, target = ctx.maps
        back = _Linear.apply(gradient, (transposed, function, target, source))
        return back.reshape(ctx.shape), None


def _ends(A: Projector) -> tuple:
    return (A.domain, _VOLUME, "the volume"), (A.range, _PROJECTIONS, "the projections")


def _check(A: Projector) -> None:
    if not isinstance(A, Projector):
        raise TypeError(f"tomos.torch works on a tomos.Projector, not on a {type(A).__name__}")


def _projection(A: Projector) -> tuple:
    _check(A)
    if not A.matched:
        raise ValueError(f"gradients need a matched pair of projectors, not {A!r}")
    volume, projections = _ends(A)
    return lambda x, out: A(x, out), lambda y, out: A.adjoint(y, out), volume, projections


def _transposed(maps: tuple) -> tuple:
    function, transposed, source, target = maps
    return transposed, function, target, source


def forward(A: Projector, x: torch.Tensor) -> torch.Tensor:
    """The projections of a volume, with gradients."""
    return _Linear.apply(x, _projection(A))


def adjoint(A: Projector, y: torch.Tensor) -> torch.Tensor:
    """The back projection of projections, with gradients."""
    return _Linear.apply(y, _transposed(_projection(A)))


def fbp(A: Projector, y: torch.Tensor, **options: Any) -> torch.Tensor:
    """Filtered back projection, with gradients; options as of `tomos.fbp`."""
    _check(A)
    volume, projections = _ends(A)
    return _Linear.apply(y, (lambda b, out: _fbp(A, b, out=out, **options),
                             lambda x, out: _fbp_transpose(A, x, out=out, **options),
                             projections, volume))


class _Posed(torch.autograd.Function):
    """A(poses) x with gradients with respect to poses and x."""

    @staticmethod
    def forward(ctx: Any, A: Projector, x: torch.Tensor, poses: torch.Tensor) -> torch.Tensor:
        host = as_poses(poses.detach().to("cpu", torch.float64).numpy(), A.range[0])
        posed = Projector(A.grid, A.geometry.moved(host), A.model, A._name, **A.options)
        ctx.posed, ctx.poses, ctx.kind = posed, host, (poses.dtype, poses.device)
        ctx.save_for_backward(x)
        volume, projections = _ends(A)
        return _apply(lambda part, out: posed(part, out), x, volume, projections)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple:
        (x,), posed, on_x, on_poses = ctx.saved_tensors, ctx.posed, None, None
        volume, projections = _ends(posed)
        if ctx.needs_input_grad[1]:
            on_x = _apply(lambda y, out: posed.adjoint(y, out), gradient, projections, volume)
            on_x = on_x.reshape(x.shape)
        if ctx.needs_input_grad[2]:
            on_poses = _pose_gradient(posed, ctx.poses, x, gradient)
            on_poses = on_poses.to(dtype=ctx.kind[0], device=ctx.kind[1])
        return None, on_x, on_poses


def _pose_gradient(posed: Projector, poses: np.ndarray, x: torch.Tensor,
                   gradient: torch.Tensor) -> torch.Tensor:
    """J' g at the moved views, and from there to the poses: summed over the axes in front."""
    volumes = x.detach().to(torch.float32).reshape(-1, *posed.domain)
    images = gradient.detach().to(torch.float32).reshape(-1, *posed.range)
    total = np.zeros((posed.range[0], 6))
    for volume, image in zip(volumes, images):
        out = torch.empty((1, posed.range[0], 6), dtype=torch.float32, device=x.device)
        posed.pose_jacobian(volume).adjoint(image.contiguous(), out)
        total += out[0].to("cpu", torch.float64).numpy()
    return torch.from_numpy(np.einsum("vij,vi->vj", pose_change(poses), total))


def posed(A: Projector, x: torch.Tensor, poses: torch.Tensor) -> torch.Tensor:
    """The projections of a volume by the views moved by poses (views, 6), with gradients with
    respect to both; the poses as `tomos.Geometry.moved` takes them.

    >>> A = tomos.Projector(tomos.Grid(16), tomos.parallel(views=12, columns=16))
    >>> poses = torch.zeros(12, 6, requires_grad=True)
    >>> tomos.torch.posed(A, torch.ones(16, 16), poses).square().sum().backward()
    >>> poses.grad.shape
    torch.Size([12, 6])
    """
    _projection(A)
    return _Posed.apply(A, x, poses)


class Operator(torch.nn.Module):
    """A projector as a module: `Operator(A)(x)`, `Operator(A).T(y)`."""

    def __init__(self, A: Projector, transposed: bool = False) -> None:
        super().__init__()
        _projection(A)
        self.projector, self.transposed = A, transposed

    @property
    def T(self) -> "Operator":
        return Operator(self.projector, not self.transposed)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (adjoint if self.transposed else forward)(self.projector, x)

    def extra_repr(self) -> str:
        return f"{self.projector!r}{', transposed' if self.transposed else ''}"


class FBP(torch.nn.Module):
    """Filtered back projection as a module; options as of `tomos.fbp`."""

    def __init__(self, A: Projector, **options: Any) -> None:
        super().__init__()
        _check(A)
        self.projector, self.options = A, options

    def forward(self, y: torch.Tensor) -> torch.Tensor:
        return fbp(self.projector, y, **self.options)

    def extra_repr(self) -> str:
        return ", ".join([repr(self.projector), *(f"{k}={v!r}" for k, v in self.options.items())])
