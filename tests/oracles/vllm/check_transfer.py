"""What a real vLLM server makes of the requests of a native weight transfer.

  check_transfer.py URL

The server was started with --weight-transfer-config '{"backend":"nccl"}'. On a CPU it has no NCCL,
so a request that its parsers take fails behind them, for a reason that is not the request's.
"""

import base64
import json
import sys
import urllib.error
import urllib.request

INIT = {
    "nccl_unique_id_b64": base64.b64encode(bytes(128)).decode(),
    "rank_offset": 1,
    "world_size": 2,
    "packed": True,
    "packed_buffer_size_bytes": 256 << 20,
    "packed_num_buffers": 2,
}
UPDATE = {"names": ["a"], "dtype_names": ["bfloat16"], "shapes": [[2, 3]]}


def call(path, body=None, post=True):
    """Returns the HTTP status and the JSON of the answer."""
    data = json.dumps(body).encode() if body is not None else b""
    request = urllib.request.Request(sys.argv[1] + path, data if post else None)
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, json.loads(reply.read() or b"{}")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def expect(what, answer, status, text):
    if answer[0] != status or text not in json.dumps(answer[1]):
        sys.exit(f"{what}: {answer}; expected {status} with '{text}'")
    print(f"transfer: {what}: {json.dumps(answer[1])[:100]}")


expect("world size", call("/get_world_size", post=False), 200, '"world_size": 1')
expect("tag", call("/update_weight_version", {"new_version": "v7"}), 200, '"success": true')
expect("tag read back", call("/weight_info", post=False), 200, '"weight_version": "v7"')
status, sums = call("/weight_checker", {"action": "checksum"})
expect("checksums", (status, sums), 200, "embed_tokens")
expect("compare", call("/weight_checker", {"action": "compare", "baseline": sums["checksums"]}),
       200, '"match": true')
call("/pause?mode=abort&clear_cache=true")
short = dict(INIT, nccl_unique_id_b64="xx")
expect("init, bad id", call("/init_weight_transfer_engine", {"init_info": short}), 500,
       "not valid standard base64")
expect("init", call("/init_weight_transfer_engine", {"init_info": INIT}), 500, "NVIDIA driver")
expect("start", call("/start_weight_update"), 200, "started")
expect("update", call("/update_weights", {"update_info": UPDATE}), 500, "transfer not initialized")
expect("start after a failure", call("/start_weight_update"), 200, "started")
uneven = dict(UPDATE, shapes=[])
expect("update, uneven", call("/update_weights", {"update_info": uneven}), 500, "`shapes`")
call("/resume")
