# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one of the modules that make the pages of docs/measured: python -m benchmarks MODULE ARGUMENT ..."""

import importlib
import sys

if __name__ == "__main__":
    sys.exit(importlib.import_module(f"benchmarks.{sys.argv.pop(1)}").main())
