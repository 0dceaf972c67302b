#!/usr/bin/env bash
# CoNLL-2003: persons, places, organisations and others in English news.
# Files: eng.train, eng.testa, eng.testb, or train.txt, valid.txt, test.txt.
# Further flags are passed on and win:
#   bash scripts/run_ner_conll2003.sh --seed 1
# MODEL_DIR, DATA_DIR, OUTPUT_DIR and PYTHON say where things are, if not as below.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

"${PYTHON:-python3}" run_ner.py \
  --model_name_or_path="${MODEL_DIR:-prev_trained_model/albert_base_v2}" \
  --task_name=conll2003 \
  --data_dir="${DATA_DIR:-dataset/conll2003}" \
  --output_dir="${OUTPUT_DIR:-outputs/conll2003}" \
  --do_train --do_eval --do_predict \
  --max_seq_length=256 \
  --per_gpu_train_batch_size=32 \
  --per_gpu_eval_batch_size=64 \
  --learning_rate=3e-5 \
  --num_train_epochs=4 \
  --warmup_proportion=0.1 \
  --weight_decay=0.01 \
  --save_steps=0 \
  --logging_steps=50 \
  "$@"
