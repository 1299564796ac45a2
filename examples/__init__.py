# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo: a figure steps up to a table and reaches for a cup, run by scripts/demo."""
