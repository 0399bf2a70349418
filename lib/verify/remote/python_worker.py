"""Scores completions with the reward function of verifier python:FILE:FUNCTION.

Arguments: FILE FUNCTION OPTIONS, the last {"chat": "auto", "arguments": {"name": value},
"output": file}.

Writes {"ready": kind, "pid": of the process that scores, "token_ids": whether it wants them} or
{"error": why}, then a line of results for each line of items (lib/verify/remote/batch.h), which are
all completions of one prompt. The traceback of the first exception of each kind goes to stderr, and
what the function gives to log_metric and log_extra. What it prints goes to the output file, whose
first BOUND bytes stay; the newest BOUND to 2 * BOUND bytes after them are in a second file. Without
a file the first BOUND bytes go to stderr. Awaitables run on one event loop, which lives as long as
the process. The program ends when its input ends or at SIGTERM, with every process that the
function has started: its first process is their keeper, the parent of all who have lost theirs,
and writes what they print.

  verl        compute_score(data_source, solution_str, ground_truth, extra_info)
              Returns a number, or a dict with "score" and optionally "acc".
  verl batch  compute_score(data_sources, solution_strs, ground_truths, extra_infos)
              Returns a list of what verl's other form returns.
  trl         reward(prompts, completions, completion_ids, trainer_state, log_extra, log_metric,
              **columns)
              Returns a list of numbers, or None where the function does not apply. `columns` are
              the fields of the rows.

A function without ** gets only the arguments that it names.
"""

import asyncio, ctypes, fcntl, importlib.util, inspect, json, math, os, signal, sys, threading, time
import traceback, types

BOUND = 1 << 20
log_fd = 2
output = json.loads(sys.argv[3]).get("output")

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
prctl = ctypes.CDLL(None).prctl
ended = False

def end(*signal):
    """Kills the children; theirs become children of this process, and are killed after them."""
    global ended
    ended = True
    try:
        with open("/proc/self/task/%d/children" % os.getpid()) as children:
            for child in children.read().split():
                os.kill(int(child), 9)
    except OSError:
        os.killpg(0, 9)  # the kernel does not list children

def log(level, text, more=""):
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z ", time.gmtime())
    line = now + level + " reward " + text.replace("\n", " ") + "\n" + more
    os.write(log_fd, line.encode(errors="replace"))

def append(first, data):
    """Adds to the output file or, where that is full, to the newest output. `first` is locked."""
    if os.fstat(first.fileno()).st_size < BOUND:
        first.write(data)
        return
    path = os.path.splitext(output)[0] + ".newest.log"
    if not os.path.exists(path):
        log("W", "%s has more than %d bytes of what a reward function printed; the newest are in %s"
            % (output, BOUND, path))
    with open(path, "a+b", 0) as newest:
        newest.write(data)
        if newest.tell() > 2 * BOUND:
            newest.seek(-BOUND, os.SEEK_END)
            kept = newest.read(BOUND)
            newest.truncate(0)
            newest.write(kept)

def write_output(source):
    """Writes what comes from the pipe until nobody holds its other end."""
    printed = 0
    for data in iter(lambda: os.read(source, 65536), b""):
        try:
            if output:
                os.makedirs(os.path.dirname(output), exist_ok=True)
                with open(output, "ab", 0) as first:
                    fcntl.flock(first, fcntl.LOCK_EX)
                    append(first, data)
            elif printed < BOUND:
                os.write(log_fd, data)
                if printed + len(data) >= BOUND:
                    log("W", "a reward function has printed %d bytes; more is dropped" % BOUND)
        except OSError:
            pass  # a full disk must not stop the function
        printed += len(data)

def keep(function, source):
    os.closerange(0, 2)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # which is for the main thread
    writer = threading.Thread(target=write_output, args=(source,), daemon=True)
    writer.start()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    while True:
        if ended:
            end()
        try:
            if os.wait()[0] == function:
                end()
        except ChildProcessError:
            writer.join(1)
            os._exit(0)

prctl(PR_SET_CHILD_SUBREAPER, 1)
signal.signal(signal.SIGTERM, end)
printed, prints = os.pipe()
function = os.fork()
if function:
    os.close(prints)
    keep(function, printed)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
prctl(PR_SET_PDEATHSIG, 9)

requests = os.fdopen(os.dup(0), "rb")
replies = os.fdopen(os.dup(1), "wb")
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
log_fd = os.dup(2)
for stream in 1, 2:
    os.dup2(prints, stream)
os.close(printed)
os.close(prints)
sys.stdout.reconfigure(line_buffering=True)
loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)

def say(reply):
    replies.write(json.dumps(reply).encode() + b"\n")
    replies.flush()

told = set()

def why(error):
    text = type(error).__name__ + ": " + str(error)[:300]
    frames = traceback.extract_tb(error.__traceback__)
    if (isinstance(error, OSError) and not os.access("/dev/shm", os.W_OK)
            and any("multiprocessing" in frame.filename for frame in frames)):
        text += (" (the sandbox has no shared memory, which multiprocessing.Value, Lock, Queue and "
                 "Pool need: use threads, subprocess or os.fork with os.pipe, or set "
                 "run.reward.python.sandbox: false)")
    return text

def why_unusable(error, path):
    """With the last line of the file, or of what it imports, that ran."""
    lines = [frame for frame in traceback.extract_tb(error.__traceback__)
             if os.path.isabs(frame.filename) or frame.filename == path]
    if isinstance(error, SyntaxError) or not lines:
        return why(error)
    return "%s (%s, line %d)" % (why(error), os.path.basename(lines[-1].filename), lines[-1].lineno)

def failed(error):
    frames = traceback.extract_tb(error.__traceback__)
    kind = (type(error), frames[-1].filename, frames[-1].lineno) if frames else type(error)
    if kind not in told and len(told) < 20:
        told.add(kind)
        log("E", "reward function raised " + why(error),
            "".join(traceback.format_exception(type(error), error, error.__traceback__)))
    return {"error": why(error)}

class Notes:
    """What a function gives to log_metric and log_extra: at most a line of each name in 10 s."""

    def __init__(self):
        self.values, self.next = {}, {}

    def due(self, name):
        now = time.monotonic()
        if now < self.next.get(name, 0) or (name not in self.next and len(self.next) >= 50):
            return False
        self.next[name] = now + 10
        return True

    def metric(self, name, value):
        if name not in self.values and len(self.values) >= 50:
            return
        total, count = self.values.get(name, (0.0, 0))
        total, count = total + float(value), count + 1
        self.values[name] = total, count
        if self.due("metric " + name):
            log("I", "reward metric name=%s mean=%g calls=%d" % (name, total / count, count))
            del self.values[name]

    def extra(self, column, values):
        if values and self.due("column " + column):
            log("I", "reward column name=%s first=%s" % (column, json.dumps(str(values[0])[:300])))

notes = Notes()

def load(path, name):
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location("buttress_rewards", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    if not callable(getattr(module, name, None)):
        raise AttributeError("no function '%s'; the file has %s" % (name, ", ".join(
            own for own, value in vars(module).items()
            if inspect.isfunction(value) and value.__module__ == spec.name) or "none"))
    return getattr(module, name)

def kind_of(names):
    if {"solution_str", "ground_truth"} <= names:
        return "verl"
    if {"solution_strs", "ground_truths"} <= names:
        return "verl batch"
    if "completions" in names:
        return "trl"
    raise TypeError("parameters " + ", ".join(sorted(names)) + " are neither verl's (data_source, "
                    "solution_str, ground_truth, extra_info) nor TRL's (prompts, completions, "
                    "**columns)")

def judged(value):
    correct = None
    if isinstance(value, dict):
        correct = value.get("acc")
        value = value["score"]
    elif isinstance(value, (list, tuple)):
        value = value[0]
    if value is None:
        return {"error": "the function returned None"}
    score = float(value)
    if not math.isfinite(score):
        return {"error": "the function returned " + str(score)}
    return {"score": score} if correct is None else {"score": score, "correct": bool(correct)}

def result_of(value):
    try:
        return failed(value) if isinstance(value, BaseException) else judged(value)
    except BaseException as error:
        return failed(error)

def results_of(values, count):
    if len(values) != count:
        raise ValueError("%d rewards for %d completions" % (len(values), count))
    return [result_of(value) for value in values]

async def awaited(value):
    return await value

async def outcome(value):
    """Its value or what it raises, which may be a SystemExit and would end the loop."""
    try:
        return await value
    except BaseException as error:
        return error

def gathered(values):
    """The values, of which the awaitable ones are awaited together."""
    waiting = [i for i, value in enumerate(values) if inspect.isawaitable(value)]
    async def gather():
        return await asyncio.gather(*(outcome(values[i]) for i in waiting))
    for i, value in zip(waiting, loop.run_until_complete(gather()) if waiting else []):
        values[i] = value
    return values

def ground_truth(item):
    """The answer; if it is verl's and no text, with the type that it has in the row."""
    model = item["row"].get("reward_model")
    truth = model.get("ground_truth") if isinstance(model, dict) else None
    if truth is None or isinstance(truth, str):
        return item["answer"]
    try:
        return truth if json.loads(item["answer"]) == truth else item["answer"]
    except ValueError:
        return item["answer"]

def extra_info(item):
    own = item["row"].get("extra_info", item["row"])
    if not isinstance(own, dict):
        return own
    return {**own, "num_turns": 2, "rollout_reward_scores": {}}

def by_verl(call, items, state):
    values = []
    for item in items:
        try:
            values.append(call(data_source=item["source"], solution_str=item["response"],
                               ground_truth=ground_truth(item), extra_info=extra_info(item)))
        except BaseException as error:
            values.append(error)
    return results_of(gathered(values), len(items))

def by_verl_batch(call, items, state):
    values = call(data_sources=[item["source"] for item in items],
                  solution_strs=[item["response"] for item in items],
                  ground_truths=[ground_truth(item) for item in items],
                  extra_infos=[extra_info(item) for item in items])
    return results_of(values, len(items))

def message(role, text):
    return [{"role": role, "content": text}]

def conversation(item, chat):
    """Prompt and completion as TRL has them: messages where the row's prompt is messages."""
    prompt = item["row"].get("prompt", item["prompt"])
    if chat == "never" and not isinstance(prompt, str):
        prompt = item["prompt"]
    if chat == "always" and isinstance(prompt, str):
        prompt = message("user", prompt)
    if isinstance(prompt, str):
        return prompt, item["response"]
    return prompt, message("assistant", item["response"])

def by_trl(call, items, state, chat):
    rows = [{"answer": item["answer"], **item["row"]} for item in items]
    names = set().union(*rows) - {"prompt", "completion", "completion_ids"}
    columns = {name: [row.get(name) for row in rows] for name in sorted(names)}
    columns["prompts"], columns["completions"] = map(
        list, zip(*(conversation(item, chat) for item in items)))
    if all("token_ids" in item for item in items):
        columns["completion_ids"] = [item["token_ids"] for item in items]
    columns["trainer_state"] = types.SimpleNamespace(**state) if state else None
    columns["log_extra"], columns["log_metric"] = notes.extra, notes.metric
    values = call(**columns)
    if inspect.isawaitable(values):
        values = loop.run_until_complete(awaited(values))
    return [{"not_applicable": True} if value is None else result
            for value, result in zip(values, results_of(values, len(items)))]

def main(path, name, options):
    try:
        function = load(path, name)
        parameters = inspect.signature(function).parameters
        kind = kind_of(set(parameters))
    except BaseException as error:
        say({"error": why_unusable(error, path)})
        return
    takes_all = any(p.kind == inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    def call(**values):
        values.update(options["arguments"])
        if not takes_all:
            values = {key: value for key, value in values.items() if key in parameters}
        return function(**values)
    def score(items, state):
        if kind == "trl":
            return by_trl(call, items, state, options["chat"])
        return (by_verl if kind == "verl" else by_verl_batch)(call, items, state)
    say({"ready": kind, "pid": os.getpid(),
         "token_ids": kind == "trl" and (takes_all or "completion_ids" in parameters)})
    for line in requests:
        batch = json.loads(line)
        try:
            results = score(batch["items"], batch.get("state"))
        except BaseException as error:
            results = [failed(error)] * len(batch["items"])
        say({"results": results})

main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
