#!/usr/bin/env bash
# MRPC: do two sentences say the same.
# Settings of the ALBERT paper (arXiv 1909.11942). Further flags are passed on and win:
#   bash scripts/run_classifier_mrpc.sh --seed 1
# MODEL_DIR, DATA_DIR, OUTPUT_DIR and PYTHON say where things are, if not as below.
# The paper starts this task from a model that was fine-tuned on MNLI. To do the same:
#   MODEL_DIR=outputs/mnli bash scripts/run_classifier_mrpc.sh --new_head
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

"${PYTHON:-python3}" run_classifier.py \
  --model_name_or_path="${MODEL_DIR:-prev_trained_model/albert_base_v2}" \
  --task_name=mrpc \
  --data_dir="${DATA_DIR:-dataset/glue/MRPC}" \
  --output_dir="${OUTPUT_DIR:-outputs/mrpc}" \
  --do_train --do_eval --do_predict \
  --max_seq_length=512 \
  --per_gpu_train_batch_size=32 \
  --per_gpu_eval_batch_size=64 \
  --learning_rate=2e-5 \
  --max_steps=800 \
  --warmup_steps=200 \
  --weight_decay=0.01 \
  --hidden_dropout_prob=0 \
  --attention_probs_dropout_prob=0 \
  --classifier_dropout_prob=0.1 \
  --eval_steps=100 \
  --save_steps=0 \
  --logging_steps=50 \
  "$@"
