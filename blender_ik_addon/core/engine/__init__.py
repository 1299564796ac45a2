# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine: one energy, one minimiser, for a pose, for many poses at once, and for a motion.

Read in this order: `energy` (what is minimised), `coupling` (terms over time and the banded linear systems
they make), `kernel` (Newton's method inside limits), `restarts` (from where a pose is searched), `motion`
(many frames, coarse to fine), `pops` (turns out of proportion in the result).
"""
