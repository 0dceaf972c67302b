#!/usr/bin/env bash
# From a fresh machine to trained models in minutes, on two cores and without a GPU: makes a virtual
# environment, installs requirements.txt, pretrains a tiny ALBERT on English and one on Chinese text
# that lie in dataset/, fine-tunes both on a task beside models that start from random weights, and
# prints a table of what each reaches.
#
#   bash scripts/quickstart.sh
#
# Everything goes into outputs/quickstart, which a second run replaces.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh
use_environment requirements.txt

# The two languages go side by side, one thread each: models this small gain little from a second.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}

out=outputs/quickstart
began=$SECONDS
rm -rf "$out"
"$PYTHON" dataset/build_tasks.py --output_dir "$out/data"

# pretrain LANGUAGE MODEL FLAGS...: the training part of the text, into $out/pretrained_LANGUAGE
pretrain() {
    local language=$1 model=$2
    shift 2
    printf '\n== %s: pretraining on %s\n' "$language" "$out/data/$language/corpus.txt"
    "$PYTHON" prepare_lm_data.py --input "$out/data/$language/corpus.txt" --tokenizer_dir "$model" \
        --output_dir "$out/shards_$language" --heldout_fraction 0.03 --num_workers 1
    "$PYTHON" run_pretraining.py --data_dir "$out/shards_$language" \
        --config_name "$model/config.json" --output_dir "$out/pretrained_$language" \
        --max_seq_length 64 --train_batch_size 16 --per_gpu_train_batch_size 16 \
        --optimizer adamw_torch --learning_rate 1e-3 --warmup_proportion 0.05 \
        --num_eval_steps 300 --eval_instances 400 --save_steps 100000 "$@"
}

# finetune LANGUAGE START FLAGS...: one run, into $out/LANGUAGE/START
finetune() {
    local language=$1 start=$2
    shift 2
    printf '\n== %s: fine-tuning, %s\n' "$language" "${start//_/ }"
    "$PYTHON" run_classifier.py --data_dir "$out/data/$language" \
        --output_dir "$out/$language/$start" --do_train --do_eval --do_predict \
        --max_seq_length 128 --num_train_epochs 2 --per_gpu_eval_batch_size 64 \
        --optimizer adamw_torch --weight_decay 0.01 --save_steps 0 --save_total_limit 1 "$@"
}

english() {
    local flags=(--task_name custom --text_a_column sentence --train_file train.tsv
        --dev_file dev.tsv --test_file test.tsv --learning_rate 6e-4 --per_gpu_train_batch_size 32)
    pretrain english dataset/tiny_en --max_steps 600
    finetune english pretrained "${flags[@]}" --model_name_or_path "$out/pretrained_english"
    finetune english from_scratch "${flags[@]}" --model_name_or_path dataset/tiny_en --from_scratch
}

chinese() {
    local flags=(--task_name lcqmc --learning_rate 5e-4 --per_gpu_train_batch_size 16)
    pretrain chinese dataset/tiny_zh --max_steps 600
    finetune chinese pretrained "${flags[@]}" --model_name_or_path "$out/pretrained_chinese"
    finetune chinese from_scratch "${flags[@]}" --model_name_or_path dataset/tiny_zh --from_scratch
}

echo "Chinese runs beside English, its log is $out/chinese.log"
(chinese) >"$out/chinese.log" 2>&1 &
chinese=$!
trap 'kill "$chinese" 2>/dev/null || true' EXIT
(english)
echo
echo "waiting for Chinese ($out/chinese.log)"
wait "$chinese" || { tail -n 20 "$out/chinese.log" >&2; fail "the Chinese run failed, see above"; }
trap - EXIT

printf '\nDone in %d seconds. Accuracy, beside that of always giving the most frequent answer:\n\n' \
    $((SECONDS - began))
"$PYTHON" scripts/summarize_results.py "$out"
cat <<END

$out/results.png                    the scores and how they rose
$out/pretrained_*/curves.png        how pretraining went; training_report.md says it in words
$out/*/*/curves.png                 loss, score and learning rate of each fine-tuning
$out/*/*/predictions/               what each model says of the test texts
$out/*/*/model.safetensors          the models; any script here takes their folders
END
