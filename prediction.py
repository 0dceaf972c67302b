"""Labelling texts line by line, from a file or a pipe into one: `run_classifier.py --predict_file`.

Labels go to the output and flow as soon as a window of texts is through; messages go to stderr.
"""

from __future__ import annotations

import logging
import os
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

from finetuning import EXPECTED_ERRORS, load_tokenizer, open_start
from finetuning_settings import FinetuningSettings
from predictor import Prediction, Predictor
from processors.base import Task
from processors.lines import Text, read_lines
from tools.logging import start_logging

logger = logging.getLogger(__name__)

PIPE = "-"


def label_lines(settings: FinetuningSettings, source: str, target: Path | None = None,
                columns: Mapping[str, Sequence] | None = None, task: Task | None = None) -> int:
    """One line of answers for every line of `source` (- is standard input), in their order.

    settings: model, tokenizer, device, precision and sizes are read from it. target: a file
    instead of standard output. columns: of the texts, see `read_lines`. task: its columns
    count where there is one, and of a model of several tasks its head.
    Returns 0, or 1 after one message; what stands before a broken line is answered first.
    """
    start_logging()
    try:
        predictor = _open(settings, source, task and task.name)
        prepare = task and task.prepare
        with ExitStack() as files:
            if source == PIPE:
                lines, name = sys.stdin.buffer, "standard input"
            else:
                lines, name = files.enter_context(open(source, "rb")), source
            if target is None:
                out = sys.stdout
                out.reconfigure(encoding="utf-8", newline="\n")
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                out = files.enter_context(target.open("w", encoding="utf-8", newline="\n"))
            answer(predictor, read_lines(
                lines, name, task.columns if task else columns, prepare), out)
    except BrokenPipeError:  # whoever reads has seen enough, as with `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (*EXPECTED_ERRORS, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _open(settings: FinetuningSettings, source: str, task: str | None) -> Predictor:
    """The predictor of the flags. A person at a keyboard is answered after every line."""
    typed = source == PIPE and sys.stdin.isatty()
    return Predictor.from_pretrained(
        settings.model_name_or_path, "cpu" if settings.no_cuda else None,
        1 if typed else settings.per_gpu_eval_batch_size, settings.max_seq_length,
        settings.autocast, load_tokenizer(settings, open_start(settings)), task)


def answer(predictor: Predictor, texts: Iterator[Text | None], out: TextIO) -> None:
    """Write an answer for each text, and an empty line for a blank one."""
    blank: deque[bool] = deque()  # of the lines that were read and not answered

    def read() -> Iterator[Text]:
        for text in texts:
            blank.append(text is None)
            yield "" if text is None else text

    count = 0
    for prediction in predictor.stream(read()):
        out.write("\n" if blank.popleft() else answer_line(prediction))
        count += 1
        if not blank:
            out.flush()
    if predictor.truncated:
        logger.warning("%d of %d texts are longer than %d tokens and were cut",
                       predictor.truncated, count, predictor.max_length)


def answer_line(prediction: Prediction) -> str:
    """`label<tab>probability`, or a number alone."""
    if prediction.probability is None:
        return f"{prediction.label:.4f}\n"
    return f"{prediction.label}\t{prediction.probability:.4f}\n"
