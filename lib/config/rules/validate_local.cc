// Rules of `local`, and between it and the run.
#include <algorithm>
#include <string>
#include <utility>

#include "lib/config/rules/rules.h"

namespace buttress {
namespace {

void CheckPrograms(const LocalSettings& local, Rules& rules) {
  rules.Require(!local.out.empty(), "out", "name the folder of the run");
  const AlarmConfig& alarms = local.learner.alarms;
  rules.Require(alarms.kl_limit > 0, "learner.alarms.kl_limit", "above 0");
  rules.Require(alarms.length_factor >= 1.2, "learner.alarms.length_factor", "at least 1.2");
  rules.Require(local.learner.stuck_timeout_ms >= local.learner.collective_timeout_ms,
                "learner.stuck_timeout_ms",
                ToText(local.learner.collective_timeout_ms) + " or more");
  rules.Require(!local.learner.expert_parallel || local.learner.zero == ZeroStage::k3 ||
                    local.learner.zero == ZeroStage::kAuto,
                "learner.expert_parallel", "false, or local.learner.zero: 3 or auto");
  const CollectiveKind collective = local.learner.collective;
  const bool on_gpu = local.learner.device == ComputeDevice::kCuda;
  rules.Require(
      !on_gpu || collective != CollectiveKind::kMpi, "learner.device",
      "needs a GPU and NVIDIA's driver (nvidia-smi shows them), and local.learner.collective: "
      "nccl, or local for one rank: mpi sums in CPU memory");
  rules.Require(on_gpu || collective != CollectiveKind::kNccl, "learner.collective",
                "sums in GPU memory; with device: cpu use mpi, or local for one rank");
  rules.Require(collective != CollectiveKind::kLocal || local.launch.learner_ranks <= 1,
                "learner.collective",
                "is for one rank, local.launch.learner_ranks asks for more; use mpi, or nccl "
                "where GPUs are");
  rules.Require(local.worker.drain_ms <= local.launch.stop_timeout_ms, "worker.drain_ms",
                "at most local.launch.stop_timeout_ms, after which launch kills the worker");
}

// "off" is no address: nobody listens.
bool OnLoopback(const std::string& address) {
  if (address == "off") return true;
  const std::string host = address.substr(0, address.rfind(':'));
  const bool number = host.find_first_not_of("0123456789.") == std::string::npos;
  return (number && host.starts_with("127.")) || address.starts_with("localhost:") ||
         address.starts_with("[::1]:");
}

void CheckSecurity(const LocalSettings& local, Rules& rules) {
  const SecurityConfig& security = local.security;
  const std::pair<const char*, const std::string&> files[] = {
      {"security.certificate", security.certificate},
      {"security.key", security.key},
      {"security.ca", security.ca},
      {"security.tokens", security.tokens}};
  const bool any =
      std::ranges::any_of(files, [](const auto& file) { return !file.second.empty(); });
  for (const auto& [key, path] : files) {
    rules.Require(path.empty() != any, key,
                  "certificate, key, ca and tokens belong together: set all four, or none");
  }
  rules.Require(any || security.name.empty(), "security.name",
                "is for TLS; set certificate, key, ca and tokens as well");
  rules.Require(!(any && security.insecure), "security.insecure",
                "certificate and tokens are set as well; take out one or the other");
  if (any || security.insecure) return;
  const std::pair<const char*, const std::string&> listeners[] = {
      {"coordinator.listen", local.coordinator.listen},
      {"coordinator.metrics", local.coordinator.metrics},
      {"coordinator.page", local.coordinator.page},
      {"worker.listen", local.worker.listen},
      {"worker.metrics", local.worker.metrics},
      {"worker.episodes.listen", local.worker.episodes.listen},
      {"learner.listen", local.learner.listen},
      {"learner.metrics", local.learner.metrics}};
  for (const auto& [key, address] : listeners) {
    rules.Require(OnLoopback(address), key,
                  "other machines reach it, and local.security names no certificate and tokens; "
                  "deploy/make-certs.sh makes them (local.security.insecure: true does without, "
                  "for a network where you trust everybody)");
  }
}

bool IsServerUrl(const std::string& url) {
  return (url.starts_with("http://") || url.starts_with("https://")) && !url.ends_with('/');
}

constexpr char kServerUrl[] =
    "expected http://host:port or https://host:port, without / at the end";

void CheckTrack(const TrackConfig& track, Rules& rules) {
  rules.Require(track.mlflow.empty() || IsServerUrl(track.mlflow), "track.mlflow", kServerUrl);
  const std::string& name = track.experiment;
  rules.Require(!name.empty() && name.find('\'') == std::string::npos, "track.experiment",
                "expected a name without a quote");
  rules.Require(!track.interpreter.empty(), "track.interpreter",
                "name a Python interpreter, such as python3");
}

// Arguments of vllm serve that a run gives itself, and another value of which it could not use.
constexpr std::pair<std::string_view, std::string_view> kRunArguments[] = {
    {"--host", "servers listen on 127.0.0.1"},
    {"--port", "the run chooses it"},
    {"--uds", "the run chooses a port"},
    {"--served-model-name", "set local.worker.vllm.model"},
    {"--tensor-parallel-size", "set local.worker.vllm.launch.tensor_parallel"},
    {"-tp", "set local.worker.vllm.launch.tensor_parallel"},
    {"--api-server-count", "a run needs 1"},
    {"--generation-config", "a run needs vllm"},
    {"--logprobs-mode", "a run needs processed_logprobs"},
};

// vLLM reads --a-b, --a_b and --a-b=value alike.
void CheckVllmArgument(std::string name, Rules& rules) {
  name.resize(std::min(name.size(), name.find('=')));
  std::ranges::replace(name, '_', '-');
  for (const auto& [own, mend] : kRunArguments) {
    rules.RequireOf(name != own, "worker.vllm.launch.args", name,
                    "the run gives it to its servers; leave it out: " + std::string(mend));
  }
}

void CheckVllmLaunch(const VllmLaunchConfig& launch, Rules& rules) {
  const auto gpus = static_cast<std::int64_t>(launch.gpus.size());
  rules.Require(gpus == 0 ? launch.tensor_parallel == 1 : gpus % launch.tensor_parallel == 0,
                "worker.vllm.launch.tensor_parallel",
                "divides the number of gpus, " + ToText(gpus) + "; 1 without gpus");
  for (const std::int64_t gpu : launch.gpus) {
    rules.RequireOf(gpu >= 0 && std::ranges::count(launch.gpus, gpu) == 1,
                    "worker.vllm.launch.gpus", ToText(gpu), "counted from 0, each at most once");
  }
  for (const std::string& arg : launch.args) {
    if (arg.starts_with('-')) CheckVllmArgument(arg, rules);
  }
  for (const std::string& entry : launch.env) {
    rules.RequireOf(entry.find('=') != std::string::npos && !entry.starts_with('='),
                    "worker.vllm.launch.env", entry, "expected NAME=VALUE");
  }
}

void CheckVllm(const VllmConfig& vllm, Rules& rules) {
  rules.Require(!vllm.servers.empty() || vllm.launch.on(), "worker.vllm.servers",
                "name a server or more: [http://host:8000], or the program that starts some: "
                "local.worker.vllm.launch.binary");
  for (const std::string& server : vllm.servers) {
    rules.RequireOf(IsServerUrl(server), "worker.vllm.servers", server, kServerUrl);
    rules.RequireOf(std::ranges::count(vllm.servers, server) == 1, "worker.vllm.servers", server,
                    "appears twice; name each server once");
  }
}

// What the kind of weights excludes; the servers are asked when a worker starts.
void CheckVllmWeights(const VllmConfig& vllm, bool adapters, Rules& rules) {
  const bool automatic = vllm.weights == VllmWeights::kAuto;
  rules.Require(automatic || (vllm.weights == VllmWeights::kLora) == adapters,
                "worker.vllm.weights",
                adapters ? "run.lora trains adapters; expected auto or lora"
                         : "lora needs run.lora; expected auto, file, nccl or ipc");
  const bool native = vllm.weights == VllmWeights::kNccl || vllm.weights == VllmWeights::kIpc;
  rules.Require(!native || !vllm.launch.on() || !vllm.launch.gpus.empty(), "worker.vllm.weights",
                "nccl and ipc need servers on GPUs; name launch.gpus, or set file");
  rules.Require(vllm.weights != VllmWeights::kNccl ||
                    std::ranges::count(vllm.launch.gpus, vllm.transfer.gpu) == 0,
                "worker.vllm.transfer.gpu",
                "is a GPU of launch.gpus; NCCL needs another one than the servers'");
}

// Servers and learner on the same GPUs take turns, a step at a time.
void CheckColocate(const RunConfig& config, Rules& rules) {
  const VllmLaunchConfig& launch = config.local.worker.vllm.launch;
  if (!launch.colocate) return;
  constexpr const char* kKey = "worker.vllm.launch.colocate";
  rules.Require(launch.on() && !launch.gpus.empty(), kKey,
                "needs servers that the run starts on GPUs: local.worker.vllm.launch.binary, gpus");
  rules.Require(
      config.local.learner.device == ComputeDevice::kCuda, kKey,
      "needs local.learner.device: cuda; beside a learner on the CPU no server need sleep");
  rules.Require(config.local.launch.workers == 1, kKey,
                "needs local.launch.workers: 1, which feeds every server: a worker does not know "
                "whether the servers of another one sleep");
  rules.Require(config.run.batch.max_age == 0, kKey,
                "needs run.batch.max_age: 0; with older groups the servers would sample while the "
                "learner trains");
}

}  // namespace

void CheckLocal(const RunConfig& config, Rules& rules) {
  rules.In("local.");
  CheckPrograms(config.local, rules);
  CheckSecurity(config.local, rules);
  CheckTrack(config.local.track, rules);
  const WorkerConfig& worker = config.local.worker;
  CheckVllmLaunch(worker.vllm.launch, rules);
  rules.Require(worker.episodes.url.empty() || IsServerUrl(worker.episodes.url),
                "worker.episodes.url", kServerUrl);
  rules.Require(worker.engine == EngineKind::kVllm || !worker.vllm.launch.on(),
                "worker.vllm.launch.binary", "needs local.worker.engine: vllm; leave it out");
  if (worker.engine != EngineKind::kVllm) return;
  CheckVllmWeights(worker.vllm, config.run.lora.on(), rules);
  CheckColocate(config, rules);
  CheckVllm(worker.vllm, rules);
  rules.In("run.");
  rules.Require(config.run.sampling.temperature <= 2, "sampling.temperature",
                "at most 2 with local.worker.engine: vllm");
}

}  // namespace buttress
