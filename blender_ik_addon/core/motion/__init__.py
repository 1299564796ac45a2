# SPDX-License-Identifier: GPL-3.0-or-later
"""Motions that are there already, and how they are corrected.

    Skeleton, Pose, Character ─ contacts.limb_tracks ─▶ Track ─ contacts.find_contacts ─▶ on (F, points)
    Track, on ─ locking.locked ─▶ Track that holds what is planted: targets of feet and hands

Read in this order: `contacts` (when feet and hands are on something), `locking` (what holds them there).
"""

from .contacts import ContactOptions, Track, find_contacts, leg_length, limb_tracks, spans
from .locking import locked

__all__ = [
    "ContactOptions",
    "Track",
    "find_contacts",
    "leg_length",
    "limb_tracks",
    "locked",
    "spans",
]
