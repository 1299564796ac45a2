# SPDX-License-Identifier: GPL-3.0-or-later
"""Effectors: bones with targets, as tasks for the solver.

Read in this order: `effectors` (what is stored of each, as plain data), `targets` (what is read of each at a
frame), `frame_data` (arrays of these over some frames), `kinds` (goal, tasks and errors of each kind),
`goals` (all tasks of a character), `entries` (effectors added, removed and moved), `transforms` (objects put
somewhere, keys included), `target_parents` and `moved_targets` (targets that go with the armature or with a
bone), `masses` and `skins` (of bones, for balance).
"""
