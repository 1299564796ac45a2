# SPDX-License-Identifier: GPL-3.0-or-later
"""Bones as a skeleton, a pose and roles, and poses written into bones.

Read in this order: `armature` (an armature object as a skeleton, and bones that constraints or drivers pose),
`rotation_modes`, `limits` (from IK limits and constraints), `poses` (poses read and written, and noted with
who has posed the bones), `restoring` (what is put back after a bake or an error), `switches` (IK and FK of
control rigs, and controls of IK), `role_table` (roles that are stored, and bones of the other side).
"""
