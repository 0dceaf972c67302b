#!/usr/bin/env bash
# DREAM: questions on English dialogues, three choices each.
# Files: train.json, dev.json and test.json.
# The ALBERT paper does not have it: rate, batch and dropout are those of RACE, epochs a start.
# Further flags are passed on and win:
#   bash scripts/run_dream.sh --seed 1
# MODEL_DIR, DATA_DIR, OUTPUT_DIR and PYTHON say where things are, if not as below.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

"${PYTHON:-python3}" run_race.py \
  --model_name_or_path="${MODEL_DIR:-prev_trained_model/albert_base_v2}" \
  --task_name=dream \
  --data_dir="${DATA_DIR:-dataset/dream}" \
  --output_dir="${OUTPUT_DIR:-outputs/dream}" \
  --do_train --do_eval --do_predict \
  --max_seq_length=512 \
  --max_qa_length=128 \
  --per_gpu_train_batch_size=8 \
  --gradient_accumulation_steps=4 \
  --per_gpu_eval_batch_size=16 \
  --learning_rate=1e-5 \
  --num_train_epochs=5 \
  --warmup_proportion=0.1 \
  --weight_decay=0.01 \
  --hidden_dropout_prob=0 \
  --attention_probs_dropout_prob=0 \
  --classifier_dropout_prob=0.1 \
  --save_steps=0 \
  --logging_steps=50 \
  "$@"
