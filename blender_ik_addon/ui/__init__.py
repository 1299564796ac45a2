# SPDX-License-Identifier: GPL-3.0-or-later
"""Operators and panels: they show what `scene` knows, and call it. They decide nothing about IK."""
