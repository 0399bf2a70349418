// The settings of `local`, which may differ from machine to machine: ports, devices, memory, times,
// who may connect, and what `buttress launch` starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/config/choice.h"
#include "lib/config/limits.h"
#include "lib/config/sections/watch_config.h"

namespace buttress {

enum class EngineKind : std::uint8_t { kEmbedded, kVllm };

template <>
inline constexpr ChoiceRow<EngineKind> kChoices<EngineKind>[] = {
    {EngineKind::kEmbedded, "embedded", "LibTorch, in the worker"},
    {EngineKind::kVllm, "vllm", "HTTP"},
};

enum class ComputeDevice : std::uint8_t { kCpu, kCuda };

template <>
inline constexpr ChoiceRow<ComputeDevice> kChoices<ComputeDevice>[] = {
    {ComputeDevice::kCpu, "cpu"},
    {ComputeDevice::kCuda, "cuda"},
};

// How new weights arrive at a worker.
enum class WeightTransportKind : std::uint8_t { kShared, kGrpc };

template <>
inline constexpr ChoiceRow<WeightTransportKind> kChoices<WeightTransportKind>[] = {
    {WeightTransportKind::kShared, "shared", "folder of the manifest"},
    {WeightTransportKind::kGrpc, "grpc"},
};

enum class CollectiveKind : std::uint8_t { kLocal, kMpi, kNccl };

template <>
inline constexpr ChoiceRow<CollectiveKind> kChoices<CollectiveKind>[] = {
    {CollectiveKind::kLocal, "local", "one rank"},
    {CollectiveKind::kMpi, "mpi"},
    {CollectiveKind::kNccl, "nccl"},
};

// What of the weights, gradients and optimizer state a rank holds for itself (Rajbhandari et al.,
// "ZeRO", arXiv 1910.02054): a part of 1 / ranks, or all.
enum class ZeroStage : std::uint8_t { k0, k1, k2, k3, kAuto };

template <>
inline constexpr ChoiceRow<ZeroStage> kChoices<ZeroStage>[] = {
    {ZeroStage::k0, "0", "all of everything"},
    {ZeroStage::k1, "1", "a part of the optimizer state"},
    {ZeroStage::k2, "2", "and of the gradients"},
    {ZeroStage::k3, "3", "and of the weights"},
    {ZeroStage::kAuto, "auto", "the lowest that the memory plan fits"},
};

// What the backward pass computes again instead of keeping it.
enum class Recompute : std::uint8_t { kNone, kSelective, kBlock };

template <>
inline constexpr ChoiceRow<Recompute> kChoices<Recompute>[] = {
    {Recompute::kNone, "none"},
    {Recompute::kSelective, "selective", "MLPs"},
    {Recompute::kBlock, "block", "whole blocks, from their inputs"},
};

// Where the start model is that the policy is compared with.
enum class ReferencePlace : std::uint8_t { kDevice, kDisk };

template <>
inline constexpr ChoiceRow<ReferencePlace> kChoices<ReferencePlace>[] = {
    {ReferencePlace::kDevice, "device", "on the device, divided as `zero` says"},
    {ReferencePlace::kDisk, "disk", "in its files, which are read block by block in every pass"},
};

// The first four are set, or none. Without them every port is plain text and must listen on
// loopback.
struct SecurityConfig {
  std::string certificate;
  std::string key;
  std::string ca;
  std::string tokens;
  bool insecure = false;
  std::string name;

  void Visit(auto& v) {
    v("certificate", certificate,
      "PEM file: this machine's certificate; with the next three, all ports speak TLS and want a "
      "token");
    v("key", key, "PEM file: its private key");
    v("ca", ca,
      "PEM file: the authority that signs every certificate of the run, those of peers included");
    v("tokens", tokens,
      "folder with the token of each role: worker.token, learner.token, operator.token, "
      "monitor.token; each program reads those that it needs; deploy/make-certs.sh creates all");
    v("insecure", insecure,
      "allow ports that other machines reach without TLS and tokens: anybody there can take part "
      "in the run");
    v("name", name,
      "name that the certificate of every peer has, whatever address it is reached by; empty: a "
      "certificate has the host of the address");
  }
};

// When the coordinator answers, with regard to its standby.
enum class StandbyMode : std::uint8_t { kOff, kAsynchronous, kSynchronous };

template <>
inline constexpr ChoiceRow<StandbyMode> kChoices<StandbyMode>[] = {
    {StandbyMode::kOff, "off", "no standby may follow"},
    {StandbyMode::kAsynchronous, "asynchronous", "at once"},
    {StandbyMode::kSynchronous, "synchronous", "once the standby has what the answer rests on"},
};

struct CoordinatorConfig {
  std::string listen = "127.0.0.1:0";
  std::string advertise;
  std::string metrics = "127.0.0.1:0";
  std::string probes = "off";
  std::string page = "127.0.0.1:0";
  std::int64_t payload_segment_bytes = std::int64_t{256} << 20;
  bool keep_payloads = false;
  std::int64_t archive_steps = 1000;
  StandbyMode standby = StandbyMode::kOff;
  std::int64_t standby_wait_ms = 10000;

  void Visit(auto& v) {
    v("listen", listen,
      "address of the gRPC port; port 0 picks a free one and writes it to "
      "<out>/coordinator.address");
    v("advertise", advertise,
      "host:port that workers and learners connect to; empty: read <out>/coordinator.address");
    v("metrics", metrics, "address of /metrics; port 0 picks a free one, off: none");
    v("probes", probes,
      "address that answers /livez and /readyz alone, in plain HTTP, for a kubelet; off: none");
    v("page", page,
      "address of the run's page for browsers; port 0 picks a free one, off: no page; the link "
      "with its key is in <out>/coordinator.page");
    v("payload_segment_bytes", payload_segment_bytes,
      "size at which a file of <out>/payloads is closed and the next one begun", AtLeast(1));
    v("keep_payloads", keep_payloads,
      "keep the completions of settled groups; false: a payload file is deleted once no group in "
      "it is needed");
    v("archive_steps", archive_steps,
      "steps after which settled groups move from the ledger's database to a file of "
      "<out>/archive; 0: they stay in the database",
      AtLeast(0));
    v("standby", standby,
      "when the coordinator answers, while `coordinator --standby` follows it on another machine");
    v("standby_wait_ms", standby_wait_ms,
      "longest time that a turn waits for a synchronous standby before the coordinator goes on "
      "alone; 0: it waits for as long as it takes",
      AtLeast(0));
  }
};

// How new weights reach the vLLM servers.
enum class VllmWeights : std::uint8_t { kAuto, kFile, kNccl, kIpc, kLora };

template <>
inline constexpr ChoiceRow<VllmWeights> kChoices<VllmWeights>[] = {
    {VllmWeights::kAuto, "auto", "the first of lora, nccl or ipc, file that run and server can"},
    {VllmWeights::kFile, "file", "the servers read the folder of a version"},
    {VllmWeights::kNccl, "nccl", "the worker broadcasts them from a GPU of its own"},
    {VllmWeights::kIpc, "ipc", "the servers map the worker's memory of the GPU that they share"},
    {VllmWeights::kLora, "lora", "the servers read the folder of adapters (run.lora)"},
};

struct VllmTransferConfig {
  std::int64_t gpu = 0;
  std::int64_t buffer_mib = 256;

  void Visit(auto& v) {
    v("gpu", gpu, "GPU, counted from 0, from which the worker sends them", AtLeast(0));
    v("buffer_mib", buffer_mib, "memory of that GPU, and of each GPU of the servers, for it",
      Between(1, 65536));
  }
};

// The vLLM servers that a run starts.
struct VllmLaunchConfig {
  std::string binary;
  std::vector<std::int64_t> gpus;
  std::int64_t tensor_parallel = 1;
  std::vector<std::string> args;
  std::vector<std::string> env;
  bool colocate = false;
  std::int64_t ready_ms = 1800000;

  // Returns whether servers are started.
  bool on() const { return !binary.empty(); }

  void Visit(auto& v) {
    v("binary", binary,
      "the program vllm, which buttress launch then starts as servers on this machine; empty: the "
      "servers are started by others");
    v("gpus", gpus, "GPUs of the servers, counted from 0; empty: one server on the CPU");
    v("tensor_parallel", tensor_parallel, "GPUs of a server; divides the number of gpus",
      AtLeast(1));
    v("args", args, "further arguments of vllm serve: [--max-num-seqs, \"256\"]");
    v("env", env, "further environment of the servers: [NAME=VALUE]");
    v("colocate", colocate,
      "the servers share their GPUs with the learner: they sleep while it trains");
    v("ready_ms", ready_ms, "time until a started server answers", AtLeast(1000));
  }
};

struct VllmConfig {
  std::vector<std::string> servers;
  std::string model;
  std::string api_key_file;
  std::int64_t concurrency = 0;
  std::int64_t attempts = 4;
  std::int64_t connect_ms = 5000;
  std::int64_t first_byte_ms = 600000;
  std::int64_t idle_ms = 120000;
  std::int64_t control_ms = 720000;
  std::int64_t revive_ms = 2000;
  std::int64_t health_interval_ms = 5000;
  std::int64_t health_timeout_ms = 10000;
  std::int64_t stream_interval = 16;
  double canary_nats = 0;
  VllmWeights weights = VllmWeights::kAuto;
  VllmTransferConfig transfer;
  VllmLaunchConfig launch;

  void Visit(auto& v) {
    v("servers", servers, "http://host:port of each vLLM server; a server belongs to one worker");
    v("model", model, "name that the servers serve the policy by; empty: the first that they list");
    v("api_key_file", api_key_file, "file with the servers' API key; empty: none");
    v("concurrency", concurrency,
      "completions that a server gets at once; 0 = its max_num_seqs, which is also the bound",
      Between(0, 65536));
    v("attempts", attempts, "attempts at one completion before it counts as failed", AtLeast(1));
    v("connect_ms", connect_ms, "time to connect", AtLeast(1));
    v("first_byte_ms", first_byte_ms, "time to the first token, waiting in the server included",
      AtLeast(1));
    v("idle_ms", idle_ms, "time between tokens", AtLeast(1));
    v("control_ms", control_ms, "time for a pause, a weight load or a probe", AtLeast(1000));
    v("revive_ms", revive_ms, "first wait before a lost server is tried again; doubles up to 30 s",
      AtLeast(1));
    v("health_interval_ms", health_interval_ms,
      "wait between two health checks (GET /health) of a server", AtLeast(1));
    v("health_timeout_ms", health_timeout_ms,
      "time for a health check; a server that takes longer gets no completions until one is in "
      "time",
      AtLeast(1));
    v("stream_interval", stream_interval,
      "tokens of a completion that a server sends together, where it knows this setting",
      Between(1, 1024));
    v("canary_nats", canary_nats,
      "how far log-probs may be from the learner's after an update; 0: 0.001 where server and "
      "weights are float32, else 0.05",
      AtLeast(0));
    v("weights", weights, "how new weights reach the servers");
    v("transfer", transfer, "weights: nccl and ipc");
    v("launch", launch, "servers that buttress launch starts");
  }
};

// Where the state of the optimizer is.
enum class Offload : std::uint8_t { kNone, kHost, kDisk };

template <>
inline constexpr ChoiceRow<Offload> kChoices<Offload>[] = {
    {Offload::kNone, "none", "on the device"},
    {Offload::kHost, "host", "in the memory of the machine, whose cores make the updates"},
    {Offload::kDisk, "disk", "likewise, in files of <out>/learner that are mapped"},
};

// Episodes of a worker (run.env).
struct EpisodesConfig {
  std::int64_t running = 64;
  std::string listen = "127.0.0.1:0";
  std::string url;

  void Visit(auto& v) {
    v("running", running, "episodes at once", Between(1, 4096));
    v("listen", listen,
      "address of the OpenAI endpoint that agents call (run.env.kind: exec, http); port 0 picks a "
      "free one");
    v("url", url, "http://host:port by which agents reach it; empty: as bound");
  }
};

struct WorkerConfig {
  std::string id;
  EngineKind engine = EngineKind::kEmbedded;
  VllmConfig vllm;
  ComputeDevice device = ComputeDevice::kCpu;
  std::int64_t gpu = -1;
  std::int64_t threads = 1;
  EpisodesConfig episodes;
  std::int64_t max_running = 256;
  std::int64_t kv_cache_tokens = 262144;
  WeightTransportKind weights = WeightTransportKind::kShared;
  std::string weights_dir;
  std::string listen = "127.0.0.1:0";
  std::string advertise;
  std::string metrics = "127.0.0.1:0";
  std::string probes = "off";
  std::int64_t drain_ms = 10000;

  void Visit(auto& v) {
    v("id", id, "worker id, unique in the run; empty: host name and a random number");
    v("engine", engine, "what generates completions");
    v("vllm", vllm, "engine: vllm");
    v("device", device, "device of the embedded engine");
    v("gpu", gpu,
      "device: cuda: the GPU, counted from 0; -1: launch gives each worker its own, after those of "
      "the learner; a worker of srun or mpirun takes that of its local rank",
      AtLeast(-1));
    v("threads", threads,
      "torch threads of the embedded engine; 0 = what the learner of a launch leaves of the cores, "
      "shared by its workers; without launch all cores",
      AtLeast(0));
    v("episodes", episodes, "episodes of run.env");
    v("max_running", max_running, "samples decoded together at most", AtLeast(1));
    v("kv_cache_tokens", kv_cache_tokens,
      "bound of the key-value cache, in tokens over all running samples", AtLeast(1));
    v("weights", weights, "how new weights arrive");
    v("weights_dir", weights_dir, "where fetched weights are kept; empty: <out>/weights/<id>");
    v("listen", listen, "address of the Weights port that other workers may fetch from");
    v("advertise", advertise, "host:port of it that they connect to; empty: as bound");
    v("metrics", metrics, "address of /metrics; port 0 picks a free one, off: none");
    v("probes", probes,
      "address that answers /livez and /readyz alone, in plain HTTP, for a kubelet; off: none");
    v("drain_ms", drain_ms, "time for the groups that a worker holds after a request to stop",
      AtLeast(0));
  }
};

struct LearnerConfig {
  CollectiveKind collective = CollectiveKind::kMpi;
  ComputeDevice device = ComputeDevice::kCpu;
  bool share_gpu = false;
  ZeroStage zero = ZeroStage::k0;
  Offload offload = Offload::kNone;
  ReferencePlace reference = ReferencePlace::kDevice;
  std::int64_t context_parallel = 1;
  bool expert_parallel = false;
  std::int64_t threads = 1;
  std::int64_t micro_batch_tokens = 16384;
  std::int64_t micro_batch_mib = 0;
  Recompute recompute = Recompute::kNone;
  std::int64_t collective_timeout_ms = 60000;
  std::int64_t stuck_timeout_ms = 1800000;
  std::string interface;
  std::string listen = "127.0.0.1:0";
  std::string advertise;
  std::string metrics = "127.0.0.1:0";
  StartKlConfig start_kl;
  AlarmConfig alarms;
  StopWhenConfig stop_when;

  void Visit(auto& v) {
    v("collective", collective, "what sums gradients over ranks");
    v("device", device, "device of the ranks");
    v("share_gpu", share_gpu,
      "ranks may share a GPU, which tests a job of many on a machine with few; slow");
    v("zero", zero, "what a rank holds a part of");
    v("offload", offload, "where the state of the optimizer is: masters and moments");
    v("reference", reference, "where the start model is, for algorithm.kl_coef above 0");
    v("context_parallel", context_parallel,
      "ranks that divide the rows of each micro-batch between them, for sequences that one rank "
      "cannot hold; divides the number of ranks, and the attention heads of the model",
      AtLeast(1));
    v("expert_parallel", expert_parallel,
      "divide the experts of each block over the ranks, which exchange rows instead of weights; "
      "zero: 3 or auto");
    v("threads", threads, "torch threads of a rank", AtLeast(1));
    v("micro_batch_tokens", micro_batch_tokens,
      "tokens of one forward and backward pass at most (a longer completion goes alone)",
      AtLeast(1));
    v("micro_batch_mib", micro_batch_mib,
      "memory in MiB that the planned activations of such a pass take at most; 0: no bound",
      AtLeast(0));
    v("recompute", recompute, "what the backward pass computes again instead of keeping it");
    v("collective_timeout_ms", collective_timeout_ms,
      "a rank from which no heartbeat comes for so long is gone, which ends the job",
      AtLeast(1000));
    v("stuck_timeout_ms", stuck_timeout_ms,
      "a collective that takes longer ends the job although every rank is alive");
    v("interface", interface,
      "network interface of MPI and NCCL between machines (eth0), which do not encrypt; empty: "
      "they choose");
    v("listen", listen, "rank 0: address of the Weights port");
    v("advertise", advertise, "host:port of it that workers connect to; empty: as bound");
    v("metrics", metrics,
      "address of /metrics; a rank adds its local rank to a port that is not 0; off: none");
    v("start_kl", start_kl, "drift from the start model where algorithm.kl_coef is 0");
    v("alarms", alarms, "when an alarm is raised");
    v("stop_when", stop_when, "when a run that learns nothing is ended");
  }
};

// The process that evaluates weights during the run (run.eval).
struct EvaluatorConfig {
  ComputeDevice device = ComputeDevice::kCpu;
  std::int64_t gpu = -1;
  std::int64_t threads = 1;

  void Visit(auto& v) {
    v("device", device, "device of the evaluations during the run");
    v("gpu", gpu,
      "device: cuda: the GPU, counted from 0, which must have room next to what else runs on it; "
      "-1: the first",
      AtLeast(-1));
    v("threads", threads, "torch threads", AtLeast(1));
  }
};

struct LaunchConfig {
  std::int64_t workers = 1;
  std::int64_t learner_ranks = 1;
  std::int64_t max_restarts = 5;
  std::int64_t forgive_ms = 3600000;
  std::int64_t stop_timeout_ms = 20000;
  std::string mpirun = "mpirun";
  std::vector<std::string> mpirun_args;

  void Visit(auto& v) {
    v("workers", workers, "rollout workers that `buttress launch` starts", AtLeast(1));
    v("learner_ranks", learner_ranks, "ranks of the learner job", AtLeast(1));
    v("max_restarts", max_restarts, "restarts of a role before the run is given up", AtLeast(0));
    v("forgive_ms", forgive_ms,
      "time without a death after which the restarts of a role are counted from 0 again",
      AtLeast(1000));
    v("stop_timeout_ms", stop_timeout_ms, "time for a clean stop before processes are killed");
    v("mpirun", mpirun, "program that starts the learner ranks");
    v("mpirun_args", mpirun_args, "further arguments of it: hostfile, interfaces");
  }
};

struct TrackConfig {
  bool tensorboard = false;
  std::string mlflow;
  std::string experiment = "buttress";
  std::string wandb;
  std::string interpreter = "python3";

  // Whether the curves are shown anywhere.
  bool any() const { return tensorboard || !mlflow.empty() || !wandb.empty(); }

  void Visit(auto& v) {
    v("tensorboard", tensorboard, "write event files to <out>/tensorboard");
    v("mlflow", mlflow,
      "http://host:port of an MLflow server; a token is read from MLFLOW_TRACKING_TOKEN; empty: "
      "none");
    v("experiment", experiment, "experiment of the MLflow server; made if there is none");
    v("wandb", wandb,
      "project of Weights & Biases, whose package reads WANDB_API_KEY, WANDB_ENTITY and "
      "WANDB_MODE; "
      "empty: none");
    v("interpreter", interpreter,
      "Python that has the packages of the trackers: tensorboard, mlflow, wandb");
  }
};

struct LocalSettings {
  std::string out = "runs/run";
  SecurityConfig security;
  CoordinatorConfig coordinator;
  WorkerConfig worker;
  LearnerConfig learner;
  EvaluatorConfig evaluator;
  LaunchConfig launch;
  TrackConfig track;

  void Visit(auto& v) {
    v("out", out, "folder of the run: ledger, checkpoint, weights, logs, summary");
    v("security", security, "TLS and token of every port");
    v("coordinator", coordinator, "the coordinator process");
    v("worker", worker, "rollout worker processes");
    v("learner", learner, "learner ranks");
    v("evaluator", evaluator, "process that evaluates weights during the run (run.eval)");
    v("launch", launch, "buttress launch");
    v("track", track, "where buttress launch and buttress track show the curves of the run");
  }
};

}  // namespace buttress
