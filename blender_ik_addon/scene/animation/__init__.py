# SPDX-License-Identifier: GPL-3.0-or-later
"""F-curves, and keys in them.

Read in this order: `fcurves` (channels and their curves), `key_writing` (keys of many frames at once),
`mapped_keys` (the same keys elsewhere: mirrored, or in another space), `dependence` (which animation a
value depends on).
"""
