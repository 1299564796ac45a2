# SPDX-License-Identifier: GPL-3.0-or-later
"""A character as a problem: what is read for a solve, and what is reported.

Read in this order: `rig` (reads frames, states the problem, measures what Blender shows), `reports` (numbers
and words), `live_state` (what a pose was solved for, noted in the file, and whether that has changed),
`keying` (auto-key).
"""
