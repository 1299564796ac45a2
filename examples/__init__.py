# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo, a figure that reaches for a cup (scripts/demo), and a foot lock without Blender (foot_lock)."""
