#!/usr/bin/env bash
# MNLI: does a sentence follow from another; scored on matched and mismatched.
# Settings of the ALBERT paper (arXiv 1909.11942). Further flags are passed on and win:
#   bash scripts/run_classifier_mnli.sh --seed 1
# MODEL_DIR, DATA_DIR, OUTPUT_DIR and PYTHON say where things are, if not as below.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

"${PYTHON:-python3}" run_classifier.py \
  --model_name_or_path="${MODEL_DIR:-prev_trained_model/albert_base_v2}" \
  --task_name=mnli \
  --data_dir="${DATA_DIR:-dataset/glue/MNLI}" \
  --output_dir="${OUTPUT_DIR:-outputs/mnli}" \
  --do_train --do_eval --do_predict \
  --max_seq_length=512 \
  --per_gpu_train_batch_size=32 \
  --gradient_accumulation_steps=4 \
  --per_gpu_eval_batch_size=64 \
  --learning_rate=3e-5 \
  --max_steps=10000 \
  --warmup_steps=1000 \
  --weight_decay=0.01 \
  --hidden_dropout_prob=0 \
  --attention_probs_dropout_prob=0 \
  --classifier_dropout_prob=0.1 \
  --eval_steps=1000 \
  --save_steps=0 \
  --logging_steps=50 \
  "$@"
