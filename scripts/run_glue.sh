#!/usr/bin/env bash
# GLUE whole: nine tasks and the diagnostic set, several seeds each, one table, one zip to submit.
#   SEEDS="1 2 3" bash scripts/run_glue.sh MODEL_DIR GLUE_DIR OUTPUT_DIR [flags for every run]
# GLUE_DIR holds a folder a task (CoLA, MNLI, …, diagnostic). TASKS="rte mrpc" runs these alone,
# SKIP_MISSING=1 passes over tasks without a folder, PYTHON names the interpreter. The settings are
# the paper's, from scripts/run_classifier_*.sh; RTE, MRPC and STS-B start from MNLI's best model.
# Started again, it goes on where it was.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}" \
  exec "${PYTHON:-python3}" -m scripts.task_suite glue "$@"
