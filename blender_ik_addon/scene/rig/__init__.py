# SPDX-License-Identifier: GPL-3.0-or-later
"""A character as a problem: what is read for a solve, and what is told of it.

Read in this order: `rig` (reads frames, states the problem, measures what Blender shows), `live_state`
(what a pose was solved for, noted in the file), `changes` (whether anything has changed since), `outcome`
(reports), `keying` (auto-key).
"""
