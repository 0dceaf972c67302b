#!/usr/bin/env bash
# RACE: questions on English passages of school examinations, four choices each.
# Files: train/, dev/ and test/, each with middle/ and high/, or train.json, dev.json and test.json.
# Settings of the ALBERT paper (arXiv 1909.11942), rate and dropout those for v2 models; for v1
# models give --learning_rate 2e-5 --hidden_dropout_prob 0.1 --attention_probs_dropout_prob 0.1.
# A step has 32 questions, which are 128 sequences; on one card 8 questions at a time.
# Further flags are passed on and win:
#   bash scripts/run_race.sh --seed 1
# MODEL_DIR, DATA_DIR, OUTPUT_DIR and PYTHON say where things are, if not as below.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

"${PYTHON:-python3}" run_race.py \
  --model_name_or_path="${MODEL_DIR:-prev_trained_model/albert_base_v2}" \
  --task_name=race \
  --data_dir="${DATA_DIR:-dataset/race}" \
  --output_dir="${OUTPUT_DIR:-outputs/race}" \
  --do_train --do_eval --do_predict \
  --max_seq_length=512 \
  --max_qa_length=128 \
  --per_gpu_train_batch_size=8 \
  --gradient_accumulation_steps=4 \
  --per_gpu_eval_batch_size=16 \
  --learning_rate=1e-5 \
  --max_steps=12000 \
  --warmup_steps=1000 \
  --weight_decay=0.01 \
  --hidden_dropout_prob=0 \
  --attention_probs_dropout_prob=0 \
  --classifier_dropout_prob=0.1 \
  --eval_steps=1000 \
  --save_steps=1000 \
  --logging_steps=50 \
  "$@"
