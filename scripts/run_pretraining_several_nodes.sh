#!/usr/bin/env bash
# The same script on every node, started within minutes of each other:
#   NODES=4 GPUS=8 HEAD=10.0.0.1:29500 bash scripts/run_pretraining_several_nodes.sh
# SHARDS has to be readable and OUTPUT_DIR writable at the same path on all nodes: the first process
# writes checkpoints there, and all read them to go on. A node that is lost ends the run; start it
# again, with another number of nodes if need be: the global batch stays what it is, so do the
# numbers. Gradients are summed once a step, 36 MB for base, over NCCL (Gloo without cards).
# Further flags are passed on and win.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

"${PYTHON:-python3}" -m torch.distributed.run \
  --nnodes "${NODES:-2}" \
  --nproc_per_node "${GPUS:-8}" \
  --rdzv_backend c10d \
  --rdzv_id albert \
  --rdzv_endpoint "${HEAD:-localhost:29500}" \
  run_pretraining.py \
  --data_dir "${SHARDS:-outputs/shards_english}" \
  --config_name "${CONFIG:-base_v2}" \
  --output_dir "${OUTPUT_DIR:-outputs/pretraining_several_nodes}" \
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
