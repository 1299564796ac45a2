# SPDX-License-Identifier: GPL-3.0-or-later
"""The methods of the papers: step rules in a small loop of their own, and nonlinear programming.

They are for those who know them from the literature, and to compare with; PRIORITY is not among them. None
knows levels: all tasks are stacked into one residual. Each starts from the pose it is given and changes it
step by step; limits hold in every step.

Read in this order: `step_rules` (the papers' formulas, on matrices alone), `loop` (the
residual of all tasks, what each method asks of its rule, limits, clamps, acceptance), `nonlinear` (the method
NONLINEAR and its minimiser), `paths` (targets on a line or an arc, for whatever method).
"""

from .loop import StepRuleLoop
from .nonlinear import NonlinearProgram
from .paths import target_path
from .step_rules import bounded_least_squares_step, row_space

__all__ = ["NonlinearProgram", "StepRuleLoop", "bounded_least_squares_step", "row_space", "target_path"]
