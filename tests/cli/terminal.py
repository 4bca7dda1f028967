#!/usr/bin/env python3
"""terminal.py COMMAND STEP...: runs a shell command on a terminal of its own. A step is -TEXT, which is typed, or +TEXT, which must
be shown within ten seconds; \\n, \\t and \\xNN mean what they do in C."""
import os
import pty
import select
import sys
import time


def main():
    command, steps = sys.argv[1], sys.argv[2:]
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm", COLUMNS="100", LC_ALL="C.UTF-8")
        os.environ.pop("NO_COLOR", None)
        os.execvp("sh", ["sh", "-c", command])
    shown = b""

    def read(seconds):
        nonlocal shown
        if not select.select([fd], [], [], seconds)[0]:
            return True
        try:
            more = os.read(fd, 65536)
        except OSError:  # the command has ended
            return False
        shown += more
        return bool(more)

    for step in steps:
        text = step[1:].encode("latin-1").decode("unicode_escape").encode("latin-1")
        if step[0] == "-":
            os.write(fd, text)
            continue
        end = time.monotonic() + 10
        while text not in shown and time.monotonic() < end and read(0.1):
            pass
        print("saw" if text in shown else f"in {shown!r} there is no", repr(text.decode("latin-1")))
        shown = shown.partition(text)[2]
    while read(10):
        pass
    os.waitpid(pid, 0)


main()
