"""Pretrain ALBERT on shards of text, from nothing or from released weights.

    python run_pretraining.py --data_dir shards --config_name base_v2 --output_dir outputs/base
    torchrun --nproc_per_node 2 run_pretraining.py …      on several processes
    python run_pretraining.py … --resume                  after a stop, to the same result
"""

from callback import distributed
from pretraining import PretrainingSettings, pretrain
from tools.arguments import parse
from tools.logging import start_logging


def main() -> None:
    settings = parse(PretrainingSettings, __doc__)
    start_logging()
    pretrain(settings)
    distributed.shutdown()


if __name__ == "__main__":
    main()
