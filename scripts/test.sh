#!/usr/bin/env bash
# Install what the tests need, check the style, run the tests.
#
#   bash scripts/test.sh                      everything but the slow tests
#   bash scripts/test.sh tests/test_x.py -x   arguments go to pytest
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh
use_environment requirements-dev.txt

"$PYTHON" -m ruff check .
"$PYTHON" -m pytest "$@"
