# SPDX-License-Identifier: GPL-3.0-or-later
"""Blender data in and out: may import bpy and `core`, never `ui`."""
