# SPDX-License-Identifier: GPL-3.0-or-later
"""Blender's data in and out; all that scripts call is in `posing`.

A use case reads all that it needs, solves without a call into Blender, then writes. Packages, each of
which imports only those before it: `kinds` (of effectors, as goals and tasks), `properties` (what is stored
in the file), `animation` (F-curves and keys), `armature` (bones as a skeleton and a pose), `effectors`
(entries and their targets), `rig` (a whole character as a problem), `live` (live mode and Drag), `character`
(set-up, presets, mirror), `bake` (a range of frames), `matching` (targets from the motion of bones, and
corrections), `trails` (where bones and targets are at other frames). Above them `posing`, the door; below
them `jobs` (work in steps), `units` (lengths as Blender shows them) and `compat` (what versions of Blender do
differently).
"""
