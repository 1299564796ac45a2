# SPDX-License-Identifier: GPL-3.0-or-later
"""What bodies have in common: roles of their bones, ranges and stiffness of their joints, masses.

Read in this order: `roles` (which bone is which part), `role_edits` (roles that a user has changed),
`limit_boxes` (anatomical movements as channels), `human` and `digits` (published ranges of people's
joints), `anthropometry` and `volumes` (masses of the parts, by tables or by shape).
"""
