"""Small models of the kinds that people train, in plain PyTorch, each with its batches and its loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class MLP(nn.Sequential):
    def __init__(self) -> None:
        layers: list[nn.Module] = []
        for _ in range(5):
            layers += [nn.Linear(96, 96), nn.GELU(), nn.Dropout(0.1)]
        super().__init__(*layers, nn.Linear(96, 10))


class ResidualBlock(nn.Module):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True)
        )
        self.second = nn.Sequential(nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after))
        self.short = nn.Sequential()
        if stride != 1 or before != after:
            self.short = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.second(self.first(x)) + self.short(x), inplace=True)


class ResNet18(nn.Module):
    """The eighteen layers, on narrow channels."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        )
        widths = [width, width, 2 * width, 4 * width, 8 * width]
        blocks: list[nn.Module] = []
        for i in range(4):
            blocks += [
                ResidualBlock(widths[i], widths[i + 1], 1 if i == 0 else 2),
                ResidualBlock(widths[i + 1], widths[i + 1], 1),
            ]
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(8 * width, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(
        self, layers: int = 3, width: int = 48, length: int = 32, words: int = 64, reentrant: bool | None = None
    ) -> None:
        super().__init__()
        self.reentrant = reentrant  # None: nothing is recomputed
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, 4, True) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x) if self.reentrant is None else checkpoint(block, x, use_reentrant=self.reentrant)
        return self.head(self.norm(x))


class ViT(nn.Module):
    def __init__(self, layers: int = 3, width: int = 48) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, 8)
        self.token, self.places = nn.Parameter(torch.zeros(1, 1, width)), nn.Parameter(torch.randn(1, 17, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, 4, False) for _ in range(layers)))
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.places
        return self.head(self.blocks(x)[:, 0])


def double_conv(before: int, after: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(before, after, 3, 1, 1), nn.GroupNorm(4, after), nn.SiLU(), nn.Conv2d(after, after, 3, 1, 1), nn.SiLU()
    )


class UNet(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.down = nn.ModuleList([double_conv(3, width), double_conv(width, 2 * width)])
        self.bottom = double_conv(2 * width, 4 * width)
        self.up = nn.ModuleList([nn.ConvTranspose2d(4 * width, 2 * width, 2, 2), nn.ConvTranspose2d(2 * width, width, 2, 2)])
        self.join = nn.ModuleList([double_conv(4 * width, 2 * width), double_conv(2 * width, width)])
        self.head = nn.Conv2d(width, 10, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = self.bottom(x)
        for up, join in zip(self.up, self.join):
            x = join(torch.cat([up(x), kept.pop()], 1))
        return self.head(x).mean((2, 3))


class LSTM(nn.Module):
    def __init__(self, words: int = 32, width: int = 32) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, words)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.lstm(self.words(tokens))[0])


@dataclass
class Case:
    name: str
    model: Callable[[], nn.Module]
    batch: Callable[[torch.Generator], tuple[Tensor, Tensor]]
    adam: bool = False  # Adam, inside the step

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        x, target = batch
        return F.cross_entropy(model(x).flatten(0, -2), target.flatten())


def _vectors(g: torch.Generator) -> tuple[Tensor, Tensor]:
    return torch.randn(512, 96, generator=g), torch.randint(10, (512,), generator=g)


def _images(g: torch.Generator) -> tuple[Tensor, Tensor]:
    return torch.randn(8, 3, 32, 32, generator=g), torch.randint(10, (8,), generator=g)


def _text(words: int, length: int) -> Callable[[torch.Generator], tuple[Tensor, Tensor]]:
    def batch(g: torch.Generator) -> tuple[Tensor, Tensor]:
        tokens = torch.randint(words, (8, length + 1), generator=g)
        return tokens[:, :-1], tokens[:, 1:]

    return batch


CASES = [
    Case("mlp", MLP, _vectors, adam=True),
    Case("resnet18", ResNet18, _images),
    Case("gpt", GPT, _text(64, 32), adam=True),
    Case("vit", ViT, _images),
    Case("unet", UNet, _images),
    Case("lstm", LSTM, _text(32, 12)),
    Case("gpt_checkpointed", lambda: GPT(reentrant=False), _text(64, 32)),
    Case("gpt_checkpointed_reentrant", lambda: GPT(reentrant=True), _text(64, 32)),
]


@dataclass
class Trained:
    losses: list[Tensor]
    gradients: list[Tensor]
    weights: list[Tensor]

    def same_bits(self, other: Trained) -> bool:
        mine = [*self.losses, *self.gradients, *self.weights]
        theirs = [*other.losses, *other.gradients, *other.weights]
        return len(mine) == len(theirs) and all(
            a.dtype == b.dtype and torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8))
            for a, b in zip(mine, theirs)
        )


def train(case: Case, session=None, steps: int = 8, after_step: Callable[[], None] = lambda: None) -> Trained:
    """Trains from the same start every time, each step inside the session where there is one."""
    torch.manual_seed(1)
    model = case.model()
    optimizer = (
        torch.optim.Adam(model.parameters(), 1e-3) if case.adam else torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    )
    generator = torch.Generator().manual_seed(2)
    losses = []

    def step(batch: tuple[Tensor, Tensor]) -> None:
        optimizer.zero_grad(set_to_none=True)
        loss = case.loss(model, batch)
        loss.backward()
        if case.adam:
            optimizer.step()
        losses.append(loss.detach())

    for _ in range(steps):
        batch = case.batch(generator)
        if session is None:
            step(batch)
        else:
            with session:
                step(batch)
            after_step()
        if not case.adam:
            optimizer.step()
    tensors = [tensor.detach().clone() for tensor in [*model.parameters(), *model.buffers()]]
    return Trained([loss.reshape(1) for loss in losses], [p.grad.clone() for p in model.parameters()], tensors)
