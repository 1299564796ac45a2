# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a target is missed, and what a pose allows.

Read in this order: `explanation` (a reason in names and words), `reasons` (what holds the forces of missed
tasks: how the reason is found), `diagnosis` (lost directions and straight limbs of a pose, singular values,
manipulability).
"""
