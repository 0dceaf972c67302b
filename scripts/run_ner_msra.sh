#!/usr/bin/env bash
# MSRA: persons, places and organisations in Chinese news, one character a line.
# Files: train.txt, dev.txt, test.txt; published without dev.txt: cut it off train.txt.
# Further flags are passed on and win:
#   bash scripts/run_ner_msra.sh --seed 1
# MODEL_DIR, DATA_DIR, OUTPUT_DIR and PYTHON say where things are, if not as below.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

"${PYTHON:-python3}" run_ner.py \
  --model_name_or_path="${MODEL_DIR:-prev_trained_model/albert_base_zh}" \
  --task_name=msra \
  --data_dir="${DATA_DIR:-dataset/msra}" \
  --output_dir="${OUTPUT_DIR:-outputs/msra}" \
  --do_train --do_eval --do_predict \
  --max_seq_length=128 \
  --per_gpu_train_batch_size=32 \
  --per_gpu_eval_batch_size=64 \
  --learning_rate=3e-5 \
  --num_train_epochs=3 \
  --warmup_proportion=0.1 \
  --weight_decay=0.01 \
  --save_steps=0 \
  --logging_steps=50 \
  "$@"
