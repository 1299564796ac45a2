# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a target is missed, and what a pose allows.

Read in this order: `constraint_forces` (what holds the forces of missed tasks), `explanation` (the reason
of each, in words), `analysis` (singular values, manipulability, drift), `diagnosis` (lost directions and
straight limbs of a pose).
"""
