"""Operators as SciPy's LinearOperator; imported where that is asked for."""
from __future__ import annotations

from typing import Any

from scipy.sparse.linalg import LinearOperator

from ._operator import Operator


class Linear(LinearOperator):
    """An operator on flat vectors."""

    def __init__(self, operator: Operator) -> None:
        self.tomos_operator = operator
        super().__init__(operator.dtype, operator.shape)

    def _matvec(self, x: Any) -> Any:
        return self.tomos_operator.matvec(x)

    def _rmatvec(self, y: Any) -> Any:
        return self.tomos_operator.rmatvec(y)

    def _transpose(self) -> "Linear":
        return Linear(self.tomos_operator.T)

    _adjoint = _transpose

    def __reduce__(self) -> tuple:
        return Linear, (self.tomos_operator,)
