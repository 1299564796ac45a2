# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine: one energy, one minimiser, for a pose, for many poses at once, and for a motion.

Read in this order: `energy` (what is minimised), `coupling` (what ties the frames of a motion together, and
how their linear systems are solved), `kernel` (how the minimum is found), `restarts` (how a better one is
looked for).
"""
