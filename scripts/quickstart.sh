#!/usr/bin/env bash
# From a fresh machine to trained models in minutes, on two cores and without a GPU: makes a virtual
# environment, installs requirements.txt, trains a tiny ALBERT on an English and on a Chinese task
# made from the bundled text (dataset/README.md), and prints a table of what it reaches.
#
#   bash scripts/quickstart.sh
#
# Everything goes into outputs/quickstart, which a second run replaces.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh
use_environment requirements.txt

# Threads that spin while they wait for each other are five times slower as soon as anything else
# runs on the machine.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}

out=outputs/quickstart
began=$SECONDS
rm -rf "$out"
"$PYTHON" dataset/build_tasks.py --output_dir "$out/data"

# finetune TASK START FLAGS...: one run, into $out/TASK/START
finetune() {
    local task=$1 start=$2
    shift 2
    printf '\n== %s, %s\n' "$task" "${start//_/ }"
    "$PYTHON" run_classifier.py --data_dir "$out/data/$task" --output_dir "$out/$task/$start" \
        --do_train --do_eval --do_predict --max_seq_length 128 --per_gpu_eval_batch_size 64 \
        --optimizer adamw_torch --weight_decay 0.01 --save_steps 0 --save_total_limit 1 "$@"
}

english=(--task_name custom --text_a_column sentence
    --train_file train.tsv --dev_file dev.tsv --test_file test.tsv)
chinese=(--task_name lcqmc)

finetune english from_scratch "${english[@]}" --model_name_or_path dataset/tiny_en --from_scratch \
    --learning_rate 6e-4 --num_train_epochs 4 --per_gpu_train_batch_size 32
finetune chinese from_scratch "${chinese[@]}" --model_name_or_path dataset/tiny_zh --from_scratch \
    --learning_rate 5e-4 --num_train_epochs 4 --per_gpu_train_batch_size 16

printf '\nDone in %d seconds. Accuracy, beside that of always giving the most frequent answer:\n\n' \
    $((SECONDS - began))
"$PYTHON" scripts/summarize_results.py "$out"
cat <<END

$out/results.png              the scores and how they rose
$out/*/*/curves.png           loss, score and learning rate of each run
$out/*/*/predictions/         what each model says of the test texts
$out/*/*/model.safetensors    the models; any script here takes their folders
END
