# SPDX-License-Identifier: GPL-3.0-or-later
"""What is to be solved: tasks on a skeleton, settings, and the tasks as functions of the free channels.

Read in this order: `problem` (a skeleton, its tasks and what is preferred), `options` (settings of a solve),
`system` (a problem on poses: residual, Jacobian and Hessian of all its tasks, inequalities as equations).
"""
