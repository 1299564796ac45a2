# SPDX-License-Identifier: GPL-3.0-or-later
"""A character made ready, kept and mirrored.

Read in this order: `setup` (Set-up Character), `effector_presets` (which parts of a body get effectors),
`preferring` (preferred angles from a pose), `presets` and `preset_files` (settings by role, in files),
`mirror` and `mirrored_targets` (from one side to the other).
"""
