# SPDX-License-Identifier: GPL-3.0-or-later
"""What Poise stores in a file: settings, effectors, limits and masses of bones.

Read in this order: `settings` (all that is stored), `naming` (bones that get another name), `overrides`
(files that are linked), `versions` (older files).
"""
