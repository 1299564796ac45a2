# SPDX-License-Identifier: GPL-3.0-or-later
"""The methods of the papers: step rules in a small loop of their own, and nonlinear programming.

They are for those who know them from the literature, and to compare with; PRIORITY is not among them. None
knows levels: all tasks are stacked into one residual. Each starts from the pose it is given and changes it
step by step; limits hold in every step.

Read in this order: `inverses` and `step_rules` (the papers' formulas, on matrices alone), `stacked` (the
residual and its derivatives), `step_problem` (what each method asks of its rule), `loop` (limits, clamps,
acceptance), `bounded_bfgs` and `nonlinear` (the method NONLINEAR). The solver runs `StepRuleLoop` and
`NonlinearProgram`; formulas are exported for experiments.
"""

from .bounded_bfgs import Minimum, minimize_bounded
from .inverses import (
    RANK_TOLERANCE,
    damped_inverse,
    null_space_projection,
    prioritized_inverse,
    pseudo_inverse,
    three_effector_inverse,
    two_effector_inverse,
    weighted_inverse,
)
from .loop import StepRuleLoop
from .nonlinear import NonlinearProgram, penalized_error
from .stacked import StackedProblem
from .step_problem import basic_elements
from .step_rules import (
    GAMMA_MAX,
    SpringInverse,
    baillieul_step,
    bounded_least_squares_step,
    clamped_largest,
    clamped_magnitude,
    damped_step,
    extended_jacobian_step,
    gradient_projection_step,
    planar_elements,
    pseudo_inverse_step,
    selectively_damped_step,
    spring_forces,
    spring_inverse,
    springs_step,
    transpose_step,
)

__all__ = [
    "GAMMA_MAX",
    "RANK_TOLERANCE",
    "Minimum",
    "NonlinearProgram",
    "SpringInverse",
    "StackedProblem",
    "StepRuleLoop",
    "baillieul_step",
    "basic_elements",
    "bounded_least_squares_step",
    "clamped_largest",
    "clamped_magnitude",
    "damped_inverse",
    "damped_step",
    "extended_jacobian_step",
    "gradient_projection_step",
    "minimize_bounded",
    "null_space_projection",
    "penalized_error",
    "planar_elements",
    "prioritized_inverse",
    "pseudo_inverse",
    "pseudo_inverse_step",
    "selectively_damped_step",
    "spring_forces",
    "spring_inverse",
    "springs_step",
    "three_effector_inverse",
    "transpose_step",
    "two_effector_inverse",
    "weighted_inverse",
]
