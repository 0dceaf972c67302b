#!/usr/bin/env bash
# The Chinese tiny model (4 layers of 312) from raw text, WordPiece. One document a block of lines,
# blank lines between; for whole words give VOCAB no value and see prepare_lm_data.py --help.
# 128 tokens and 1,024 sequences a step suit one card; on a CPU take --train_batch_size 64.
# VOCAB is a vocab.txt to use (Google's has 21,128 entries); without it one is trained on the text.
# Further flags are passed on and win; TEXT, SHARDS, OUTPUT_DIR, LAUNCH and PYTHON say where things
# are, if not as below. Run it again to go on after a stop.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
shards=${SHARDS:-outputs/shards_chinese}

if [[ ! -f $shards/manifest.json ]]; then
  if [[ -n ${VOCAB:-} ]]; then
    tokenizer=(--vocab_file "$VOCAB")
  else
    tokenizer=(--train_tokenizer wordpiece --vocab_size 21128)
  fi
  "${PYTHON:-python3}" prepare_lm_data.py \
    --input "${TEXT:-dataset/chinese/*.txt}" \
    --output_dir "$shards" \
    --split_sentences zh \
    "${tokenizer[@]}"
fi

${LAUNCH:-"${PYTHON:-python3}"} run_pretraining.py \
  --data_dir "$shards" \
  --config_name "${CONFIG:-zh_tiny}" \
  --output_dir "${OUTPUT_DIR:-outputs/pretraining_tiny_chinese}" \
  --max_seq_length 128 \
  --train_batch_size 1024 \
  --per_gpu_train_batch_size 64 \
  --learning_rate auto \
  --max_steps 50000 \
  --num_eval_steps 1000 \
  --save_steps 1000 \
  --resume \
  "$@"
