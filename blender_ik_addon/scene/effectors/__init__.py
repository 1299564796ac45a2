# SPDX-License-Identifier: GPL-3.0-or-later
"""Effectors in Blender: the entries of the list and their targets; what they ask for is in `kinds`.

Read in this order: `effectors` (entries as plain data, and what is read of them at a frame), `entries`
(added, removed and moved), `transforms` (targets put somewhere, and targets that go along), `rests` (what is
noted when the armature is applied), `masses` (of bones, for balance).
"""
