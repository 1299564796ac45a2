# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests in a real Blender window with the built extension; the standard library is all that they need."""
