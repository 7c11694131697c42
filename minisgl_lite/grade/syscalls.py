"""System calls that a notebook has no use for and that a wall may be climbed with.

The chief of them makes a user namespace: inside it anybody may mount, and a file system in memory
that is mounted there has no limit but the machine's. This file runs inside the walls, by itself and
before the kernel: ``python -I -S -c TEXT PROGRAM ARGUMENTS…`` refuses the calls to itself and to
all that comes after it, and becomes the program.
"""

import ctypes
import os
import platform
import struct
import sys

MACHINES = {
    # The machine's mark, then the numbers of clone, ptrace, pivot_root, chroot, mount, umount2,
    # add_key, request_key, keyctl, unshare, perf_event_open, open_by_handle_at, setns,
    # process_vm_readv, process_vm_writev, kexec_file_load, bpf, userfaultfd, personality,
    # kexec_load, init_module, finit_module, delete_module.
    "x86_64": "c000003e 56 101 155 161 165 166 248 249 250 272 298 304 308"
    " 310 311 320 321 323 135 246 175 313 176",
    "aarch64": "c00000b7 220 117 41 51 40 39 217 218 219 97 241 265 268"
    " 270 271 294 280 282 92 104 105 273 106",
}
EVERYWHERE = range(425, 434)  # io_uring_* and the new ways to mount
CLONE3 = 435
NEW_USER = 0x10000000
ALLOW, REFUSE, UNKNOWN = 0x7FFF0000, 0x00050001, 0x00050026  # errno 1: EPERM, 38: ENOSYS


def program(machine: str) -> bytes:
    """The filter as the operating system's kernel reads it; empty for a machine not known here."""
    if machine not in MACHINES:
        return b""
    mark, *calls = MACHINES[machine].split()
    clone, *refused = map(int, calls)
    load, equal, above, bits, give = 0x20, 0x15, 0x35, 0x45, 0x06

    def step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
        return struct.pack("=HBBI", code, yes, no, value)

    steps = [step(load, 4), step(equal, int(mark, 16), 1), step(give, REFUSE), step(load, 0)]
    # The calls of another way to call on the same machine, x32, have numbers from here on.
    for code, number in [(above, 0x40000000), *((equal, n) for n in (*refused, *EVERYWHERE))]:
        steps += [step(code, number, 0, 1), step(give, REFUSE)]
    # What clone3 is asked for can't be seen; the C library then takes clone, where it can.
    steps += [step(equal, CLONE3, 0, 1), step(give, UNKNOWN)]
    steps += [step(equal, clone, 0, 3), step(load, 16), step(bits, NEW_USER, 0, 1)]
    steps += [step(give, REFUSE), step(give, ALLOW)]
    return b"".join(steps)


def refuse() -> None:
    """From here on, for this process and its children. Raises OSError when it can't be had."""
    text = program(platform.machine())
    if not text:
        return
    code = ctypes.create_string_buffer(text, len(text))

    class Filter(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))

    one = Filter(len(text) // 8, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, set_seccomp, with_filter = 38, 22, 2
    if libc.prctl(no_new_privileges, 1, 0, 0, 0) or libc.prctl(
        set_seccomp, with_filter, ctypes.byref(one), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "no filter for system calls")


if __name__ == "__main__":
    refuse()
    os.execvp(sys.argv[1], sys.argv[1:])
