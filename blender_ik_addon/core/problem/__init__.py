# SPDX-License-Identifier: GPL-3.0-or-later
"""What is to be solved: tasks on a body, settings, and both as functions of the free channels.

Read in this order: `problem` (a body and its tasks), `options` (settings of a solve), `system` (residual,
Jacobian and curvature of all tasks, level by level; and the channels that are added for points above
one-sided planes).
"""
