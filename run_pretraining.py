"""Pretrain ALBERT on shards of text, from nothing or from released weights.

    python run_pretraining.py --data_dir shards --config_name base_v2 --output_dir outputs/base
    torchrun --nproc_per_node 2 run_pretraining.py …      on several processes
    python run_pretraining.py … --resume                  after a stop, to the same result
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from callback import distributed
from callback.trainer import TrainingStopped
from model.configuration_albert import ConfigError
from model.conversion import CheckpointError
from model.modeling_utils import WeightsError
from model.tokenization_albert import TokenizerError
from pretraining import PretrainingError, pretrain
from pretraining_settings import PretrainingSettings
from processors.shards import ShardError
from tools.arguments import parse
from tools.logging import start_logging

EXPECTED_ERRORS = (CheckpointError, ConfigError, FileNotFoundError, PretrainingError, ShardError,
                   TokenizerError, TrainingStopped, WeightsError)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0, or 1 after one message that says what is wrong."""
    settings = parse(PretrainingSettings, __doc__, arguments)
    start_logging()
    try:
        pretrain(settings)
    except EXPECTED_ERRORS as error:
        if distributed.is_main():
            print(f"error: {error}", file=sys.stderr)
        return 1
    finally:
        distributed.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
