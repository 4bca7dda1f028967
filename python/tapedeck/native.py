"""The native hook: builds hook/native.cpp against the PyTorch that is there, on first use, and keeps it."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shlex
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from types import ModuleType

import torch

from .errors import StateError
from .library import library_path

NAME = "tapedeck_native"
PACKAGE = Path(__file__).parent
SOURCES = PACKAGE / "hook"


class NoCompiler(StateError):
    """The native hook could not be built; the message says why."""


def _headers() -> Path:
    """The folder that holds tapedeck/deck.h: beside the package in a wheel, else in the checkout."""
    for folder in (PACKAGE / "include", PACKAGE.parents[1] / "include"):
        if (folder / "tapedeck" / "deck.h").exists():
            return folder
    raise NoCompiler("the headers of libtapedeck are not there")


def _cache_folder() -> Path:
    named = os.environ.get("TAPEDECK_CACHE") or os.environ.get("XDG_CACHE_HOME")
    return Path(named) / "tapedeck" if named else Path.home() / ".cache" / "tapedeck"


def _built_for(headers: Path) -> str:
    """What the module depends on: another PyTorch, Python, source, header or library is another module."""
    digest = hashlib.sha256()
    for text in (torch.__version__, sys.version, str(library_path())):
        digest.update(text.encode())
    for file in [*sorted(SOURCES.iterdir()), *sorted(headers.glob("tapedeck/*.h"))]:
        digest.update(file.read_bytes())
    return f"torch-{torch.__version__}-{digest.hexdigest()[:16]}"


def _command(headers: Path, output: str) -> list[str]:
    from torch.utils import cpp_extension

    library = library_path()
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    include = [f"-I{headers}"]
    for folder in [*cpp_extension.include_paths(), __import__("sysconfig").get_path("include")]:
        include += ["-isystem", folder]
    torch_libraries = cpp_extension.library_paths()[0]
    return [
        *compiler, "-O2", "-std=c++20", "-fPIC", "-shared", "-fvisibility=hidden", f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        f"-DTORCH_EXTENSION_NAME={NAME}", *include, str(SOURCES / "native.cpp"), "-o", output,
        f"-L{torch_libraries}", "-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python", str(library), f"-Wl,-rpath,{library.parent}",
    ]  # fmt: skip


def _build(target: Path, headers: Path) -> None:
    """Compiles beside the target and renames, so that several processes may do it at once."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=target.parent, suffix=".so", delete=False) as part:
        pass
    try:
        done = subprocess.run(_command(headers, part.name), capture_output=True, text=True)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()
            raise NoCompiler(f"the native hook did not compile: {lines[0] if lines else 'the compiler failed'}")
        os.replace(part.name, target)
    except OSError as error:
        raise NoCompiler(f"no C++ compiler: {error}") from error
    finally:
        Path(part.name).unlink(missing_ok=True)


@cache
def load() -> ModuleType:
    """The module, built where it is not there yet. Raises NoCompiler."""
    headers = _headers()
    target = _cache_folder() / _built_for(headers) / f"{NAME}.so"
    if not target.exists():
        _build(target, headers)
    spec = importlib.util.spec_from_file_location(NAME, target)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        raise NoCompiler(f"{target} cannot be loaded: {error}") from error
    return module
