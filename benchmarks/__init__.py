# SPDX-License-Identifier: GPL-3.0-or-later
"""What is measured: a module for each page of docs/measured, run by the command that the page names."""
