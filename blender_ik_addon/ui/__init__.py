# SPDX-License-Identifier: GPL-3.0-or-later
"""Operators and panels: they show what `scene` knows, and call it. They decide nothing about IK.

Read in this order: `acting` (which armature and effector are meant, what operators share), `operators`,
`panels` (the sidebar tab and the menus), `mouse` and `drag` (dragging bones), `handles` (points of effectors
that are clicked and dragged), `trails` (the same of trails), `overlay` (what is drawn over figures),
`preferences` (colours, shortcuts).
"""
