"""Reads ipc_handles_pickled as a vLLM server does, without torch.

  read_handles.py PICKLE TORCH_FOLDER

Prints the arguments of rebuild_cuda_tensor for each GPU, by the names that this torch gives them.
"""

import ast
import json
import pickle
import pickletools
import sys

ALLOWED = {("torch", "Tensor"), ("torch", "uint8"), ("torch.storage", "TypedStorage")}


class Reader(pickle.Unpickler):
    def find_class(self, module, name):
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name}")
        return f"{module}.{name}"


def parameters(folder):
    """The parameters of rebuild_cuda_tensor."""
    with open(f"{folder}/multiprocessing/reductions.py", encoding="utf-8") as source:
        for node in ast.parse(source.read()).body:
            if isinstance(node, ast.FunctionDef) and node.name == "rebuild_cuda_tensor":
                return [argument.arg for argument in node.args.args]
    sys.exit("torch has no rebuild_cuda_tensor")


with open(sys.argv[1], "rb") as file:
    for _ in pickletools.genops(file):  # fails on an opcode that is not one
        pass
    assert not file.read(), "bytes behind the end"
    file.seek(0)
    handles = Reader(file).load()
names = parameters(sys.argv[2])
for gpu, values in handles.items():
    assert isinstance(gpu, str) and isinstance(values, tuple) and len(values) == len(names)
    shown = {
        name: value.hex() if isinstance(value, bytes) else value
        for name, value in zip(names, values)
    }
    print(gpu, json.dumps(shown))
