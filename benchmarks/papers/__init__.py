# SPDX-License-Identifier: GPL-3.0-or-later
"""The experiments of the papers, reproduced: scripts/papers."""
