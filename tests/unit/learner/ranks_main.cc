// [--gpu] JOBS: trains a few steps on fake batches for each line of the file JOBS, on the CPU or
// with NCCL on GPUs. The line "OUT DTYPE PRECISION [SETTING=VALUE ...]" writes to OUT the
// parameters of the small model, or of run.model.path; to OUT.log the loss and the norm of the
// gradient of each step, and what the host waited for on the device of the tests; to OUT.held the
// bytes of tensors that rank 0 holds between its steps. `--compare A B BOUND ...` compares pairs of
// float32 files; `--differ` gives one rank another weight, which all ranks must notice.
#include <dlfcn.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
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

struct Job {
  std::string out, dtype, precision;
  std::vector<std::string> settings;
};

struct Trained {
  std::string parameters;
  std::string log;
  std::int64_t held = 0;
};

Result<std::vector<Job>> ReadJobs(const std::string& path) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  std::vector<Job> jobs;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    Job& job = jobs.emplace_back();
    words >> job.out >> job.dtype >> job.precision;
    for (std::string setting; words >> setting;) job.settings.push_back(setting);
  }
  if (jobs.empty()) return InvalidArgument(path + " has no job");
  return jobs;
}

Result<Trained> Train(Collective& group, ComputeDevice kind, const Job& job) {
  BUTTRESS_ASSIGN_OR_RETURN(const ModelDtype dtype, FindChoice<ModelDtype>(job.dtype));
  RunConfig config;
  config.run = SmallRun();
  config.local.learner.micro_batch_tokens = 60;  // ranks have different numbers of micro-batches
  config.local.learner.collective_timeout_ms = 20000;
  config.run.data.prompts = config.run.model.path = "unused";
  config.run.model.dtype = dtype;
  BUTTRESS_ASSIGN_OR_RETURN(config.run.optim.precision, FindChoice<OptimPrecision>(job.precision));
  BUTTRESS_ASSIGN_OR_RETURN(config, ParseRunConfig(PrintRunConfig(config), "test", job.settings));
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
  Trained trained;
  trainer.CallBeforeUpdates([&] {
    trained.held = std::max(trained.held, live.now());
    return OkStatus();
  });
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    BUTTRESS_ASSIGN_OR_RETURN(const StepState state, trainer.Step(step, [] { return false; }));
    const StepMeasurements& m = state.measured;
    char numbers[200];
    std::snprintf(numbers, sizeof numbers, "step %d loss %.9g grad_norm %.9g tokens %.9g kl %.9g",
                  static_cast<int>(step), m.loss, m.grad_norm, m.trained_tokens, m.kl);
    trained.log += numbers + HostWaits() + "\n";
  }
  const bool asks = group.rank() == group.size() - 1;
  BUTTRESS_ASSIGN_OR_RETURN(const StepState after,
                            trainer.Step(kSteps + 1, [asks] { return asks; }));
  if (after.end != StepEnd::kStopped)
    return Internal("the last rank asked to stop, but another step was trained");
  std::string& bytes = trained.parameters;
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
  return trained;
}

Status TrainAndWrite(Collective& group, ComputeDevice kind, const Job& job) {
  BUTTRESS_ASSIGN_OR_RETURN(const Trained trained, Train(group, kind, job));
  if (group.rank() != 0) return OkStatus();
  BUTTRESS_RETURN_IF_ERROR(WriteFileAtomic(job.out, trained.parameters));
  BUTTRESS_RETURN_IF_ERROR(WriteFileAtomic(job.out + ".log", trained.log));
  return WriteFileAtomic(job.out + ".held", std::to_string(trained.held) + "\n");
}

Status TrainAll(Collective& group, ComputeDevice kind, const std::string& path) {
  at::set_num_threads(1);
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<Job> jobs, ReadJobs(path));
  for (const Job& job : jobs) {
    BUTTRESS_RETURN_IF_ERROR(TrainAndWrite(group, kind, job).Annotate(job.out));
  }
  return OkStatus();
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

bool Near(const std::string& path_a, const std::string& path_b, double bound) {
  const auto a = ReadFile(path_a);
  const auto b = ReadFile(path_b);
  if (!a.ok() || !b.ok() || a->size() != b->size() || a->empty()) {
    std::printf("%s and %s cannot be compared\n", path_a.c_str(), path_b.c_str());
    return false;
  }
  double largest = 0;
  for (std::size_t i = 0; i + sizeof(float) <= a->size(); i += sizeof(float)) {
    float x, y;
    std::memcpy(&x, a->data() + i, sizeof x);
    std::memcpy(&y, b->data() + i, sizeof y);
    largest = std::max(largest, std::abs(static_cast<double>(x) - static_cast<double>(y)));
  }
  std::printf("%s %s: largest difference %.3g, bound %.3g\n", path_a.c_str(), path_b.c_str(),
              largest, bound);
  return largest <= bound;
}

int Main(std::vector<std::string> arguments) {
  if (arguments.size() > 3 && arguments[0] == "--compare") {
    bool near = arguments.size() % 3 == 1;
    for (std::size_t i = 3; i < arguments.size(); i += 3)
      near = Near(arguments[i - 2], arguments[i - 1], std::stod(arguments[i])) && near;
    return near ? 0 : 1;
  }
  const bool on_gpu = !arguments.empty() && arguments[0] == "--gpu";
  if (on_gpu) arguments.erase(arguments.begin());
  if (arguments.size() != 1) return 2;
  auto group = MakeMpiCollective(std::chrono::seconds(20));
  if (!group.ok()) return 1;
  if (arguments[0] == "--differ") return Differ(**group);
  const Status status =
      TrainAll(**group, on_gpu ? ComputeDevice::kCuda : ComputeDevice::kCpu, arguments[0]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  (*group)->Abort();
  return 1;
}

}  // namespace
}  // namespace buttress

int main(int argc, char** argv) { return buttress::Main({argv + 1, argv + argc}); }
