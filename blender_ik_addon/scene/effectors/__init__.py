# SPDX-License-Identifier: GPL-3.0-or-later
"""Effectors: bones with targets, as tasks for the solver.

Read in this order: `effectors` (what is stored of each), `frame_data` (bones and targets over some
frames), `kinds` (a module for each family of kinds: which tasks it asks for), `goals` (all tasks of a
character), `targets` (empties that are made), `entries` (effectors added, removed and moved),
`transforms` (objects put somewhere, keys included), `target_parents` and `moved_targets` (targets that go
with the armature or with a bone), `masses` and `skins` (of bones, for balance).
"""
