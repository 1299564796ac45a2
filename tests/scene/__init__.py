# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the scene layer, with Blender as a Python module (pip bpy)."""
