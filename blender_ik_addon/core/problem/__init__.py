# SPDX-License-Identifier: GPL-3.0-or-later
"""What is to be solved: tasks on a skeleton, settings, and the tasks as functions of the free channels.

Read in this order: `options` (settings of a solve), `system` (a skeleton and its tasks; residual, Jacobian
and Hessian of all of them; and the slack variables of points above one-sided planes).
"""
