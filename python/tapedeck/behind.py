"""What reads a tensor without an operator: restored before it is read, while a step runs.

Tensor's methods are patched from the step's begin to its end and no longer. What hands an address out that others keep (numpy, DLPack,
data_ptr) makes the storage stay where it is for the rest of the step. What is not caught here, such as a binding in C++, gets an
exception from PyTorch that says what to do.
"""

from __future__ import annotations

from functools import wraps
from typing import Any, Callable

import torch

# True: others keep the address.
_METHODS = {
    "numpy": True,
    "__array__": True,
    "__dlpack__": True,
    "data_ptr": True,
    "share_memory_": True,
    "untyped_storage": True,
    "storage": True,
    "_typed_storage": True,
    "tolist": False,
    "__reduce_ex__": False,
    "__deepcopy__": False,
    "__repr__": False,  # printing sets dispatch modes aside
    "__format__": False,
}

_undo: list[Callable[[], None]] = []


def _wrapped(original: Callable[..., Any], keeps: bool, hook: Any) -> Callable[..., Any]:
    @wraps(original)
    def read(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        (hook.pin if keeps else hook.restore)(tensor)
        return original(tensor, *args, **kwargs)

    return read


# DistributedDataParallel compares the pointers of gradients and of its buckets, in hooks on the accumulation of gradients and when all are
# reduced. So gradients stay, and buckets, which it makes in the second step, are no activations.


def _with_whole_gradients(forward: Callable[..., Any], hook: Any) -> Callable[..., Any]:
    def pin(parameter: torch.Tensor) -> None:
        if parameter.grad is not None:
            hook.pin(parameter.grad)

    @wraps(forward)
    def call(module: Any, *args: Any, **kwargs: Any) -> Any:
        for parameter in module.parameters():
            if parameter.requires_grad and parameter.is_leaf:
                _undo.append(parameter.register_post_accumulate_grad_hook(pin).remove)
        return forward(module, *args, **kwargs)

    return call


def _unseen(original: Callable[..., Any], hook: Any) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        hook.pause(1)
        try:
            return original(*args)
        finally:
            hook.pause(-1)

    return call


def _replace(owner: Any, name: str, made: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    original = getattr(owner, name)
    own = name in vars(owner)
    setattr(owner, name, made(original))
    _undo.append(lambda: setattr(owner, name, original) if own else delattr(owner, name))


def _patch(owner: Any, name: str, keeps: bool, hook: Any) -> None:
    _replace(owner, name, lambda original: _wrapped(original, keeps, hook))


def watch(hook: Any) -> None:
    """From here on what is read is restored through `hook`."""
    for name, keeps in _METHODS.items():
        if hasattr(torch.Tensor, name):
            _patch(torch.Tensor, name, keeps, hook)
    _patch(torch.utils.dlpack, "to_dlpack", True, hook)
    _patch(torch, "to_dlpack", True, hook)
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        _replace(torch.nn.parallel.DistributedDataParallel, "forward", lambda forward: _with_whole_gradients(forward, hook))
        _replace(torch.distributed.Reducer, "_rebuild_buckets", lambda rebuild: _unseen(rebuild, hook))


def unwatch() -> None:
    while _undo:
        _undo.pop()()
