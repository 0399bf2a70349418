"""Values of Python as JSON, with the types that JSON lacks. Read by harness.py and asserts.py.

A tuple is {"tuple": [...]}, and so on. An object that has no such form stays where it is and is
{"handle": number}.
"""

import decimal, fractions

SEQUENCES = {"tuple": tuple, "set": set, "frozenset": frozenset}
TEXTS = {"Decimal": decimal.Decimal, "Fraction": fractions.Fraction}

def encode(value, keep):
    """`keep` returns the number of an object that stays here."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list):
        return [encode(item, keep) for item in value]
    if isinstance(value, dict):
        return {"dict": [[encode(key, keep), encode(item, keep)] for key, item in value.items()]}
    for name, kind in SEQUENCES.items():
        if isinstance(value, kind):
            return {name: [encode(item, keep) for item in value]}
    for name, kind in TEXTS.items():
        if isinstance(value, kind):
            return {name: str(value)}
    if isinstance(value, (bytes, bytearray)):
        return {"bytes": bytes(value).hex()}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, range):
        return {"range": [value.start, value.stop, value.step]}
    return {"handle": keep(value)}

def decode(form, handle):
    """`handle` returns the object of a number."""
    if isinstance(form, list):
        return [decode(item, handle) for item in form]
    if not isinstance(form, dict):
        return form
    (name, inside), = form.items()
    if name == "handle":
        return handle(inside)
    if name == "dict":
        return {decode(key, handle): decode(item, handle) for key, item in inside}
    if name in SEQUENCES:
        return SEQUENCES[name](decode(inside, handle))
    if name in TEXTS:
        return TEXTS[name](inside)
    if name == "bytes":
        return bytes.fromhex(inside)
    if name == "complex":
        return complex(*inside)
    if name == "range":
        return range(*inside)
    raise ValueError("no value: " + name)
