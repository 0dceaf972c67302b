"""Settings and helpers that every test file may use."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

# Before torch is imported: tiny models run faster on one thread than on many, and sums do not
# depend on how many cores the machine has. No test may reach for a screen or a model hub.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

ROOT = Path(__file__).resolve().parent.parent


def shared(relative: str) -> Path:
    """Path of a file or folder in ``../shared``, the reference data that lies beside a checkout.

    The data is not part of the project, since its licences differ. Where it is absent the calling
    test is skipped, and the reason names the missing path.
    """
    path = ROOT.parent / "shared" / relative
    if not path.exists():
        pytest.skip(f"needs reference data that a plain clone does not have: ../shared/{relative}")
    return path


@pytest.fixture(name="shared")
def _shared() -> Callable[[str], Path]:
    """The helper above as a fixture: ``def test_x(shared): folder = shared("reference/…")``."""
    return shared


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's own folder."""
    return ROOT
