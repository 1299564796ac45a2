# SPDX-License-Identifier: GPL-3.0-or-later
"""Tasks: what a pose should achieve, as residuals to drive to zero.

A task is complete when it is made, target included; to move the target use `dataclasses.replace`. It belongs
to a priority level (0 is highest) and has a weight within it. Targets may carry a leading frame axis.

For solving, the tasks of one kind, of whatever levels, are stacked into rows that give, on a placed
mechanism, the residual r (F, m), its Jacobian J (F, m, nv) with r(q + dq) ≈ r + J dq, and the curvature
Σ_k r_k ∂²r_k/∂q∂q (F, nv, nv) by which the Hessian of ½|r|² differs from JᵀJ.
"""

from .aims import AimAt
from .base import AxisTask, JointTask, Rows, Task
from .channels import StayNear
from .choices import ChoiceRows, OneOf
from .frames import Balance, MatchOrientation, OnPlane, ReachFrame, ReachPoint, Side
from .functions import KeepDistance, PointPole

__all__ = [
    "AimAt",
    "AxisTask",
    "Balance",
    "ChoiceRows",
    "JointTask",
    "KeepDistance",
    "MatchOrientation",
    "OnPlane",
    "OneOf",
    "PointPole",
    "ReachFrame",
    "ReachPoint",
    "Rows",
    "Side",
    "StayNear",
    "Task",
]
