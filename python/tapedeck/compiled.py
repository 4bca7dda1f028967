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


def _as_op(original: Callable[..., Any], hook: Any) -> Callable[..., Any]:
    def call(graph: Any, inputs: Any) -> Any:
        read = _tensors(inputs)
        changed = set(getattr(graph, "mutated_input_idxs", ()) or ())
        written = [tensor for i, tensor in enumerate(read) if tensor is not None and i in changed]
        hook.call_begin("inductor.graph", [tensor for tensor in read if tensor is not None], written)
        del read, written  # a graph lets its inputs go as soon as it can
        try:
            outputs = original(graph, inputs)
        except BaseException:
            hook.call_abort()
            raise
        hook.call_end(_tensors(outputs))
        return outputs

    return call


def _watch_graphs(hook: Any) -> None:
    """Once in a step, as soon as the class is there."""
    module = sys.modules.get("torch._inductor.output_code")
    if module is None or hasattr(module.CompiledFxGraph.__call__, "of_tapedeck"):
        return
    graph, original = module.CompiledFxGraph, module.CompiledFxGraph.__call__
    graph.__call__ = _as_op(original, hook)
    graph.__call__.of_tapedeck = True
    _undo.append(lambda: setattr(graph, "__call__", original))


def _watch_compiler(hook: Any) -> None:
    handler = sys.modules["torch._dynamo.callback"].callback_handler

    def begins(_: Any) -> None:
        hook.pause(1)

    def ends(_: Any) -> None:
        hook.pause(-1)
        _watch_graphs(hook)

    handler.register_start_callback(begins)
    handler.register_end_callback(ends)
    _undo.append(lambda: handler.remove_start_callback(begins))
    _undo.append(lambda: handler.remove_end_callback(ends))


def watch(hook: Any) -> None:
    """Where nothing was ever given to torch.compile there is nothing to watch, and importing the compiler would take seconds."""
    _watch_graphs(hook)
    if "torch._dynamo.callback" in sys.modules:
        _watch_compiler(hook)


def unwatch() -> None:
    while _undo:
        _undo.pop()()
