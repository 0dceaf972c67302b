#!/usr/bin/env bash
# ALBERT base from raw English text, with the paper's settings: LAMB, 4,096 sequences of 512 a step,
# rate 0.00176, 125,000 steps of which 3,125 warm up. Several cards: LAUNCH="torchrun
# --nproc_per_node 8". A smaller batch wants fewer steps' worth of patience, not another rate: auto
# scales it by the square root. CONFIG takes large_v2, xlarge_v2, xxlarge_v2 as well.
# Further flags are passed on and win; TEXT, SHARDS, CONFIG, OUTPUT_DIR, LAUNCH and PYTHON say where
# things are, if not as below. Run it again to go on after a stop.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
shards=${SHARDS:-outputs/shards_english}

if [[ ! -f $shards/manifest.json ]]; then
  "${PYTHON:-python3}" prepare_lm_data.py \
    --input "${TEXT:-dataset/english/*.txt}" \
    --output_dir "$shards" \
    --train_tokenizer sentencepiece \
    --vocab_size 30000 \
    --split_sentences en \
    --dedup
fi

${LAUNCH:-"${PYTHON:-python3}"} run_pretraining.py \
  --data_dir "$shards" \
  --config_name "${CONFIG:-base_v2}" \
  --output_dir "${OUTPUT_DIR:-outputs/pretraining_base_english}" \
  --max_seq_length 512 \
  --train_batch_size 4096 \
  --per_gpu_train_batch_size 32 \
  --learning_rate auto \
  --max_steps 125000 \
  --precision bf16 \
  --num_workers 2 \
  --num_eval_steps 1000 \
  --save_steps 1000 \
  --resume \
  "$@"
