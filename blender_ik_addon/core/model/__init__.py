# SPDX-License-Identifier: GPL-3.0-or-later
"""Skeletons, poses, forward kinematics and its derivatives.

Read in this order: `skeleton` (joints, channels, limits, poses), `rotation` (angles, quaternions,
matrices), `kinematics` (exact forward kinematics of a whole pose), `mechanism` (forward kinematics of the
joints that a problem moves, as functions of their free channels, with Jacobians and Hessians of points and
rotations). Tasks and targets are in other packages.
"""
