# SPDX-License-Identifier: GPL-3.0-or-later
"""Trails and ghosts: where bones and targets are at the frames round the playhead, and changing that.

Read in this order: `sampling` (places at other frames, by keys alone, by evaluating, or by solving as Live
would), `trails` (what has a trail, what is kept and when it is sampled again,
what is drawn), `editing` (a point of a trail that is moved). Nothing is drawn here.
"""
