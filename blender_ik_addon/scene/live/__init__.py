# SPDX-License-Identifier: GPL-3.0-or-later
"""Bodies that follow their targets while these are moved: live mode and Drag.

Read in this order: `machine` (states, events, the table, what is kept in memory), `handlers` (when Blender
calls, and polls by timer), `following` (which event an update is, and what is done), `tracking` (the prepared
problem), `driven_bones` (bones that constraints or drivers move). Drag: `dragging`, `drag_anchors` (what
holds, what may move, and the report). `overlay_geometry` is what the viewport shows of both.
"""
