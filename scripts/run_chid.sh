#!/usr/bin/env bash
# CHID: which of ten idioms belongs into a blank of a Chinese text.
# Files: train.json and train_answer.json, dev.json and dev_answer.json, test1.1.json or test.json.
# Rate, batch, epochs, warm-up and length as in CLUE's baseline, which also gives the blanks that
# share their candidates different ones (--each_choice_once).
# Further flags are passed on and win:
#   bash scripts/run_chid.sh --seed 1
# MODEL_DIR, DATA_DIR, OUTPUT_DIR and PYTHON say where things are, if not as below.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

"${PYTHON:-python3}" run_race.py \
  --model_name_or_path="${MODEL_DIR:-prev_trained_model/albert_base_zh}" \
  --task_name=chid \
  --data_dir="${DATA_DIR:-dataset/chid}" \
  --output_dir="${OUTPUT_DIR:-outputs/chid}" \
  --do_train --do_eval --do_predict \
  --each_choice_once \
  --max_seq_length=64 \
  --max_qa_length=16 \
  --per_gpu_train_batch_size=20 \
  --per_gpu_eval_batch_size=64 \
  --learning_rate=2e-5 \
  --num_train_epochs=3 \
  --warmup_proportion=0.06 \
  --weight_decay=0.01 \
  --save_steps=5000 \
  --logging_steps=100 \
  "$@"
