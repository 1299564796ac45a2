# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets that come from the motion of bones, and how that motion is corrected with them.

Read in this order: `snapping` (targets to bones, on a frame or with keys), `recording` (keyed targets from a
clip, which is kept and preferred), `corrections` (offsets that ease in and out), `contacts` (planted feet and
hands are locked), `grip` (hands that hold a prop).
"""
