#!/usr/bin/env bash
# CLUE's tasks of classification, and LCQMC, BQ, PAWS-X, XNLI, ChnSentiCorp: a table, a zip.
#   SEEDS="1 2 3" bash scripts/run_clue.sh MODEL_DIR CLUE_DIR OUTPUT_DIR [flags for every run]
# CLUE_DIR holds a folder a task (afqmc, tnews, …). TASKS="tnews csl" runs these alone,
# SKIP_MISSING=1 passes over tasks without a folder, PYTHON names the interpreter. The settings are
# usual ones for base, from scripts/task_suite.py; tiny wants --learning_rate 1e-4.
# Started again, it goes on where it was.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}" \
  exec "${PYTHON:-python3}" -m scripts.task_suite clue "$@"
