#!/usr/bin/env bash
# SWAG: which of four endings follows.
# Files: train.csv, val.csv and test.csv.
# The ALBERT paper does not have it: rate, batch and epochs are those of the BERT paper
# (arXiv 1810.04805, section 4.4).
# Further flags are passed on and win:
#   bash scripts/run_swag.sh --seed 1
# MODEL_DIR, DATA_DIR, OUTPUT_DIR and PYTHON say where things are, if not as below.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

"${PYTHON:-python3}" run_race.py \
  --model_name_or_path="${MODEL_DIR:-prev_trained_model/albert_base_v2}" \
  --task_name=swag \
  --data_dir="${DATA_DIR:-dataset/swag}" \
  --output_dir="${OUTPUT_DIR:-outputs/swag}" \
  --do_train --do_eval --do_predict \
  --max_seq_length=128 \
  --max_qa_length=96 \
  --per_gpu_train_batch_size=16 \
  --per_gpu_eval_batch_size=64 \
  --learning_rate=2e-5 \
  --num_train_epochs=3 \
  --warmup_proportion=0.1 \
  --weight_decay=0.01 \
  --hidden_dropout_prob=0 \
  --attention_probs_dropout_prob=0 \
  --classifier_dropout_prob=0.1 \
  --save_steps=0 \
  --logging_steps=100 \
  "$@"
