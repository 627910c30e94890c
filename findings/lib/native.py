"""Libraries in C that lie below the directory ROOT of the environment."""

import ctypes
import glob
import os


def library(name):
    """Loads a library by the beginning of its file name."""
    found = sorted(glob.glob(os.path.join(os.environ["ROOT"], "usr/lib/*", name)))
    return ctypes.CDLL(found[0])


def expect(right, what):
    """Raises unless a call has gone well."""
    if not right:
        raise RuntimeError(f"{what} fails")


class Datum(ctypes.Structure):
    """Bytes and their number, as tdb and gdbm pass them."""

    _fields_ = [("pointer", ctypes.c_void_p), ("size", ctypes.c_size_t)]

    @classmethod
    def of(cls, data):
        """A datum with these bytes; the caller keeps them alive."""
        return cls(ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p), len(data))

    def bytes(self):
        """The bytes, or None if there is no such datum. The size of gdbm has 32 bits."""
        return ctypes.string_at(self.pointer, self.size & 0xFFFFFFFF) if self.pointer else None
