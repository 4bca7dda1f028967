"""What the suites share. They use the package of the checkout and the library of its release build."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

try:
    import torch
except ImportError:
    torch = None
else:
    torch.set_num_threads(1)

# Suites that need PyTorch are left out where there is none; ./run test says how to get it.
collect_ignore = [] if torch else [path.name for path in Path(__file__).parent.glob("test_torch_*.py")]


@pytest.fixture
def tape(tmp_path: Path) -> str:
    return str(tmp_path / "step.tape")


@pytest.fixture(params=["native", "python"])
def hook(request: pytest.FixtureRequest) -> str:
    return request.param
