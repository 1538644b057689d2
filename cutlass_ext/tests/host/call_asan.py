"""Answers calls of a kernel library that is built with AddressSanitizer; see host_kernels.py."""

import ctypes
import json
import sys

from cutlass_ext import host


class Word(ctypes.Union):
    _fields_ = [("i", ctypes.c_int64), ("d", ctypes.c_double), ("p", ctypes.c_void_p)]


library = ctypes.CDLL(sys.argv[1])
for line in sys.stdin:
    request = json.loads(line)
    words = (Word * len(request["arguments"]))(*(Word(i=x) for x in request["arguments"]))
    function = library[request["function"]]
    function.restype = ctypes.c_char_p
    with host.options(**request["options"]):
        message = function(words, len(words), None)
    print(json.dumps(message.decode() if message else None), flush=True)
