"""Compares the decoding speed of the embedded engine, in tokens per second, with that of
transformers' `generate` and, with --with-vllm, of a vLLM server for CPUs. All use the same model,
prompts of 64 tokens, plain sampling at temperature 1, and all cores. They run in turn, and the
median of the rounds counts. The embedded engine also returns the log-prob of every token, which
`generate` does not. Probes before each model give the limit: the matrix products of prompts and
tokens, or the bytes of the matrices once a step where those take longer (floor.py)."""

import os
import statistics
import subprocess
import time

import torch
from transformers import AutoModelForCausalLM

import floor
import models
import vllm_server
from report import Report, parser, progress

LOADS = {"tiny": [(1, 128), (8, 128), (64, 128), (128, 128)], "half": [(1, 32), (8, 64), (32, 64)]}


def limit(case, completions, tokens, gemm, memory):
    """The tokens per second at which nothing but matrices is multiplied or read."""
    blocks, head = floor.parameters(models.SHAPES[case])
    step = max((blocks + head) * floor.BYTES[models.DTYPES[case]] / memory,
               2 * (blocks + head) * completions / gemm)
    prefill = 2 * blocks * completions * models.PROMPT_TOKENS / gemm
    return completions * tokens / (tokens * step + prefill)


class Ours:
    def __init__(self, folder, dtype, threads):
        command = [
            models.BIN / "bench_engine", folder, "--dtype", dtype, "--threads",
            str(threads), "--prompt-tokens",
            str(models.PROMPT_TOKENS),
        ]
        self.process = subprocess.Popen(command,
                                        stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE,
                                        text=True)

    def seconds(self, completions, tokens):
        self.process.stdin.write(f"{completions} {tokens}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"bench_engine exited with {self.process.wait()}")
        return float(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Transformers:
    def __init__(self, folder, dtype, threads):
        torch.set_num_threads(threads)
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype))
        self.model.eval()

    def seconds(self, completions, tokens):
        prompts = torch.randint(3, 1000, (completions, models.PROMPT_TOKENS))
        with torch.inference_mode():
            begin = time.perf_counter()
            out = self.model.generate(prompts,
                                      attention_mask=torch.ones_like(prompts),
                                      max_new_tokens=tokens,
                                      do_sample=True,
                                      top_k=0,
                                     )
        if out.shape[1] != models.PROMPT_TOKENS + tokens:
            raise SystemExit(f"generate stopped after {out.shape[1] - models.PROMPT_TOKENS} tokens")
        return time.perf_counter() - begin

    def close(self):
        pass


def main():
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--cases", nargs="*", default=list(LOADS), choices=list(LOADS))
    options.add_argument("--with-vllm",
                         action="store_true",
                         help="install the CPU build of vLLM if it is missing, and compare with it",
                        )
    options = options.parse_args()
    report = Report("engine", options.json)
    threads = os.cpu_count()
    for case in options.cases:
        folder, dtype = models.folder(case), models.DTYPES[case]
        gemm, memory = floor.gemm_flops(dtype), floor.memory_bytes()
        progress(f"{case}: GEMM {gemm / 1e9:.0f} GFLOP/s, memory {memory / 1e9:.1f} GB/s; loading")
        makers = {"ours": Ours, "transformers": Transformers}
        if options.with_vllm or vllm_server.installed():
            makers["vllm"] = vllm_server.Server
        engines = {name: make(folder, dtype, threads) for name, make in makers.items()}
        for completions, tokens in LOADS[case]:
            for engine in engines.values():
                engine.seconds(completions, 8)
            times = {name: [] for name in engines}
            for _ in range(options.rounds):
                for name, engine in engines.items():
                    times[name].append(engine.seconds(completions, tokens))
            rates = {
                name: completions * tokens / statistics.median(seconds)
                for name, seconds in times.items()
            }
            most = limit(case, completions, tokens, gemm, memory)
            report.measure(f"{case} {completions} x {tokens}", "% of limit",
                           100 * rates["ours"] / most)
            for name in list(engines)[1:]:
                report.add(f"{case} {completions} x {tokens}",
                           "tok/s",
                           rates["ours"],
                           rates[name],
                           name,
                           more_is_better=True,
                          )
        for engine in engines.values():
            engine.close()


main()
