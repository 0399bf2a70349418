#include "rollout_worker/vllm/vllm_engine.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>
#include <utility>

#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/retry.h"
#include "rollout_worker/vllm/control.h"
#include "rollout_worker/vllm/sample_runner.h"
#include "rollout_worker/vllm/server_pool.h"

namespace buttress {
namespace {

constexpr std::int64_t kMaxReviveMs = 30000;
constexpr std::int64_t kMaxKeyBytes = 4096;
// The largest mean difference of log-probs, in nats, between servers and learners with the same
// weights. Kernels and rounding cause a difference. Measured on canaries, vLLM in float32 differed
// by 5e-7 from a learner in float32 (3 layers); vLLM in bfloat16 differed by 0.006 from one in
// bfloat16 (3 and 24 layers) and by 0.01 from one in float32 (3 layers). The bound for bfloat16 is
// wide, because the error grows with the logits: between 16 and 32, adjacent bfloat16 values are
// 1/8 apart.
constexpr double kFloat32Bound = 1e-3;
constexpr double kBfloat16Bound = 0.05;

// The weights of every serving server. The initial model of a run has no canaries until the learner
// publishes it as its first version.
struct ServedWeights {
  PolicyVersion version;
  std::string folder;
  Canaries canaries;
  bool float32 = false;
};

std::string CanarySalt(const PolicyVersion& version) { return "canary-" + ToString(version); }

// Servers resolve relative paths against their own working folder.
std::string AbsolutePath(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.lexically_normal().string();
}

bool IsFloat32(const WeightManifest& manifest) {
  return std::ranges::all_of(manifest.tensors,
                             [](const TensorEntry& tensor) { return tensor.dtype == "F32"; });
}

class VllmEngine final : public InferenceEngine {
 public:
  VllmEngine(const VllmConfig& config, std::string api_key, std::vector<ServerInfo> servers,
             ServedWeights weights, const Tokenizer* tokenizer)
      : config_(config),
        control_(config, api_key),
        prober_(config, api_key),
        pool_(std::move(servers)),
        weights_(std::move(weights)),
        shown_(pool_.size()),
        runner_(config, std::move(api_key), pool_, weights_.version, tokenizer) {
    reviver_ = std::thread([this] { ReviveLost(); });
  }

  ~VllmEngine() override {
    stop_.Stop();
    control_.Stop();
    prober_.Stop();
    reviver_.join();
  }

  Status Submit(SampleRequest request) override { return runner_.Submit(std::move(request)); }

  void Cancel(SampleId id) override { runner_.Cancel(id); }

  std::vector<EngineResult> Poll(std::chrono::milliseconds timeout) override {
    return runner_.Poll(timeout);
  }

  PolicyVersion version() const override { return runner_.version(); }

  EngineStats stats() const override {
    EngineStats stats = runner_.stats();
    stats.canary_difference = canary_difference_;
    stats.unchanged_weights = unchanged_weights_;
    stats.servers = pool_.States();
    return stats;
  }

  Status UpdateWeights(const WeightManifest& manifest, InFlight in_flight) override {
    if (manifest.canaries.empty()) {
      return FailedPrecondition(fmt::format(
          "policy {} is without canaries, which vLLM workers need; start the learner with "
          "local.worker.engine: vllm",
          ToString(manifest.version)));
    }
    MutexLock lock(control_mutex_);
    const std::vector<std::size_t> serving = pool_.Serving();
    if (serving.empty())
      return Unavailable("no vLLM server serves: " + pool_.last_failure().ToString());
    const std::string folder = AbsolutePath(manifest.folder);
    in_flight == InFlight::kDrain ? runner_.Drain() : runner_.Pause();
    const auto interrupt = [&] {
      if (in_flight != InFlight::kDrain) runner_.Interrupt(in_flight);
    };
    std::vector<std::string> urls;
    for (const std::size_t server : serving) urls.push_back(pool_.Info(server).url);
    const std::vector<Status> pushed = control_.PushWeights(urls, folder, in_flight, interrupt);
    const Status status =
        Prove(serving, pushed, {manifest.version, folder, manifest.canaries, IsFloat32(manifest)});
    runner_.Resume(weights_.version);
    return status;
  }

 private:
  // Checks which servers serve `weights`, and marks the others as lost. Fails if all are lost.
  Status Prove(const std::vector<std::size_t>& servers, const std::vector<Status>& pushed,
               ServedWeights weights) REQUIRES(control_mutex_) {
    std::vector<ServerInfo> infos;
    for (const std::size_t server : servers) infos.push_back(pool_.Info(server));
    std::vector<Result<Canaries>> measured =
        control_.MeasureCanaries(infos, weights.canaries, CanarySalt(weights.version));
    bool proven = false;
    Status failure;
    canary_difference_ = 0;
    for (std::size_t i = 0; i < servers.size(); ++i) {
      Status status = pushed[i].ok() ? measured[i].status() : pushed[i];
      if (status.ok()) status = ProveServer(servers[i], infos[i], weights, *std::move(measured[i]));
      proven = proven || status.ok();
      if (status.ok()) continue;
      if (failure.ok()) failure = status;
      pool_.MarkLost(servers[i], status);
    }
    if (!proven) return failure;
    Log(kInfo, "vLLM serves new weights",
        {{"policy", ToString(weights.version)},
         {"servers", pool_.Serving().size()},
         {"canary_difference", canary_difference_.load()}});
    weights_ = std::move(weights);
    return OkStatus();
  }

  Status ProveServer(std::size_t server, const ServerInfo& info, const ServedWeights& weights,
                     Canaries shown) REQUIRES(control_mutex_) {
    const VersionCanaries before{weights_.version, weights_.canaries, shown_[server]};
    VersionCanaries now{weights.version, weights.canaries, std::move(shown)};
    const CanaryProof proof = ProveVersion(now, before, Bound(info, weights), info.url);
    canary_difference_ = std::max(canary_difference_.load(), proof.difference);
    if (proof.unchanged) {
      ++unchanged_weights_;
      Log(kError, "a vLLM server did not change its weights",
          {{"server", info.url}, {"error", proof.status.message()}});
    }
    if (proof.status.ok()) shown_[server] = std::move(now.server);
    return proof.status;
  }

  double Bound(const ServerInfo& info, const ServedWeights& weights) const {
    if (config_.canary_nats > 0) return config_.canary_nats;
    return info.float32 && weights.float32 ? kFloat32Bound : kBfloat16Bound;
  }

  void ReviveLost() {
    Backoff backoff(
        {.initial_ms = config_.revive_ms, .max_ms = std::max(config_.revive_ms, kMaxReviveMs)},
        HashText("revive"));
    while (!stop_.WaitFor(std::chrono::milliseconds(backoff.NextMs()))) {
      std::vector<std::size_t> recovered;
      {
        // The lock excludes an update in progress; later updates skip lost servers.
        MutexLock lock(control_mutex_);
        recovered = pool_.Recovered();
      }
      bool failed = false;
      for (const std::size_t server : recovered) {
        const Status status = Revive(server);
        if (stop_.stopped()) return;
        failed = failed || !status.ok();
        if (!status.ok())
          Log(kWarn, "a lost vLLM server does not serve yet", {{"error", status.ToString()}});
      }
      if (!failed) backoff.Reset();
    }
  }

  // Loads the current weights into a lost server and checks its canaries. Probes it without the
  // lock, so that a server that hangs does not delay the updates of the others.
  Status Revive(std::size_t server) EXCLUDES(control_mutex_) {
    const std::string url = pool_.Info(server).url;
    BUTTRESS_ASSIGN_OR_RETURN(ServerInfo info, prober_.Probe(url));
    MutexLock lock(control_mutex_);
    BUTTRESS_RETURN_IF_ERROR(
        control_.PushWeights({url}, weights_.folder, InFlight::kKeep, [] {})[0]);
    Result<Canaries> shown = std::move(
        control_.MeasureCanaries({info}, weights_.canaries, CanarySalt(weights_.version))[0]);
    BUTTRESS_RETURN_IF_ERROR(shown.status());
    shown_[server].clear();  // the server may have restarted with any weights
    BUTTRESS_RETURN_IF_ERROR(ProveServer(server, info, weights_, *std::move(shown)));
    if (!pool_.Restore(server, std::move(info)))
      return Unavailable(url + " failed again while it was revived");
    runner_.Wake();
    Log(kInfo, "a vLLM server serves again",
        {{"server", url}, {"policy", ToString(weights_.version)}});
    return OkStatus();
  }

  const VllmConfig config_;
  Mutex control_mutex_;  // held during a weight update and the revival of a server
  VllmControl control_;
  VllmControl prober_;  // used by the reviver
  ServerPool pool_;
  ServedWeights weights_ GUARDED_BY(control_mutex_);
  std::vector<Canaries> shown_ GUARDED_BY(control_mutex_);  // by server, under weights_
  std::atomic<double> canary_difference_ = 0;
  std::atomic<std::int64_t> unchanged_weights_ = 0;
  SampleRunner runner_;
  StopSignal stop_;
  std::thread reviver_;
};

Result<std::string> ReadApiKey(const std::string& path) {
  if (path.empty()) return std::string();
  BUTTRESS_ASSIGN_OR_RETURN(std::string key, ReadFile(path, kMaxKeyBytes));
  while (!key.empty() && (key.back() == '\n' || key.back() == '\r' || key.back() == ' '))
    key.pop_back();
  const bool printable =
      std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c < '\x7f'; });
  if (key.empty() || !printable)
    return InvalidArgument(path + ": expected one line with the API key");
  return key;
}

}  // namespace

Result<std::unique_ptr<InferenceEngine>> MakeVllmEngine(const ModelPathConfig& model,
                                                        const VllmConfig& config,
                                                        PolicyVersion initial,
                                                        const Tokenizer* tokenizer) {
  BUTTRESS_ASSIGN_OR_RETURN(std::string api_key, ReadApiKey(config.api_key_file));
  VllmControl control(config, api_key);
  std::vector<ServerInfo> servers;
  for (const std::string& url : config.servers) {
    BUTTRESS_ASSIGN_OR_RETURN(ServerInfo info, control.Probe(url));
    Log(kInfo, "vLLM server",
        {{"server", url},
         {"vllm", info.version},
         {"model", info.model},
         {"concurrency", info.concurrency}});
    servers.push_back(std::move(info));
  }
  ServedWeights weights{std::move(initial), AbsolutePath(model.path), {}, false};
  for (const Status& status :
       control.PushWeights(config.servers, weights.folder, InFlight::kAbort, [] {})) {
    BUTTRESS_RETURN_IF_ERROR(status);
  }
  return std::unique_ptr<InferenceEngine>(std::make_unique<VllmEngine>(
      config, std::move(api_key), std::move(servers), std::move(weights), tokenizer));
}

}  // namespace buttress
