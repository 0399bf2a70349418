"""The functions of libbuttress_python.so (python/c_interface.h)."""
import ctypes
import functools
import json
import os
import pathlib
from typing import Any


@functools.cache
def _library() -> ctypes.CDLL:
    """Loaded at the first call: agents need no more of the package than buttress.agents."""
    # Tests name the library in the build folder.
    path = os.environ.get("BUTTRESS_PYTHON_LIBRARY",
                          pathlib.Path(__file__).with_name("libbuttress_python.so"))
    try:
        library = ctypes.CDLL(os.fspath(path))
    except OSError as error:
        raise ImportError(f"{error}; deploy/wheel.sh builds a wheel with this library") from None
    library.buttress_version.restype = ctypes.c_char_p
    library.buttress_call.argtypes = (ctypes.c_char_p, ctypes.c_char_p)
    library.buttress_call.restype = ctypes.c_void_p
    library.buttress_free.argtypes = (ctypes.c_void_p,)
    library.buttress_free.restype = None
    return library


def version() -> str:
    return _library().buttress_version().decode()


def call(function: str, **arguments: Any) -> dict:
    """Returns the result of `function`; raises ValueError with its error."""
    try:
        text = json.dumps(arguments, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{function}: {error}") from None
    library = _library()
    answer = library.buttress_call(function.encode(), text.encode())
    if not answer:
        raise MemoryError(f"buttress: no memory for the result of {function}")
    try:
        parsed = json.loads(ctypes.string_at(answer))
    finally:
        library.buttress_free(answer)
    if "error" in parsed:
        raise ValueError(parsed["error"])
    return parsed["result"]
