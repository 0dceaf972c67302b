#!/usr/bin/env bash
# C3: questions on Chinese dialogues and other texts, two to four choices each.
# Files: c3-d-train.json, c3-m-train.json (or d-train.json, m-train.json, as CLUE names them), the
# same for dev, and for test these or CLUE's test1.0.json and test1.1.json.
# Rate, batch, epochs and length as in CLUE's baseline; larger models need a lower rate.
# Further flags are passed on and win:
#   bash scripts/run_c3.sh --seed 1
# MODEL_DIR, DATA_DIR, OUTPUT_DIR and PYTHON say where things are, if not as below.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

"${PYTHON:-python3}" run_race.py \
  --model_name_or_path="${MODEL_DIR:-prev_trained_model/albert_base_zh}" \
  --task_name=c3 \
  --data_dir="${DATA_DIR:-dataset/c3}" \
  --output_dir="${OUTPUT_DIR:-outputs/c3}" \
  --do_train --do_eval --do_predict \
  --max_seq_length=512 \
  --max_qa_length=128 \
  --per_gpu_train_batch_size=8 \
  --gradient_accumulation_steps=2 \
  --per_gpu_eval_batch_size=16 \
  --learning_rate=2e-5 \
  --num_train_epochs=8 \
  --warmup_proportion=0.1 \
  --weight_decay=0.01 \
  --save_steps=0 \
  --logging_steps=50 \
  "$@"
