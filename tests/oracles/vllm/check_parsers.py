"""What the parsers of a vLLM without a CPU build make of the requests of a worker.

  check_parsers.py WHEEL     of vllm, for any platform

Its modules that read requests are run as they are: the routes of weight updates and of sleep behind
FastAPI, the dataclasses of both transfers, and the request of a completion. What they import of the
rest of vLLM, and torch, is replaced by stand-ins, so that neither needs to be installed. Needs
fastapi with its test client, pydantic, prometheus_client and pybase64: the environment of another
vLLM has them.
"""

import base64
import importlib.abc
import importlib.machinery
import pickle
import sys
import types
import typing
import zipfile

from fastapi import FastAPI
from fastapi.testclient import TestClient

REAL = {
    "vllm.distributed.weight_transfer.base", "vllm.distributed.weight_transfer.nccl_common",
    "vllm.distributed.weight_transfer.nccl_engine", "vllm.distributed.weight_transfer.ipc_engine",
    "vllm.entrypoints.rl.online.api_router", "vllm.entrypoints.rl.online.metrics",
    "vllm.entrypoints.serve.dev.sleep.api_router", "vllm.entrypoints.serve.dev.sleep.metrics",
    "vllm.entrypoints.serve.engine.protocol", "vllm.entrypoints.generate.base.protocol",
    "vllm.entrypoints.openai.completion.protocol", "vllm.exceptions",
}
UNIQUE_ID_BYTES = 128  # of NCCL


class Anything(type):
    """A class that has every attribute, and can be called, subscripted and joined by |."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return cls

    def __call__(cls, *arguments, **named):
        return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else cls

    def __getitem__(cls, key):
        return cls

    def __or__(cls, other):
        return typing.Any

    __ror__ = __or__


class Nothing(metaclass=Anything):
    pass


class StandIn(types.ModuleType):
    """A module whose names with a capital are any type, and whose other names do nothing."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name.isupper():
            return UNIQUE_ID_BYTES  # NCCL_UNIQUE_ID_BYTES, or a limit or switch of vllm.envs
        if name == "PauseMode":
            return typing.Literal["abort", "wait", "keep"]
        own = self.__name__.startswith("vllm")
        return typing.Any if own and name[0].isupper() else Nothing


class Wheel(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports vllm and torch: the modules of REAL from the wheel, stand-ins for all others."""

    def __init__(self, path):
        self.wheel = zipfile.ZipFile(path)

    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in ("vllm", "torch"):
            return importlib.machinery.ModuleSpec(name, self, is_package=name not in REAL)
        return None

    def create_module(self, spec):
        return None if spec.name in REAL else StandIn(spec.name)

    def exec_module(self, module):
        name = module.__spec__.name
        if name in REAL:
            source = self.wheel.read(name.replace(".", "/") + ".py").decode()
            exec(compile(source, name, "exec"), module.__dict__)


class Engine:
    """The engine behind the routes: notes the calls, and parses what its workers would."""

    def __init__(self, init_info, update_info):
        self.infos, self.calls, self.version = (init_info, update_info), [], None
        self.vllm_config = types.SimpleNamespace(
            parallel_config=types.SimpleNamespace(world_size_across_dp=2, world_size=2))

    async def init_weight_transfer_engine(self, request):
        self.infos[0](**request.init_info)

    async def update_weights(self, request):
        self.infos[1](**request.update_info)

    async def finish_weight_update(self, version=None):
        self.version = version or self.version

    async def update_weight_version(self, version):
        self.version = version

    async def get_weight_version(self):
        return self.version

    async def is_sleeping(self):
        return True

    def __getattr__(self, name):
        async def called(*arguments, **named):
            self.calls.append((name, arguments, named))

        return called


def expect(what, reply, text, status=200):
    if reply.status_code != status or text not in reply.text:
        sys.exit(f"{what}: {reply.status_code} {reply.text[:300]}; expected {status} with '{text}'")
    print(f"parsers: {what}: {reply.text[:100]}")


def refuses(what, call, text):
    why = "nothing"
    try:
        call()
    except ValueError as error:
        why = str(error)
    if text not in why:
        sys.exit(f"{what} is refused for {why}; expected '{text}'")
    print(f"parsers: {what} is refused: {why[:80]}")


def main():
    sys.meta_path.insert(0, Wheel(sys.argv[1]))
    from vllm.distributed.weight_transfer.ipc_engine import (IPCWeightTransferInitInfo,
                                                             IPCWeightTransferUpdateInfo)
    from vllm.distributed.weight_transfer.nccl_engine import (NCCLWeightTransferInitInfo,
                                                              NCCLWeightTransferUpdateInfo)
    from vllm.entrypoints.openai.completion.protocol import CompletionRequest
    from vllm.entrypoints.rl.online.api_router import router as updates
    from vllm.entrypoints.serve.dev.sleep.api_router import router as sleeps

    def client(*infos):
        app = FastAPI()
        app.include_router(updates)
        app.include_router(sleeps)
        app.state.engine_client = Engine(*infos)
        return TestClient(app), app.state.engine_client

    init = {"nccl_unique_id_b64": base64.b64encode(bytes(UNIQUE_ID_BYTES)).decode(),
            "rank_offset": 1, "world_size": 3, "packed": True,
            "packed_buffer_size_bytes": 256 << 20, "packed_num_buffers": 2}
    update = {"names": ["a"], "dtype_names": ["bfloat16"], "shapes": [[2, 3]]}
    nccl, engine = client(NCCLWeightTransferInitInfo, NCCLWeightTransferUpdateInfo)
    expect("world size", nccl.get("/get_world_size"), '"world_size":2')
    expect("init", nccl.post("/init_weight_transfer_engine", json={"init_info": init}), "")
    refuses("a short id", lambda: NCCLWeightTransferInitInfo(
        **{**init, "nccl_unique_id_b64": "eHg="}), "decode to 128 bytes")
    for pause in ("mode=keep&clear_cache=false", "mode=abort&clear_cache=true"):
        expect("pause", nccl.post("/pause?" + pause), "paused")
    modes = [named["mode"] for name, _, named in engine.calls if name == "pause_generation"]
    if modes != ["keep", "abort"]:
        sys.exit(f"pause: the engine got the modes {modes}")
    expect("start", nccl.post("/start_weight_update"), "started")
    expect("update", nccl.post("/update_weights", json={"update_info": update}), "updated")
    refuses("an uneven update", lambda: NCCLWeightTransferUpdateInfo(**{**update, "shapes": []}),
            "shapes")
    expect("finish", nccl.post("/finish_weight_update", json={"weight_version": "v8"}), "finished")
    expect("tag of the transfer", nccl.get("/weight_info"), '"weight_version":"v8"')
    expect("tag", nccl.post("/update_weight_version", json={"new_version": "v9"}), '"success":true')
    expect("tag read back", nccl.get("/weight_info"), '"weight_version":"v9"')
    expect("resume", nccl.post("/resume"), "resumed")

    handles = base64.b64encode(pickle.dumps({"GPU": (1, 2)})).decode()
    ipc, _ = client(IPCWeightTransferInitInfo, IPCWeightTransferUpdateInfo)
    expect("ipc init", ipc.post("/init_weight_transfer_engine",
                                json={"init_info": {"packed": True}}), "")
    chunk = {**update, "tensor_sizes": [12], "ipc_handles_pickled": handles}
    expect("ipc update", ipc.post("/update_weights", json={"update_info": chunk}), "updated")

    expect("sleep", nccl.post("/sleep?level=2&mode=abort"), "sleeping")
    expect("is sleeping", nccl.get("/is_sleeping"), '"is_sleeping":true')
    expect("wake up", nccl.post("/wake_up?tags=weights"), "weights")
    if ("wake_up", (["weights"],), {}) not in engine.calls:
        sys.exit(f"wake up: the engine got {engine.calls}")

    body = {"model": "policy", "prompt": [1, 2, 3], "n": 1, "stream": True,
            "stream_options": {"include_usage": True}, "max_tokens": 8, "min_tokens": 0,
            "temperature": 0.7, "top_p": 0.9, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0,
            "presence_penalty": 0.0, "frequency_penalty": 0.0, "stop": ["x"],
            "include_stop_str_in_output": True, "stop_token_ids": [7], "ignore_eos": True,
            "logprobs": 0, "return_token_ids": True, "return_tokens_as_token_ids": True,
            "cache_salt": "v9", "seed": 5, "stream_interval": 16}
    request = CompletionRequest(**body)
    unknown = set(request.model_extra or {})
    if unknown:
        sys.exit(f"completion: vLLM does not know {sorted(unknown)}")
    print(f"parsers: completion: all {len(body)} fields are known")


main()
