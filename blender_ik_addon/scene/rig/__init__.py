# SPDX-License-Identifier: GPL-3.0-or-later
"""A character as a problem: what is read for a solve, and what is reported.

Read in this order: `rig` (reads frames, states the problem, measures what Blender shows), `live_state`
(what a pose was solved for, noted in the file), `changes` (whether anything has changed since), `reports`
(numbers and words), `keying` (auto-key).
"""
