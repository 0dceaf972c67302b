#!/usr/bin/env bash
# The tests that take minutes: whole training runs, the quick start itself.
exec bash "$(dirname "${BASH_SOURCE[0]}")/test.sh" -m slow "$@"
