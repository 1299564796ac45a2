# SPDX-License-Identifier: GPL-3.0-or-later
"""What callers do: solve one pose, many frames, or follow targets that move.

Read in this order: `solver` (one pose: its solution and message, and which of several alternatives is taken),
`sequence` (many frames), `tracker` and `follower` (targets that move from one update to the next). The engine
minimises; this package says what is minimised, and reports the result.
"""
