"""Trains a small GPT with PyTorch, without a limit and then inside a budget, and compares the weights bit for bit.

python examples/train_gpt.py --steps 12 --budget 60%
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

try:
    import tapedeck
except ImportError:  # in a checkout after ./run build
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
    import tapedeck

WORDS, LENGTH, BATCH = 256, 128, 8


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, width), nn.Embedding(LENGTH, width)
        self.blocks = nn.Sequential(*(Block(width, 4) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, WORDS, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.norm(self.blocks(x)))


def train(steps: int, layers: int, width: int, device: str, session: Any = None) -> tuple[list[Tensor], float]:
    """The weights after some steps, and the seconds that the last half of the steps took."""
    torch.manual_seed(0)
    model = GPT(layers, width).to(device)
    optimizer = torch.optim.Adam(model.parameters(), 3e-4)
    data = torch.Generator().manual_seed(1)

    def step(tokens: Tensor) -> Tensor:
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        return loss

    start = 0.0
    for i in range(steps):
        if i == steps // 2:
            start = time.perf_counter()
        tokens = torch.randint(WORDS, (BATCH, LENGTH + 1), generator=data).to(device)
        optimizer.zero_grad()
        if session is None:
            loss = step(tokens)
        else:
            with session:
                loss = step(tokens)
            print(f"  loss {loss.item():.4f}  {session.report()}")
        optimizer.step()
    return [p.detach() for p in model.parameters()], time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=8, help="training steps (8)")
    parser.add_argument("--layers", type=int, default=6, help="layers of the GPT (6)")
    parser.add_argument("--width", type=int, default=128, help="its width (128)")
    parser.add_argument("--budget", default="60%", help="for activations: 24MiB, or a share of what the step needs (60%%)")
    parser.add_argument("--device", default=None, help="where to train; the accelerator where there is one")
    parser.add_argument("--hook", choices=["auto", "native", "python"], default="auto", help="how operators are seen (auto)")
    options = parser.parse_args()
    device = options.device or (str(torch.accelerator.current_accelerator()) if torch.accelerator.is_available() else "cpu")
    size = (options.steps, options.layers, options.width, device)
    with tempfile.TemporaryDirectory() as folder:
        recording = tapedeck.record(f"{folder}/plain.tape", hook=options.hook, device=device)
        train(1, *size[1:], recording)
        recording.close()
        peak = tapedeck.open(f"{folder}/plain.tape").info()["peak_bytes"]
        print(f"without a limit: activations take {peak / 2**20:.1f} MiB")
        plain, plain_s = train(*size)
        budget = peak * int(options.budget[:-1]) // 100 if options.budget.endswith("%") else options.budget
        session = tapedeck.Session(f"{folder}/step.tape", budget=budget, hook=options.hook, device=device)
        print(f"with a budget of {session.budget / 2**20:.1f} MiB:")
        budgeted, budgeted_s = train(*size, session)
        session.close()
    same = all(torch.equal(a, b) for a, b in zip(plain, budgeted))
    print(
        f"{plain_s:.2f} s without, {budgeted_s:.2f} s inside the budget; the weights are {'bit-identical' if same else 'DIFFERENT'}"
    )
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
