"""The functions of libbuttress_python.so (python/c_interface.h)."""
import ctypes
import json
import os
import pathlib
from typing import Any

# Tests name the library in the build folder.
_PATH = os.environ.get("BUTTRESS_PYTHON_LIBRARY",
                       pathlib.Path(__file__).with_name("libbuttress_python.so"))
_library = ctypes.CDLL(os.fspath(_PATH))
_library.buttress_version.restype = ctypes.c_char_p
_library.buttress_call.argtypes = (ctypes.c_char_p, ctypes.c_char_p)
_library.buttress_call.restype = ctypes.c_void_p
_library.buttress_free.argtypes = (ctypes.c_void_p,)
_library.buttress_free.restype = None


def version() -> str:
    return _library.buttress_version().decode()


def call(function: str, **arguments: Any) -> dict:
    """Returns the result of `function`; raises ValueError with its error."""
    try:
        text = json.dumps(arguments)
    except TypeError as error:
        raise ValueError(f"{function}: {error}") from None
    answer = _library.buttress_call(function.encode(), text.encode())
    if not answer:
        raise MemoryError(f"buttress: no memory for the result of {function}")
    try:
        parsed = json.loads(ctypes.string_at(answer))
    finally:
        _library.buttress_free(answer)
    if "error" in parsed:
        raise ValueError(parsed["error"])
    return parsed["result"]
