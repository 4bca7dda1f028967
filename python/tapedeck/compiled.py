"""torch.compile: each compiled graph is one op of the step.

Compiled code calls no operators that a hook could see, and reads addresses. Its graphs are entered through one class, whose calls are
told to the hook while a step runs: what a graph takes is brought to the device, and what it gives, for the backward pass too, are
activations like others. While PyTorch compiles nothing is recorded, since its tensors have no bytes.
"""

from __future__ import annotations

import sys
from typing import Any, Callable

import torch

_undo: list[Callable[[], None]] = []


def _tensors(values: Any) -> list[torch.Tensor | None]:
    values = values if isinstance(values, (list, tuple)) else [values]
    return [value if isinstance(value, torch.Tensor) else None for value in values]


def _watched(original: Callable[..., Any], hook: Any) -> Callable[..., Any]:
    def call(graph: Any, inputs: Any) -> Any:
        read = _tensors(inputs)
        changed = set(getattr(graph, "mutated_input_idxs", ()) or ())
        written = [tensor for i, tensor in enumerate(read) if tensor is not None and i in changed]
        hook.call_begin("inductor.graph", [tensor for tensor in read if tensor is not None], written)
        try:
            outputs = original(graph, inputs)
        except BaseException:
            hook.call_abort()
            raise
        hook.call_end(_tensors(outputs))
        return outputs

    return call


def watch(hook: Any) -> None:
    """Where nothing was ever compiled there is nothing to watch, and importing the compiler would take seconds."""
    if "torch._inductor.output_code" in sys.modules:
        watch_graphs(hook)
    if "torch._dynamo.callback" in sys.modules:
        watch_compiler(hook)


def watch_graphs(hook: Any) -> None:
    graph = sys.modules["torch._inductor.output_code"].CompiledFxGraph
    original = graph.__call__
    graph.__call__ = _watched(original, hook)
    _undo.append(lambda: setattr(graph, "__call__", original))


def watch_compiler(hook: Any) -> None:
    handler = sys.modules["torch._dynamo.callback"].callback_handler

    def begins(_: Any) -> None:
        hook.pause(1)

    def ends(_: Any) -> None:
        hook.pause(-1)
        if not _undo_has_graphs() and "torch._inductor.output_code" in sys.modules:
            watch_graphs(hook)

    handler.register_start_callback(begins)
    handler.register_end_callback(ends)
    _undo.append(lambda: handler.remove_start_callback(begins))
    _undo.append(lambda: handler.remove_end_callback(ends))


def unwatch() -> None:
    while _undo:
        _undo.pop()()
