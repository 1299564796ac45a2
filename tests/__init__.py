# SPDX-License-Identifier: GPL-3.0-or-later
"""All tests; a package, so that tests.core.builders and tests.scene.builders are two modules."""
