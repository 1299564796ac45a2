# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds of effectors, without Blender: a class for each has all that tells it from the others.

Read in this order: `frame_data` (bones and targets over some frames), `kinds` (what each kind asks for),
`plan` (what all effectors together ask for, as a problem for the solver).
"""
