#!/usr/bin/env bash
# The bundled prose on two processes of one machine (gloo on a CPU, nccl with two cards). The
# numbers are those of one process; only the time differs. One thread a process, so that two cores
# are not shared by four.
# Further flags are passed on and win; SHARDS, OUTPUT_DIR and PYTHON say where things are, if not as
# below. Run it again, with any number of processes, to go on after a stop.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
shards=${SHARDS:-outputs/shards_bundled}

if [[ ! -f $shards/manifest.json ]]; then
  "${PYTHON:-python3}" prepare_lm_data.py \
    --input "dataset/english/*.txt" \
    --output_dir "$shards" \
    --tokenizer_dir dataset/tiny_en \
    --heldout_fraction 0.05
fi

OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} \
"${PYTHON:-python3}" -m torch.distributed.run --standalone --nproc_per_node 2 run_pretraining.py \
  --data_dir "$shards" \
  --config_name dataset/tiny_en/config.json \
  --output_dir "${OUTPUT_DIR:-outputs/pretraining_two_processes}" \
  --max_seq_length 64 \
  --train_batch_size 32 \
  --per_gpu_train_batch_size 16 \
  --optimizer adamw_torch \
  --learning_rate 1e-3 \
  --max_steps 2000 \
  --num_eval_steps 200 \
  --save_steps 500 \
  --resume \
  "$@"
