# SPDX-License-Identifier: GPL-3.0-or-later
"""Bodies that follow their targets while these are moved: live mode and Drag.

Read in this order: `handlers` (when Blender calls, and looks by timer), `following` (what has moved, and
one update), `tracking` (the prepared problem), `returning` (poses to come back to), `driven_bones` (bones
that answer to a solve), `fields` (number fields that are dragged). Drag: `dragging`, `drag_start` (which
bone), `drag_anchors` (what stays), `drag_reports`. `overlay_geometry` is what the viewport shows of both.
"""
