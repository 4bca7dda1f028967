"""What can go wrong, as exceptions that carry the library's own message."""

from __future__ import annotations


class TapedeckError(Exception):
    """Anything that the library refuses. `status` is its name, such as "not found"."""

    status = "error"


class OutOfMemory(TapedeckError, MemoryError):
    status = "out of memory"


class FileError(TapedeckError, OSError):
    """A file could not be opened, read, written or renamed."""

    status = "file"


class FormatError(TapedeckError, ValueError):
    """The file is no tape."""

    status = "format"


class DamagedError(FormatError):
    """The file is a tape, but broken."""

    status = "damaged"


class VersionError(FormatError):
    """The file was written by a newer version."""

    status = "version"


class InputError(TapedeckError, ValueError):
    """The data contradicts itself."""

    status = "input"


class ArgumentError(TapedeckError, ValueError):
    """Something that is never valid was passed."""

    status = "argument"


class StateError(TapedeckError, RuntimeError):
    """The call is not valid now, as a step inside a step."""

    status = "state"


class NotFoundError(TapedeckError, LookupError):
    status = "not found"


class BudgetError(TapedeckError, RuntimeError):
    """The memory limit cannot be met."""

    status = "budget"


class DeviceError(TapedeckError, RuntimeError):
    status = "device"


class DivergedError(TapedeckError, RuntimeError):
    """A replayed step is not the recorded one."""

    status = "diverged"


# In the order of td_status, from 1.
BY_STATUS: tuple[type[TapedeckError], ...] = (
    OutOfMemory,
    FileError,
    FormatError,
    DamagedError,
    VersionError,
    InputError,
    ArgumentError,
    StateError,
    NotFoundError,
    BudgetError,
    DeviceError,
    DivergedError,
)


def error_of(status: int, message: str) -> TapedeckError:
    """The exception for a td_status other than 0."""
    return BY_STATUS[status - 1](message) if 0 < status <= len(BY_STATUS) else TapedeckError(message)
