#include "rollout_worker/vllm/vllm_engine.h"

#include <algorithm>
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

// What every serving server holds.
struct ServedWeights {
  PolicyVersion version;
  std::string folder;
  Canary canary;
};

std::string CanarySalt(const PolicyVersion& version) { return "canary-" + ToString(version); }

// A server resolves a path against a folder of its own.
std::string AbsolutePath(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.lexically_normal().string();
}

class VllmEngine final : public InferenceEngine {
 public:
  VllmEngine(const VllmConfig& config,
             std::string api_key,
             std::vector<ServerInfo> servers,
             ServedWeights weights)
      : config_(config),
        control_(config, api_key),
        pool_(std::move(servers)),
        weights_(std::move(weights)),
        runner_(config, std::move(api_key), pool_, weights_.version) {
    reviver_ = std::thread([this] { ReviveLost(); });
  }

  ~VllmEngine() override {
    stop_.Stop();
    control_.Stop();
    reviver_.join();
  }

  Status Submit(SampleRequest request) override { return runner_.Submit(std::move(request)); }

  void Cancel(SampleId id) override { runner_.Cancel(id); }

  std::vector<EngineResult> Poll(std::chrono::milliseconds timeout) override {
    return runner_.Poll(timeout);
  }

  PolicyVersion version() const override { return runner_.version(); }

  EngineStats stats() const override { return runner_.stats(); }

  Status UpdateWeights(const WeightManifest& manifest, InFlight in_flight) override {
    MutexLock lock(control_mutex_);
    const std::vector<std::size_t> serving = pool_.Serving();
    if (serving.empty())
      return Unavailable("no vLLM server serves: " + pool_.last_failure().ToString());
    const std::string folder = AbsolutePath(manifest.folder);
    runner_.Hold();
    const auto cut = [&] {
      if (in_flight != InFlight::kDrain) runner_.Cut(in_flight);
    };
    std::vector<std::string> urls;
    for (const std::size_t server : serving) urls.push_back(pool_.Info(server).url);
    const std::vector<Status> pushed = control_.PushWeights(urls, folder, in_flight, cut);
    const Status status = Prove(serving, pushed, {manifest.version, folder, {}});
    runner_.Go(weights_.version);
    return status;
  }

 private:
  // Takes over the servers whose log-probs show `weights`; the others are lost. Fails if all are.
  Status Prove(const std::vector<std::size_t>& servers,
               const std::vector<Status>& pushed,
               ServedWeights weights) REQUIRES(control_mutex_) {
    std::vector<ServerInfo> infos;
    for (const std::size_t server : servers) infos.push_back(pool_.Info(server));
    const std::vector<Result<Canary>> canaries =
        control_.MeasureCanary(infos, CanarySalt(weights.version));
    const bool must_differ =
        !weights_.version.digest.empty() && weights.version.digest != weights_.version.digest;
    bool proven = false;
    Status failure;
    for (std::size_t i = 0; i < servers.size(); ++i) {
      Status status = pushed[i].ok() ? canaries[i].status() : pushed[i];
      if (status.ok() && must_differ && *canaries[i] == weights_.canary) {
        status = FailedPrecondition(infos[i].url + " took the weights of " + weights.folder +
                                    ", but its log-probs are unchanged: it still serves policy " +
                                    ToString(weights_.version));
      }
      if (status.ok() && proven)
        status = CheckSameWeights(*canaries[i], weights.canary, infos[i].url);
      if (status.ok() && !proven) weights.canary = *canaries[i];
      proven = proven || status.ok();
      if (status.ok()) continue;
      if (failure.ok()) failure = status;
      pool_.Lose(servers[i], status);
    }
    if (!proven) return failure;
    Log(kInfo,
        "vLLM serves new weights",
        {{"policy", ToString(weights.version)},
         {"servers", pool_.Serving().size()},
         {"logprob_difference", Compare(weights.canary, weights_.canary).logprob}});
    weights_ = std::move(weights);
    return OkStatus();
  }

  void ReviveLost() {
    Backoff backoff(
        {.initial_ms = config_.revive_ms, .max_ms = std::max(config_.revive_ms, kMaxReviveMs)},
        HashText("revive"));
    while (!stop_.WaitFor(std::chrono::milliseconds(backoff.NextMs()))) {
      MutexLock lock(control_mutex_);
      bool failed = false;
      for (const std::size_t server : pool_.Lost()) {
        const Status status = Revive(server);
        if (stop_.stopped()) return;
        failed = failed || !status.ok();
        if (!status.ok())
          Log(kWarn, "a lost vLLM server does not serve yet", {{"error", status.ToString()}});
      }
      if (!failed) backoff.Reset();
    }
  }

  // Whatever it may hold by now, it gets the current weights and has to show them.
  Status Revive(std::size_t server) REQUIRES(control_mutex_) {
    const std::string url = pool_.Info(server).url;
    BUTTRESS_ASSIGN_OR_RETURN(ServerInfo info, control_.Probe(url));
    BUTTRESS_RETURN_IF_ERROR(
        control_.PushWeights({url}, weights_.folder, InFlight::kKeep, [] {})[0]);
    const Result<Canary> canary =
        std::move(control_.MeasureCanary({info}, CanarySalt(weights_.version))[0]);
    BUTTRESS_RETURN_IF_ERROR(canary.status());
    BUTTRESS_RETURN_IF_ERROR(CheckSameWeights(*canary, weights_.canary, url));
    pool_.Restore(server, std::move(info));
    runner_.Wake();
    Log(kInfo,
        "a vLLM server serves again",
        {{"server", url}, {"policy", ToString(weights_.version)}});
    return OkStatus();
  }

  const VllmConfig config_;
  Mutex control_mutex_;  // one change at a time
  VllmControl control_;
  ServerPool pool_;
  ServedWeights weights_ GUARDED_BY(control_mutex_);
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
                                                        PolicyVersion initial) {
  BUTTRESS_ASSIGN_OR_RETURN(std::string api_key, ReadApiKey(config.api_key_file));
  VllmControl control(config, api_key);
  std::vector<ServerInfo> servers;
  for (const std::string& url : config.servers) {
    BUTTRESS_ASSIGN_OR_RETURN(ServerInfo info, control.Probe(url));
    Log(kInfo,
        "vLLM server",
        {{"server", url},
         {"vllm", info.version},
         {"model", info.model},
         {"concurrency", info.concurrency}});
    servers.push_back(std::move(info));
  }
  ServedWeights weights{std::move(initial), AbsolutePath(model.path), {}};
  for (const Status& status :
       control.PushWeights(config.servers, weights.folder, InFlight::kAbort, [] {})) {
    BUTTRESS_RETURN_IF_ERROR(status);
  }
  std::vector<Result<Canary>> canaries =
      control.MeasureCanary(servers, CanarySalt(weights.version));
  for (std::size_t i = 0; i < servers.size(); ++i) {
    BUTTRESS_RETURN_IF_ERROR(canaries[i].status());
    if (i == 0) weights.canary = *canaries[0];
    BUTTRESS_RETURN_IF_ERROR(CheckSameWeights(*canaries[i], weights.canary, servers[i].url));
  }
  return std::unique_ptr<InferenceEngine>(std::make_unique<VllmEngine>(
      config, std::move(api_key), std::move(servers), std::move(weights)));
}

}  // namespace buttress
