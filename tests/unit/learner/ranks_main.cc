// [--gpu] FILE DTYPE PRECISION [SETTING=VALUE ...]: trains a few steps on fake batches, on the CPU
// or with NCCL on GPUs, and writes the parameters of the small model, or of run.model.path;
// `--compare A B BOUND` compares two float32 files; `--differ` gives one rank another weight, which
// all ranks must notice. Prints the loss and the norm of the gradient of each step, and what the
// host waited for on the device of the tests.
#include <dlfcn.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "learner/output/job_checkpoints.h"
#include "learner/rank_device.h"
#include "learner/trainer.h"
#include "lib/base/os/file.h"
#include "lib/config/load.h"
#include "lib/policy/adapters/adapted_model.h"
#include "tests/support/live_bytes.h"
#include "tests/unit/learner/fake_source.h"

namespace buttress {
namespace {

constexpr std::int64_t kSteps = 4;

// The model of the path, the small one, with experts or without, or one whose weights outweigh a
// few tokens.
Result<std::unique_ptr<Transformer>> ModelOf(const ModelPathConfig& model, ModelDevice device,
                                             const UnitShare& share) {
  if (model.path == "unused") return SmallModel(model.dtype, 7, share, device);
  if (model.path == "experts")
    return Transformer::Random(SmallExpertsConfig(), model.dtype, device, 7, share);
  if (model.path == "larger") {
    ModelConfig config = SmallModelConfig();
    config.hidden_size = 64;
    for (BlockSpec& block : config.blocks) block.D = 64, block.F = 256;
    config.blocks.resize(8, config.blocks.front());
    return Transformer::Random(config, model.dtype, device, 7, share);
  }
  return Transformer::Load(model.path, model.dtype, device, share);
}

// " waits <kind> <count> ..." since the last call, where the device of the tests is open.
std::string HostWaits() {
  void* const device = ::dlopen("libtest_device.so", RTLD_NOW | RTLD_NOLOAD);
  if (device == nullptr) return "";
  const auto take =
      reinterpret_cast<const char* (*)()>(::dlsym(device, "test_device_take_host_waits"));
  return std::string(" waits ") + take();
}

Result<std::string> Train(Collective& group, ComputeDevice kind, const std::string& dtype_name,
                          const std::string& precision, const std::vector<std::string>& settings) {
  at::set_num_threads(1);
  BUTTRESS_ASSIGN_OR_RETURN(const ModelDtype dtype, FindChoice<ModelDtype>(dtype_name));
  RunConfig config;
  config.run = SmallRun();
  config.local.learner.micro_batch_tokens = 60;  // ranks have different numbers of micro-batches
  config.local.learner.collective_timeout_ms = 20000;
  config.run.data.prompts = config.run.model.path = "unused";
  config.run.model.dtype = dtype;
  BUTTRESS_ASSIGN_OR_RETURN(config.run.optim.precision, FindChoice<OptimPrecision>(precision));
  BUTTRESS_ASSIGN_OR_RETURN(config, ParseRunConfig(PrintRunConfig(config), "test", settings));
  const RunSettings& run = config.run;
  const LearnerConfig& learner = config.local.learner;
  BUTTRESS_ASSIGN_OR_RETURN(
      const RankDevice own,
      OpenRankDevice({.kind = kind, .use_nccl = kind == ComputeDevice::kCuda && group.size() > 1},
                     group));
  const UnitShare share = ShareOf(group, learner.zero, learner.expert_parallel);
  const LiveBytes live;
  BUTTRESS_ASSIGN_OR_RETURN(const auto model, ModelOf(run.model, own.device, share));
  if (run.lora.on()) BUTTRESS_RETURN_IF_ERROR(StartAdapters(run.lora, run.seed, *model));
  std::unique_ptr<Transformer> start;
  if (run.algorithm.kl_coef > 0 && !run.lora.on()) {
    const bool stored = config.local.learner.reference == ReferencePlace::kDisk;
    BUTTRESS_ASSIGN_OR_RETURN(
        start, ModelOf(run.model, own.device, stored ? UnitShare{.stored = true} : share));
  }
  const bool adapted = run.lora.on() && run.algorithm.kl_coef > 0;
  Transformer* const reference = adapted ? model.get() : start.get();
  FakeSource source(run);
  Collective& tensors = own.nccl ? *own.nccl : group;
  BUTTRESS_ASSIGN_OR_RETURN(
      const auto context,
      ContextRanks::Form(learner.context_parallel, group, tensors, std::chrono::seconds(20)));
  Trainer trainer({run, learner, "", "", context.get()}, *model, reference, group, tensors, source);
  // Between the backward pass and the update there are no activations.
  std::int64_t held = 0;
  trainer.CallBeforeUpdates([&] {
    held = std::max(held, live.now());
    return OkStatus();
  });
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    BUTTRESS_ASSIGN_OR_RETURN(const StepState state, trainer.Step(step, [] { return false; }));
    if (group.rank() == 0)
      std::printf("step %d loss %.9g grad_norm %.9g tokens %.9g kl %.9g%s\n",
                  static_cast<int>(step), state.measured.loss, state.measured.grad_norm,
                  state.measured.trained_tokens, state.measured.kl, HostWaits().c_str());
  }
  std::fprintf(stderr, "rank %d holds %lld bytes\n", group.rank(), static_cast<long long>(held));
  const bool asks = group.rank() == group.size() - 1;
  BUTTRESS_ASSIGN_OR_RETURN(const StepState after,
                            trainer.Step(kSteps + 1, [asks] { return asks; }));
  if (after.end != StepEnd::kStopped)
    return Internal("the last rank asked to stop, but another step was trained");
  std::string bytes;
  for (const auto& [name, tensor] : CopyToHost(*model, [](const std::string&) { return true; })) {
    at::Tensor storage;
    bytes += TensorBytes(tensor, storage);
  }
  BUTTRESS_ASSIGN_OR_RETURN(const std::string first,
                            BroadcastBytes(group, bytes, 0, std::chrono::seconds(20)));
  if (first != bytes)
    return Internal("rank " + std::to_string(group.rank()) + " has other weights than rank 0");
  if (context != nullptr) BUTTRESS_RETURN_IF_ERROR(context->End());
  if (own.nccl) BUTTRESS_RETURN_IF_ERROR(own.nccl->End());
  return bytes;
}

// 0 if every rank learns that the last rank has another bit in its weights.
int Differ(Collective& group) {
  at::Tensor weights = at::ones({4, 4});
  const auto compare = [&] {
    return CompareReplicas("weights", {{"w", weights}}, group, std::chrono::seconds(20));
  };
  const Status equal = compare();
  if (group.rank() == group.size() - 1) weights[2][3] = std::nextafter(1.0F, 2.0F);
  const Status other = compare();
  const std::string named = "rank " + std::to_string(group.size() - 1) + " has other weights";
  const bool found = other.code() == StatusCode::kDataLoss &&
                     std::string(other.message()).find(named) != std::string::npos;
  std::printf("%s; %s\n", equal.ToString().c_str(), other.ToString().c_str());
  return equal.ok() && found ? 0 : 1;
}

int Compare(const std::string& path_a, const std::string& path_b, double bound) {
  const auto a = ReadFile(path_a);
  const auto b = ReadFile(path_b);
  if (!a.ok() || !b.ok() || a->size() != b->size() || a->empty()) return 1;
  double largest = 0;
  for (std::size_t i = 0; i + sizeof(float) <= a->size(); i += sizeof(float)) {
    float x, y;
    std::memcpy(&x, a->data() + i, sizeof x);
    std::memcpy(&y, b->data() + i, sizeof y);
    largest = std::max(largest, std::abs(static_cast<double>(x) - static_cast<double>(y)));
  }
  std::printf("largest difference %.3g, bound %.3g\n", largest, bound);
  return largest <= bound ? 0 : 1;
}

int Main(int argc, char** argv) {
  if (argc == 5 && std::strcmp(argv[1], "--compare") == 0)
    return Compare(argv[2], argv[3], std::atof(argv[4]));
  const bool differ = argc == 2 && std::strcmp(argv[1], "--differ") == 0;
  const bool on_gpu = argc > 1 && std::strcmp(argv[1], "--gpu") == 0;
  if (on_gpu) ++argv, --argc;
  if (argc < 4 && !differ) return 2;
  auto group = MakeMpiCollective(std::chrono::seconds(20));
  if (!group.ok()) return 1;
  if (differ) return Differ(**group);
  const auto bytes = Train(**group, on_gpu ? ComputeDevice::kCuda : ComputeDevice::kCpu, argv[2],
                           argv[3], std::vector<std::string>(argv + 4, argv + argc));
  Status status = bytes.status();
  if (status.ok() && (*group)->rank() == 0) status = WriteFileAtomic(argv[1], *bytes);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  (*group)->Abort();
  return 1;
}

}  // namespace
}  // namespace buttress

int main(int argc, char** argv) { return buttress::Main(argc, argv); }
