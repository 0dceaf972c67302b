#!/usr/bin/env bash
# Go on from a released model on text of your own field. With --model_path the automatic rate is
# 5e-5 after a warm-up over a tenth of the steps: enough to learn the field, too little to forget
# the language. Watch mlm_loss on the held-out split: stop where it turns up again.
# MODEL_DIR may be one of our folders, one of the predecessor's or Hugging Face's, or a TensorFlow
# checkpoint as it was downloaded. The text is tokenised by the model's own tokenizer.
# Further flags are passed on and win; TEXT, SHARDS, OUTPUT_DIR, LAUNCH and PYTHON say where things
# are, if not as below. Run it again to go on after a stop.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
model=${MODEL_DIR:-prev_trained_model/albert_base_v2}
shards=${SHARDS:-outputs/shards_domain}

if [[ ! -f $shards/manifest.json ]]; then
  "${PYTHON:-python3}" prepare_lm_data.py \
    --input "${TEXT:-dataset/english/*.txt}" \
    --output_dir "$shards" \
    --tokenizer_dir "$model" \
    --split_sentences "${LANGUAGE_OF_TEXT:-en}" \
    --heldout_fraction 0.02 \
    --dedup
fi

${LAUNCH:-"${PYTHON:-python3}"} run_pretraining.py \
  --data_dir "$shards" \
  --model_path "$model" \
  --output_dir "${OUTPUT_DIR:-outputs/pretraining_domain}" \
  --max_seq_length 128 \
  --train_batch_size 256 \
  --per_gpu_train_batch_size 32 \
  --learning_rate auto \
  --epochs 3 \
  --num_eval_steps 200 \
  --save_steps 200 \
  --resume \
  "$@"
