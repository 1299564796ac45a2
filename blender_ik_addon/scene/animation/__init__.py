# SPDX-License-Identifier: GPL-3.0-or-later
"""F-curves, and keys in them.

Read in this order: `fcurves` (channels, their curves and keys), `dependence` (what a target depends on).
"""
