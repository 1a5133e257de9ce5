"""Whether matrix products in bfloat16 may use the CPU's tiles (Intel AMX), found out in a process of its own.

Some virtual machines announce AMX and end whoever uses it with an illegal instruction; PyTorch and TensorFlow believe
the announcement. There oneDNN is told to do without, before a framework is imported. Run as a program, this file
multiplies two tiles, and ends as it ends. The instructions are those of Intel's "Architecture instruction set
extensions programming reference", chapter 3.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import struct
import subprocess
import sys
from typing import Any, Callable, Dict

LIMIT = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}  # the widest of oneDNN's instruction sets without tiles
PATIENCE_S = 20.0
ANNOUNCED = 1 << 22 | 1 << 24  # AMX-BF16 and AMX-TILE, in EDX of leaf 7
ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA = 158, 0x1023, 18
# push rbx; mov eax, edi; mov ecx, esi; cpuid; mov eax, edx; pop rbx; ret
CPUID = bytes.fromhex("53 89f8 89f1 0fa2 89d0 5b c3")
# ldtilecfg [rdi]; tilezero tmm0, tmm1, tmm2; tdpbf16ps tmm0, tmm1, tmm2; tilerelease; ret
PRODUCT = bytes.fromhex("c4e2784907 c4e27b49c0 c4e27b49c8 c4e27b49d0 c4e26a5cc1 c4e27849c0 c3")


def state() -> str:
    """`absent` where the CPU does not announce it, `usable`, or `broken` where using it ends the process."""
    try:
        announced = platform.machine() == "x86_64" and _announced()
    except OSError:  # memory that may be written and run is forbidden here, and then in oneDNN, too
        return "absent"
    return "absent" if not announced else "usable" if _works() else "broken"


def keep_off(tiles: str) -> Dict[str, str]:
    """The variables that keep oneDNN off tiles that do not work; a limit that the user has set stays."""
    return LIMIT if tiles == "broken" and not set(LIMIT) & set(os.environ) else {}


def _announced() -> bool:
    with _Code(CPUID) as code:
        return int(code(ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32)(7, 0)) & ANNOUNCED == ANNOUNCED


def _works() -> bool:
    try:
        ended = subprocess.run(
            [sys.executable, "-I", os.path.abspath(__file__)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ended.returncode == 0


class _Code:
    """Machine code in memory, as a function."""

    def __init__(self, code: bytes):
        self.memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self.memory.write(code)

    def __enter__(self) -> Callable[..., Any]:
        first = ctypes.c_char.from_buffer(self.memory)
        return lambda result, *arguments: ctypes.CFUNCTYPE(result, *arguments)(ctypes.addressof(first))

    def __exit__(self, *_: Any) -> None:
        """The memory goes with the object."""


def _multiply() -> None:
    """Ask the system for tiles, and multiply two of them."""
    ctypes.CDLL(None).syscall(ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA)
    config = bytearray(64)  # palette 1; three tiles of 16 rows of 64 bytes
    config[0] = 1
    for tile in range(3):
        struct.pack_into("<H", config, 16 + 2 * tile, 64)
        config[48 + tile] = 16
    held = ctypes.create_string_buffer(bytes(config), 64)
    with _Code(PRODUCT) as code:
        code(None, ctypes.c_void_p)(ctypes.addressof(held))


if __name__ == "__main__":
    _multiply()
