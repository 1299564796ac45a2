# SPDX-License-Identifier: GPL-3.0-or-later
"""What bodies have in common: roles of their bones, ranges and stiffness of their joints, masses.

    Skeleton ─ roles.recognise ─▶ Character ─ role_edits.rows_of ─▶ table of roles, which a user may change
    table ─ role_edits.revised ─▶ Character ─ human.joint_defaults ─▶ limits, stiffness, preferred angles
    table ─ anthropometry.body_masses ─▶ masses;  Skin ─ volumes.bone_volumes ─▶ masses by volume

    Character ─ anatomy.anatomical_joints ─▶ axes of the bones;  with recorded.RECORDED ─ preferences ─▶
    stiffness by role, angles of a natural pose

Read in this order: `roles` (which bone is which part), `role_edits` (roles that a user has changed),
`limit_boxes` (anatomical movements as channels), `anatomy`, `recorded` and `preferences` (how recorded motion
turns the parts of a body, and what joints prefer for that), `human`, `digits` and `animals` (published ranges
of joints), `anthropometry` and `volumes` (masses of the parts, by tables or by shape).
"""
