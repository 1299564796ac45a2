# SPDX-License-Identifier: GPL-3.0-or-later
"""A character is set up, stored and mirrored.

Read in this order: `setup` (Set Up Character), `preferring` (limits and preferred angles from the pose),
`presets` and `preset_files` (settings by role, in files), `mirror`.
"""
