#!/usr/bin/env bash
# WNUT17: entities in English tweets and comments that do not occur in training.
# Files: wnut17train.conll, emerging.dev.conll, emerging.test.annotated.
# Further flags are passed on and win:
#   bash scripts/run_ner_wnut17.sh --seed 1
# MODEL_DIR, DATA_DIR, OUTPUT_DIR and PYTHON say where things are, if not as below.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

"${PYTHON:-python3}" run_ner.py \
  --model_name_or_path="${MODEL_DIR:-prev_trained_model/albert_base_v2}" \
  --task_name=wnut17 \
  --data_dir="${DATA_DIR:-dataset/wnut17}" \
  --output_dir="${OUTPUT_DIR:-outputs/wnut17}" \
  --do_train --do_eval --do_predict \
  --max_seq_length=128 \
  --per_gpu_train_batch_size=16 \
  --per_gpu_eval_batch_size=64 \
  --learning_rate=3e-5 \
  --num_train_epochs=5 \
  --warmup_proportion=0.1 \
  --weight_decay=0.01 \
  --save_steps=0 \
  --logging_steps=50 \
  "$@"
