"""The calls of 32-bit programs, whose numbers a filter for 64 bits does not know."""

import ctypes
import mmap
import os

from tests.abuse.payloads.verdict import done, through

# mov eax, 20 (getpid); int 0x80; ret
CODE = b"\xb8\x14\x00\x00\x00\xcd\x80\xc3"
child = os.fork()
if child == 0:
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(CODE)
    code = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    os._exit(0 if code() == os.getpid() else 1)
if os.waitpid(child, 0)[1] == 0:
    through("a call of 32 bits was answered")
done()
