#include "rollout_worker/vllm/vllm_engine.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "lib/weights/adapter_files.h"
#include "rollout_worker/vllm/sample_runner.h"
#include "rollout_worker/vllm/server_pool.h"
#include "rollout_worker/vllm/weight_pusher.h"

namespace buttress {
namespace {

// How long the start waits for the other servers once one serves.
constexpr std::int64_t kStartPatienceMs = 10000;

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

bool HasAdapters(const WeightManifest& manifest) {
  return std::ranges::any_of(
      manifest.files, [](const WeightFile& file) { return file.name == kAdapterConfigName; });
}

class VllmEngine final : public InferenceEngine {
 public:
  VllmEngine(const VllmConfig& config, const std::string& api_key, PushedWeights initial,
             const Tokenizer* tokenizer, InFlight in_flight, const std::string& out)
      : colocate_(config.launch.colocate),
        pool_(config.servers),
        runner_(config, api_key, pool_, tokenizer, in_flight),
        pusher_(config, api_key, pool_, runner_, std::move(initial), in_flight, out) {}

  // The pusher's threads may wait for the runner.
  ~VllmEngine() override {
    pusher_.Stop();
    runner_.Stop();
  }

  Status WaitForStart(std::int64_t ready_ms) {
    return pusher_.WaitForStart(kStartPatienceMs, ready_ms);
  }

  Status Submit(SampleRequest request) override {
    pusher_.Wake();
    return runner_.Submit(std::move(request));
  }

  void Cancel(SampleId id) override { runner_.Cancel(id); }

  std::vector<EngineResult> Poll(std::chrono::milliseconds timeout) override {
    return runner_.Poll(timeout);
  }

  std::vector<EngineResult> Unfinished() override { return runner_.Unfinished(); }

  bool Sleep() override {
    if (!colocate_) return true;
    const EngineStats stats = runner_.stats();
    return stats.running + stats.waiting == 0 && pusher_.Sleep();
  }

  PolicyVersion version() const override { return pusher_.version(); }

  EngineStats stats() const override {
    EngineStats stats = runner_.stats();
    stats.available = pool_.available();
    stats.servers = pool_.States();
    pusher_.AddTo(stats);
    return stats;
  }

  Status UpdateWeights(const WeightManifest& manifest) override {
    if (manifest.canaries.empty()) {
      return FailedPrecondition(fmt::format(
          "policy {} is without canaries, which vLLM workers need; start the learner with "
          "local.worker.engine: vllm",
          ToString(manifest.version)));
    }
    return pusher_.Push({manifest.version, AbsolutePath(manifest.folder), manifest.canaries,
                         IsFloat32(manifest),
                         HasAdapters(manifest) ? WeightsKind::kAdapters : WeightsKind::kModel});
  }

  void InterruptUpdate() override { pusher_.Interrupt(); }

  void StopUpdates() override { pusher_.Stop(); }

 private:
  const bool colocate_;
  ServerPool pool_;
  SampleRunner runner_;
  WeightPusher pusher_;
};

}  // namespace

Result<std::unique_ptr<InferenceEngine>> MakeVllmEngine(
    const ModelPathConfig& model, const VllmConfig& config, PolicyVersion initial,
    const Tokenizer* tokenizer, bool adapters, InFlight in_flight, const std::string& out) {
  if (config.servers.empty()) {
    return InvalidArgument(
        "local.worker.vllm.servers = []: buttress launch starts the servers and names them to its "
        "workers; for a worker that is started alone, start `buttress vllm-server` and name it "
        "here");
  }
  BUTTRESS_ASSIGN_OR_RETURN(const std::string api_key, ReadApiKey(config.api_key_file));
  PushedWeights weights{std::move(initial),
                        AbsolutePath(model.path),
                        {},
                        false,
                        adapters ? WeightsKind::kStarted : WeightsKind::kModel};
  auto engine =
      std::make_unique<VllmEngine>(config, api_key, std::move(weights), tokenizer, in_flight, out);
  BUTTRESS_RETURN_IF_ERROR(engine->WaitForStart(config.launch.on() ? config.launch.ready_ms : 0));
  return std::unique_ptr<InferenceEngine>(std::move(engine));
}

}  // namespace buttress
