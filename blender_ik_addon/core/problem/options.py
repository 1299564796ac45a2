# SPDX-License-Identifier: GPL-3.0-or-later
"""The methods, and the settings of a solve."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import inf, radians
from types import NoneType
from typing import Final, Literal, TypedDict, get_args

import numpy as np

from ..arrays import check_number, check_whole
from ..errors import IKError, check_switch, check_type

METHODS: Final[dict[str, str]] = {
    "PRIORITY": "Strict priorities: what matters more never gives way to what matters less",
    "DLS": "Damped least squares: all targets share the error by weight, priorities are ignored",
    "SDLS": "Selectively damped least squares: each direction damped by how far it would move the effectors",
    "PSEUDO_INVERSE": "The smallest steps to all targets; what they leave free goes to the preferred pose",
    "TRANSPOSE": "Steepest descent: cheap steps, steady out of reach, slow; no preferred pose",
    "SPRINGS": "Springs towards the preferred pose: closed paths of the targets lead back to the same pose",
    "EXTENDED_JACOBIAN": "Pairs of neighbouring bones keep their shape where the targets do not ask for more",
    "BOUNDED": "Damped least squares inside the limits, solved exactly in every step",
    "NONLINEAR": "Minimises the error and the distance to the preferred pose as a whole, by a bounded L-BFGS",
}
"""Identifier of each method and what it does, in one line."""

USED_BY: Final[dict[str, frozenset[str]]] = {
    "clamp_distance": frozenset(METHODS) - {"PRIORITY", "NONLINEAR"},
    "clamp_after_jump": frozenset(METHODS) - {"PRIORITY", "NONLINEAR"},
    "alternate_jacobian": frozenset(METHODS) - {"PRIORITY", "SPRINGS", "NONLINEAR"},
    "damping": frozenset({"DLS", "SPRINGS", "BOUNDED"}),
    "constant_damping": frozenset({"DLS", "SPRINGS", "BOUNDED"}),
    "max_angle": frozenset(METHODS) - {"NONLINEAR"},
    "null_space_gain": frozenset({"DLS", "PSEUDO_INVERSE", "SPRINGS", "EXTENDED_JACOBIAN", "BOUNDED"}),
    "element_weight": frozenset({"EXTENDED_JACOBIAN"}),
    "gamma": frozenset({"NONLINEAR"}),
    "redundancy": frozenset(METHODS) - {"SDLS", "TRANSPOSE"},
    "restarts": frozenset({"PRIORITY"}),
    "smoothness": frozenset({"PRIORITY"}),
}
"""The methods that have a use for a setting; every method has for those that are not listed."""

FROM_ZERO: Final = ("gamma", "smoothness")
"""Settings that may be 0; other numbers must be above it."""

Redundancy = Literal["preferred", "start"]


@dataclass(frozen=True)
class SolverOptions:
    """How to solve."""

    method: str = "PRIORITY"
    """One of `METHODS`."""
    redundancy: Redundancy = "preferred"
    """Where what the tasks leave free goes: to the skeleton's "preferred" values, or it stays as near as it
    can to the "start"."""
    max_iterations: int = 100
    """Most iterations of one descent, at least 1. One that begins at soft weights has as many at full ones;
    targets that cannot all be met take several."""
    tolerance_position: float = 1e-4
    """Error at which a place counts as reached [m], above 0."""
    tolerance_rotation: float = 1e-3
    """Error at which an orientation counts as reached [rad], above 0."""
    step_tolerance: float = 1e-6
    """Largest change of a channel [rad] at which the pose counts as standing still, above 0."""
    max_angle: float = 0.8
    """Largest change of an angle in one iteration [rad] [Buss2009 §6], above 0; at most π/4 for SDLS."""
    clamp_distance: float | None = None
    """Dmax of [Buss2009 §6]: residuals of places are shortened to this [m]; None for not at all."""
    clamp_after_jump: bool = False
    """Whether the targets count as having jumped at the start of a solve [Buss2009 §6]: Dmax is then infinite
    for one step, afterwards what the last step has brought nearer is added to it."""
    alternate_jacobian: bool = False
    """Whether the Jacobian of a place is taken at the target instead of the point [Buss2009 §2]; after a step
    that brought nothing, and where a target is no place, the usual one is."""
    damping: float = 0.1
    """λ at a residual of the reach [1], above 0; smaller residuals are damped less [Sugihara2011]."""
    constant_damping: bool = False
    """Whether λ is the same for every residual [Buss2009 §5]: steadier, and slower."""
    null_space_gain: float = 1.0
    """Part of the way to the preferred pose [1] that one step goes where the tasks leave it free, above 0;
    less where that overshoots."""
    element_weight: float = 0.1
    """w of the rows of the basic elements [SochLorencz2005 §3] at a residual of the reach [1], above 0;
    smaller residuals have less."""
    gamma: float = 0.03
    """γ of the distance to the preferred pose [KiSheen eq. 3.1], from 0, with errors in units of the reach. A
    smaller one comes nearer to it; it takes longer. The targets are met in any case."""
    restarts: int = 24
    """From how many other poses to start when a target is missed; 0: never."""
    smoothness: float = 0.2
    """Time over which a motion is smooth [s], from 0: frames further apart than this hardly affect each
    other. 0 solves every frame of a motion alone."""
    pop_angle: float = radians(3.0)
    """Least change of a joint's turn from one frame of a motion to the next [rad] that is reported as a pop,
    above 0."""

    def __post_init__(self) -> None:
        for key in ("method", "redundancy"):
            check_type(f"{key} is text", getattr(self, key), str)
        if self.method not in METHODS:
            raise IKError(f"unknown method {self.method!r}; there are {', '.join(METHODS)}")
        known = get_args(Redundancy)
        if self.redundancy not in known:
            raise IKError(f"redundancy must be one of {', '.join(known)}, got {self.redundancy!r}")
        for key, least in (("max_iterations", 1), ("restarts", 0)):
            check_whole(key, getattr(self, key), least)
        for each in fields(self):
            value = getattr(self, each.name)
            if each.type == "float":
                check_number(each.name, value, 0.0, above=each.name not in FROM_ZERO)
                object.__setattr__(self, each.name, float(value))
            elif each.type == "bool":
                check_switch(each.name, value)
        if self.clamp_distance is not None:
            if not isinstance(self.clamp_distance, float | np.floating) or self.clamp_distance != inf:
                check_number("clamp_distance", self.clamp_distance, 0.0, above=True)
            object.__setattr__(self, "clamp_distance", float(self.clamp_distance))
        if self.alternate_jacobian and not self.uses("alternate_jacobian"):
            users = ", ".join(name for name in METHODS if name in USED_BY["alternate_jacobian"])
            raise IKError(f"{self.method} has no use for the alternate Jacobian; these have: {users}")

    def uses(self, setting: str) -> bool:
        """Whether the method has a use for one of these fields."""
        return setting not in USED_BY or self.method in USED_BY[setting]

    @property
    def preferred_pose(self) -> bool:
        """Whether what the tasks leave free goes to the preferred pose."""
        return self.redundancy == "preferred"

    @property
    def differential(self) -> bool:
        """Whether the method is one of the papers' (`methods`): step by step from the pose it is given.

        All targets are one level then, by their weights. PRIORITY lowers one energy, of a motion as a whole.
        """
        return self.method != "PRIORITY"


class Overrides(TypedDict, total=False):
    """Fields of `SolverOptions`, by name."""

    method: str
    redundancy: Redundancy
    max_iterations: int
    tolerance_position: float
    tolerance_rotation: float
    step_tolerance: float
    max_angle: float
    clamp_distance: float | None
    clamp_after_jump: bool
    alternate_jacobian: bool
    damping: float
    constant_damping: bool
    null_space_gain: float
    element_weight: float
    gamma: float
    restarts: int
    smoothness: float
    pop_angle: float


def with_overrides(options: SolverOptions | None, overrides: Overrides) -> SolverOptions:
    """Options with some fields replaced by name.

    Raises:
        IKError: There is no such option, or its value is not possible.
    """
    known = SolverOptions.__dataclass_fields__
    unknown = sorted(overrides.keys() - known.keys())
    if unknown:
        raise IKError(f"there is no option {unknown[0]!r}; there are {', '.join(known)}")
    check_type("options are SolverOptions, or None", options, SolverOptions, NoneType)
    return replace(options or SolverOptions(), **overrides)
