"""Opaque regions: code that is one op of the step, whatever runs inside.

Nothing is put between the tensors and their graph. The backward op begins before the first node that produced an output of the region
runs, and ends before the node that produced one of its inputs does; its outputs are the gradients that have come there. Nodes are numbered
as they are made, so an operator that is called by a node older than the region ends it too, and so does the end of the backward pass.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, TypeVar, overload

import torch
from torch.utils._pytree import tree_flatten

F = TypeVar("F", bound=Callable[..., Any])

# The session that is inside a step, set by session.py.
active: Any = None


class Region:
    """One pass of a region through a step."""

    def __init__(self, session: Any, name: str, inputs: list[torch.Tensor]) -> None:
        self.session = session
        self.first_node = torch._C._autograd._get_sequence_nr()
        self.gradients: list[torch.Tensor | None] = []
        self.open = False
        self.around: Region | None = session.forward[-1] if session.forward else None
        self.id = session.hook.region_begin(name, inputs)

    def follow(self, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        """Hooks on the nodes around it."""
        for output in outputs:
            node = output.grad_fn
            if node is not None and node._sequence_nr() >= self.first_node:
                node.register_prehook(self.begin)
        wanted = [tensor for tensor in inputs if tensor.requires_grad and tensor.grad_fn is not None]
        self.gradients = [None] * len(wanted)
        for place, tensor in enumerate(wanted):
            made_by: Any = tensor.grad_fn
            made_by.register_prehook(functools.partial(self.reached, place, tensor.output_nr))

    def begin(self, gradients: Any) -> None:
        if self.open or self not in self.session.regions:
            return
        if self.around:
            self.around.begin(gradients)
        self.session.hook.region_backward_begin(self.id, [g for g in gradients if g is not None])
        self.open = True
        self.session.open_backward()
        torch.autograd.Variable._execution_engine.queue_callback(self.end)

    def reached(self, place: int, output: int, gradients: Any) -> None:
        if self.open:
            self.gradients[place] = gradients[output]
            self.end()

    def end(self) -> None:
        if self.open and self in self.session.regions:
            self.open = False
            self.session.open_backward()
            self.session.hook.region_backward_end(self.id, self.gradients)
        self.gradients = [None] * len(self.gradients)


def _held(function: Callable[..., Any]) -> list[torch.Tensor]:
    """Tensors that a function brings along: its closure, the parameters of a module, the object of a method."""
    held: list[Any] = [function, getattr(function, "__self__", None)]
    for cell in getattr(function, "__closure__", None) or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:
            pass  # not filled yet
    found: list[torch.Tensor] = []
    for value in held:
        if isinstance(value, torch.nn.Module):
            found += [*value.parameters(), *value.buffers()]
        elif isinstance(value, torch.Tensor):
            found.append(value)
    return found


def run(function: Callable[..., Any], name: str, args: Any, kwargs: Any) -> Any:
    """Calls a function as an opaque region of the step that is running; outside of one, plainly."""
    session = active
    if session is None:
        return function(*args, **kwargs)
    values = tree_flatten((args, kwargs))[0]
    inputs = [value for value in values if isinstance(value, torch.Tensor)]
    held = _held(function) + [tensor for value in values if isinstance(value, torch.nn.Module) for tensor in _held(value)]
    region = Region(session, name, inputs + held)
    session.regions.add(region)
    session.opaque.add(name)
    session.forward.append(region)
    try:
        result = function(*args, **kwargs)
    except BaseException:
        session.hook.region_abort(region.id)
        raise
    finally:
        session.forward.remove(region)
    outputs = [value if isinstance(value, torch.Tensor) else None for value in tree_flatten(result)[0]]
    session.hook.region_end(region.id, outputs)
    region.follow(inputs, [value for value in outputs if value is not None])
    return result


@overload
def skip_offload(function: F, *, name: str | None = None) -> F: ...
@overload
def skip_offload(*, name: str | None = None) -> Callable[[F], F]: ...
def skip_offload(function: Any = None, *, name: str | None = None) -> Any:
    """Makes a function or module opaque: one op NAME_fwd in the forward pass and one op NAME_bwd in the backward pass.

    What it takes is on the device while it runs, and what it gives may leave like any activation; what it keeps for itself stays.
    For code that reads tensors outside of operators, as a binding of your own, or runs other operators from step to step.

        @tapedeck.skip_offload
        def attention(q, k, v): ...

        model.encoder = tapedeck.skip_offload(model.encoder, name="encoder")
    """
    if function is None:
        return lambda f: skip_offload(f, name=name)
    label = name or getattr(function, "__name__", None) or type(function).__name__
    if isinstance(function, torch.nn.Module):
        function.forward = functools.wraps(function.forward)(_opaque(function.forward, label))
        return function
    return functools.wraps(function)(_opaque(function, label))


def _opaque(function: Callable[..., Any], label: str) -> Callable[..., Any]:
    def called(*args: Any, **kwargs: Any) -> Any:
        return run(function, label, args, kwargs)

    return called
