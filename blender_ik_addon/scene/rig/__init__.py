# SPDX-License-Identifier: GPL-3.0-or-later
"""A character as a problem: what is read for a solve, and what is reported.

Read in this order: `rig` (reads frames, states the problem, measures what Blender shows), `reports` (numbers
and words), `noted` (what a solve was for and where bones are held, noted in the file), `keying` (auto-key).
"""
