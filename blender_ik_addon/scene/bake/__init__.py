# SPDX-License-Identifier: GPL-3.0-or-later
"""A range of frames solved as one motion, written as keys, played back and measured.

Read in this order: `options` (what can be asked for), `frames` (which frames), `bones` (which bones and
channels, and constraints that are cleared), `job` (a bake in small steps), `meshes` (left out while frames
are played), `destinations` (where keys go: an action, or an NLA strip over what plays), `replaced_keys` (keys
of others), `key_reduction` (fewest keys that keep bones where they are), `together` (several characters).
"""
