# SPDX-License-Identifier: GPL-3.0-or-later
"""What is raised when the input is wrong; not converging is a result and raises nothing."""


class IKError(ValueError):
    """Wrong input: the message says what is wrong, where (bone, channel, shape), and what to do about it."""
