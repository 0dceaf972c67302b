#!/usr/bin/env bash
# QNLI: does a sentence answer a question.
# Settings of the ALBERT paper (arXiv 1909.11942). Further flags are passed on and win:
#   bash scripts/run_classifier_qnli.sh --seed 1
# MODEL_DIR, DATA_DIR, OUTPUT_DIR and PYTHON say where things are, if not as below.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

"${PYTHON:-python3}" run_classifier.py \
  --model_name_or_path="${MODEL_DIR:-prev_trained_model/albert_base_v2}" \
  --task_name=qnli \
  --data_dir="${DATA_DIR:-dataset/glue/QNLI}" \
  --output_dir="${OUTPUT_DIR:-outputs/qnli}" \
  --do_train --do_eval --do_predict \
  --max_seq_length=512 \
  --per_gpu_train_batch_size=32 \
  --per_gpu_eval_batch_size=64 \
  --learning_rate=1e-5 \
  --max_steps=33112 \
  --warmup_steps=1986 \
  --weight_decay=0.01 \
  --hidden_dropout_prob=0 \
  --attention_probs_dropout_prob=0 \
  --classifier_dropout_prob=0.1 \
  --eval_steps=3000 \
  --save_steps=0 \
  --logging_steps=50 \
  "$@"
