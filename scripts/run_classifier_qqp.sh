#!/usr/bin/env bash
# QQP: do two questions ask the same.
# Settings of the ALBERT paper (arXiv 1909.11942). Further flags are passed on and win:
#   bash scripts/run_classifier_qqp.sh --seed 1
# MODEL_DIR, DATA_DIR, OUTPUT_DIR and PYTHON say where things are, if not as below.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

"${PYTHON:-python3}" run_classifier.py \
  --model_name_or_path="${MODEL_DIR:-prev_trained_model/albert_base_v2}" \
  --task_name=qqp \
  --data_dir="${DATA_DIR:-dataset/glue/QQP}" \
  --output_dir="${OUTPUT_DIR:-outputs/qqp}" \
  --do_train --do_eval --do_predict \
  --max_seq_length=512 \
  --per_gpu_train_batch_size=32 \
  --gradient_accumulation_steps=4 \
  --per_gpu_eval_batch_size=64 \
  --learning_rate=5e-5 \
  --max_steps=14000 \
  --warmup_steps=1000 \
  --weight_decay=0.01 \
  --hidden_dropout_prob=0.1 \
  --attention_probs_dropout_prob=0.1 \
  --classifier_dropout_prob=0.1 \
  --eval_steps=1000 \
  --save_steps=0 \
  --logging_steps=50 \
  "$@"
