#!/usr/bin/env bash
# LCQMC: do two Chinese questions ask the same.
# Batch, length and rate as published for the Chinese models; tiny wants --learning_rate 1e-4.
# Further flags are passed on and win:
#   MODEL_DIR=prev_trained_model/albert_tiny_zh bash scripts/run_classifier_lcqmc.sh --seed 1
# MODEL_DIR, DATA_DIR, OUTPUT_DIR and PYTHON say where things are, if not as below.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

"${PYTHON:-python3}" run_classifier.py \
  --model_name_or_path="${MODEL_DIR:-prev_trained_model/albert_base_zh}" \
  --task_name=lcqmc \
  --data_dir="${DATA_DIR:-dataset/lcqmc}" \
  --output_dir="${OUTPUT_DIR:-outputs/lcqmc}" \
  --do_train --do_eval --do_predict \
  --max_seq_length=128 \
  --per_gpu_train_batch_size=64 \
  --per_gpu_eval_batch_size=64 \
  --learning_rate=2e-5 \
  --num_train_epochs=5 \
  --warmup_proportion=0.1 \
  --weight_decay=0.01 \
  --save_steps=0 \
  --logging_steps=50 \
  "$@"
