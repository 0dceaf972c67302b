#!/usr/bin/env bash
# SQuAD 2.0: as SQuAD 1.1, and a third of the questions have no answer.
# Files: train-v2.0.json and dev-v2.0.json.
# Settings of the ALBERT paper (arXiv 1909.11942). A step has 48 windows, on one card 24 at a time;
# on a small one give --per_gpu_train_batch_size 6 --gradient_accumulation_steps 8.
# Further flags are passed on and win:
#   bash scripts/run_squad_v2.sh --seed 1
# MODEL_DIR, DATA_DIR, OUTPUT_DIR and PYTHON say where things are, if not as below.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

"${PYTHON:-python3}" run_squad.py \
  --model_name_or_path="${MODEL_DIR:-prev_trained_model/albert_base_v2}" \
  --task_name=squad-v2 \
  --version_2_with_negative \
  --data_dir="${DATA_DIR:-dataset/squad}" \
  --output_dir="${OUTPUT_DIR:-outputs/squad-v2}" \
  --do_train --do_eval --do_predict \
  --max_seq_length=512 \
  --doc_stride=128 \
  --max_query_length=64 \
  --max_answer_length=30 \
  --n_best_size=20 \
  --per_gpu_train_batch_size=24 \
  --gradient_accumulation_steps=2 \
  --per_gpu_eval_batch_size=64 \
  --learning_rate=3e-5 \
  --max_steps=8144 \
  --warmup_steps=814 \
  --hidden_dropout_prob=0 \
  --attention_probs_dropout_prob=0 \
  --classifier_dropout_prob=0.1 \
  --weight_decay=0.01 \
  --save_steps=1000 \
  --logging_steps=100 \
  "$@"
