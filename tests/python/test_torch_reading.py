"""What reads a tensor behind the dispatcher, while its bytes are away: whole, or an exception that says what to do; never a crash."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any, Callable

import numpy as np
import pytest
import tapedeck
import torch
from torch.utils import dlpack

SIZE = 4096
nbytes = lambda tensor: torch._C.TensorBase.untyped_storage(tensor).nbytes()  # noqa: E731 - around what a session watches


def away() -> torch.Tensor:
    """An activation that left, in a step whose budget holds two others."""
    first = torch.full((SIZE,), 3.0).sqrt()
    others = [first.mul(i) for i in range(4)]
    for other in others[2:]:
        other.add_(1)
    for _ in range(1000):
        if nbytes(first) == 0:
            return first
        others[2].add_(1)
        others[3].add_(1)
    raise AssertionError("it did not leave")


@pytest.fixture
def step(hook: str, tape: str) -> Any:
    return tapedeck.record(tape, hook=hook, budget=SIZE * 4 * 3)


EXPECTED = np.full(SIZE, 3.0, np.float32) ** np.float32(0.5)


def saved(tensor: torch.Tensor) -> np.ndarray:
    file = io.BytesIO()
    torch.save({"tensor": tensor}, file)
    file.seek(0)
    return torch.load(file)["tensor"].numpy()


def at_address(tensor: torch.Tensor) -> np.ndarray:
    import ctypes

    return np.frombuffer(ctypes.string_at(tensor.data_ptr(), SIZE * 4), np.float32)


READERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "numpy": lambda t: t.numpy(),
    "asarray": np.asarray,
    "tolist": lambda t: np.array(t.tolist(), np.float32),
    "item": lambda t: np.array([t[i].item() for i in range(SIZE)], np.float32),
    "data_ptr": at_address,
    "dlpack": lambda t: np.from_dlpack(t),
    "to_dlpack": lambda t: torch.from_dlpack(dlpack.to_dlpack(t)).numpy(),
    "save": saved,
    "pickle": lambda t: pickle.loads(pickle.dumps(t)).numpy(),
    "deepcopy": lambda t: copy.deepcopy(t).numpy(),
    "storage": lambda t: np.frombuffer(bytes(t.untyped_storage().tolist()), np.float32),
    "clone": lambda t: t.clone().numpy(),
    "repr": lambda t: (repr(t), t.numpy())[1],
}


@pytest.mark.parametrize("reader", READERS)
def test_what_is_caught_is_whole(step: Any, reader: str) -> None:
    with step:
        tensor = away()
        assert np.array_equal(READERS[reader](tensor), EXPECTED)
    assert np.array_equal(tensor.numpy(), EXPECTED)


def test_an_address_that_others_keep_stays_good(step: Any) -> None:
    with step:
        tensor = away()
        array = tensor.numpy()
        pressed = [torch.ones(SIZE).exp() for _ in range(20)]
        assert nbytes(tensor) == SIZE * 4
        tensor.add_(1)
        assert np.array_equal(array, EXPECTED + 1)
        assert step.hook.pinned_bytes == SIZE * 4
        del pressed
    assert step.report().pinned_bytes == SIZE * 4


def test_a_tensor_is_whole_after_the_step(step: Any) -> None:
    with step:
        tensor = away()
    assert nbytes(tensor) == SIZE * 4
    assert np.array_equal(tensor[10:20].numpy(), EXPECTED[10:20])


def test_restore(step: Any) -> None:
    with step:
        tensor = away()
        assert step.restore(tensor) is tensor
        assert nbytes(tensor) == SIZE * 4
    assert step.restore(tensor) is tensor  # outside of a step there is nothing to do


def test_the_patches_go_with_the_step(step: Any) -> None:
    before = {name: getattr(torch.Tensor, name) for name in dir(torch.Tensor)}
    with step:
        assert torch.Tensor.numpy is not before["numpy"]
    with pytest.raises(KeyError), step:
        raise KeyError
    assert {name: getattr(torch.Tensor, name) for name in dir(torch.Tensor)} == before


def test_main_memory_really_shrinks(hook: str, tape: str) -> None:
    """Large blocks are mapped one by one, so one that was given back is no longer mapped."""

    def is_mapped(address: int) -> bool:
        with open("/proc/self/maps") as maps:
            return any(int(first, 16) <= address < int(last, 16) for first, last in (line.split()[0].split("-") for line in maps))

    mib = 2**20
    with tapedeck.record(tape, hook=hook, budget=150 * mib) as step:
        first = torch.zeros(40 * mib // 4).exp()
        address = torch._C.TensorBase.data_ptr(first)
        assert is_mapped(address) and nbytes(first) == 40 * mib
        others = [torch.zeros(40 * mib // 4) for _ in range(3)]
        for _ in range(1000):
            if nbytes(first) == 0:
                break
            others[0].add_(1)
        assert nbytes(first) == 0 and not is_mapped(address)
        assert step.restore(first)[-1].item() == 1


@pytest.fixture(scope="module")
def binding(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from torch.utils import cpp_extension

    pytest.importorskip("ninja")
    source = """
        float first(at::Tensor t) { return *t.data_ptr<float>(); }
        float first_const(at::Tensor t) { return *t.const_data_ptr<float>(); }
    """
    folder = tmp_path_factory.mktemp("binding")
    return cpp_extension.load_inline(
        "tapedeck_test_binding", source, functions=["first", "first_const"], build_directory=str(folder)
    )


@pytest.mark.parametrize("name", ["first", "first_const"])
def test_a_binding_in_cpp_gets_an_exception_that_says_what_to_do(tape: str, binding: Any, name: str) -> None:
    step = tapedeck.record(tape, hook="native", budget=SIZE * 4 * 3)
    read = getattr(binding, name)
    with step:
        tensor = away()
        with pytest.raises(RuntimeError, match=r"session\.restore\(tensor\)"):
            read(tensor)
        step.restore(tensor)
        assert read(tensor) == EXPECTED[0]
    assert read(tensor) == EXPECTED[0]


def test_a_binding_in_cpp_gets_an_exception_with_the_python_hook(tape: str, binding: Any) -> None:
    step = tapedeck.record(tape, hook="python", budget=SIZE * 4 * 3)
    with step:
        tensor = away()
        with pytest.raises(RuntimeError):
            binding.first(tensor)
        assert binding.first(step.restore(tensor)) == EXPECTED[0]


def test_a_binding_inside_an_opaque_region_finds_what_it_takes(hook: str, tape: str, binding: Any) -> None:
    step = tapedeck.record(tape, hook=hook, budget=SIZE * 4 * 3)
    with step:
        tensor = away()
        assert tapedeck.skip_offload(binding.first, name="first")(tensor) == EXPECTED[0]
