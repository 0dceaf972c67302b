#!/usr/bin/env bash
# DRCD: answers in passages of the Chinese Wikipedia (traditional characters).
# Files: DRCD_training.json, DRCD_dev.json, DRCD_test.json.
# Larger models need a lower rate and more warm-up (xlarge: 1e-5).
# Further flags are passed on and win:
#   bash scripts/run_drcd.sh --seed 1
# MODEL_DIR, DATA_DIR, OUTPUT_DIR and PYTHON say where things are, if not as below.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

"${PYTHON:-python3}" run_squad.py \
  --model_name_or_path="${MODEL_DIR:-prev_trained_model/albert_base_zh}" \
  --task_name=drcd \
  --data_dir="${DATA_DIR:-dataset/drcd}" \
  --output_dir="${OUTPUT_DIR:-outputs/drcd}" \
  --do_train --do_eval --do_predict \
  --max_seq_length=512 \
  --doc_stride=128 \
  --max_query_length=64 \
  --max_answer_length=50 \
  --n_best_size=20 \
  --per_gpu_train_batch_size=32 \
  --per_gpu_eval_batch_size=64 \
  --learning_rate=3e-5 \
  --num_train_epochs=2 \
  --warmup_proportion=0.1 \
  --weight_decay=0.01 \
  --save_steps=1000 \
  --logging_steps=100 \
  "$@"
