# SPDX-License-Identifier: GPL-3.0-or-later
"""The body: its joints, a pose of it, where a pose puts the joints, and the derivatives of that.

Read in this order: `skeleton` (joints, channels, limits, poses), `rotation` (angles, quaternions,
matrices), `kinematics` (exact forward kinematics of a whole pose), `mechanism` (the part of a body that a
problem moves, as a function of its free channels, with Jacobians and second derivatives of points and
rotations). Nothing here knows of targets.
"""
