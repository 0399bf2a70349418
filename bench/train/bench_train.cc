// Measures the training steps of a learner on a model with random weights: groups of completions
// behind shared prompts, of lengths that are drawn anew for each step. The trainer is that of the
// learner; nothing is sampled, published or written. Prints one JSON object. bench/train/run.py and
// bench/train/memory.py run it, alone or under mpirun.
#include <ATen/DeviceAccelerator.h>
#include <torch/types.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/train/drawn_groups.h"
#include "learner/output/checkpoint.h"
#include "learner/rank_device.h"
#include "learner/step/context_ranks.h"
#include "learner/step/shards.h"
#include "learner/trainer.h"
#include "lib/base/os/clock.h"
#include "lib/checks/learner_memory.h"
#include "lib/collectives/launcher.h"
#include "lib/config/choice_option.h"
#include "lib/policy/adapters/adapted_model.h"
#include "lib/policy/context_heads.h"
#include "lib/policy/transformer.h"
#include "tests/support/live_bytes.h"

namespace buttress {
namespace {

constexpr std::chrono::seconds kTimeout{60};

struct Flags {
  std::string model;
  RunConfig config;
  DrawnGroupsOptions groups = {8, 16, {128, 512}, {100, 4096}, 1};
  std::int64_t steps = 5;
  std::int64_t plan_ranks = 0;
  bool fixed = false;
  std::string checkpoint;  // folder
};

// Waits for the work that was given to the GPU.
void Settle(ModelDevice device) {
  if (device.cuda) at::accelerator::synchronizeDevice(static_cast<at::DeviceIndex>(device.index));
}

// What the model has to compute for the groups of a step, whatever shares rows with what.
struct Work {
  double rows = 0;     // inputs; those of a prompt count once for its group
  double trained = 0;  // tokens
  double flops = 0;    // multiplications and additions, forward and backward
};

// 6 for each element of a matrix and each row that it multiplies, of which the head has the trained
// tokens, and 12 for each pair of positions, head and channel of the attention. (The forward pass
// has a third of each.) What is computed again for `recompute` does not count.
Work WorkOf(const std::vector<v1::Group>& groups, const ModelConfig& model) {
  Work work;
  double pairs = 0, per_row = 0, per_pair = 0;
  for (const v1::Group& group : groups) {
    const auto prompt = static_cast<double>(group.head().prompt_tokens());
    work.rows += prompt;
    pairs += prompt * (prompt + 1) / 2;
    for (int i = 0; i < Completions(group.head()); ++i) {
      const auto tokens = static_cast<double>(TokensOf(group, i).size());
      work.trained += tokens;
      work.rows += tokens - 1;
      pairs += (tokens - 1) * prompt + tokens * (tokens - 1) / 2;
    }
  }
  for (const BlockSpec& block : model.blocks) {
    const AttentionSpec& attention = block.attention;
    const std::int64_t mlps = std::max<std::int64_t>(1, block.experts.top_k);
    per_row +=
        6.0 * static_cast<double>(block.D * (2 * attention.q_width() + 2 * attention.kv_width() +
                                             3 * block.F * mlps + block.experts.count));
    per_pair += 12.0 * static_cast<double>(attention.q_width());
  }
  const double head = 6.0 * static_cast<double>(model.hidden_size * model.vocab_size);
  work.flops = work.rows * per_row + pairs * per_pair + work.trained * head;
  return work;
}

// The fastest of some products of square matrices, in operations per second.
double MatrixProductRate(at::ScalarType dtype, ModelDevice device) {
  const std::int64_t n = device.cuda ? 8192 : 1024;
  const auto options = at::TensorOptions().dtype(dtype).device(
      device.cuda ? at::Device(at::kCUDA, static_cast<at::DeviceIndex>(device.index))
                  : at::Device(at::kCPU));
  const at::Tensor a = at::randn({n, n}, options), b = at::randn({n, n}, options);
  double best = 0;
  for (int i = 0; i < 10; ++i) {
    Settle(device);
    const double begin = MonotonicSeconds();
    at::mm(a, b);
    Settle(device);
    const double flops = 2.0 * static_cast<double>(n * n * n);
    best = std::max(best, flops / (MonotonicSeconds() - begin));
  }
  return best;
}

// [[prompt tokens, [tokens of each completion]], ...] of the groups of a step.
nlohmann::json LengthsOf(const std::vector<v1::Group>& groups) {
  nlohmann::json lengths = nlohmann::json::array();
  for (const v1::Group& group : groups) {
    nlohmann::json completions;
    for (int i = 0; i < Completions(group.head()); ++i)
      completions.push_back(TokensOf(group, i).size());
    lengths.push_back({group.head().prompt_tokens(), completions});
  }
  return lengths;
}

// The most resident bytes of the process.
double ResidentPeak() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) * 1024;
  }
  return 0;
}

// The bytes of tensors on the device of the rank.
class TensorBytes {
  auto OfGpu() const {
    return at::accelerator::getDeviceStats(static_cast<at::DeviceIndex>(device_.index))
        .allocated_bytes[0];
  }

 public:
  explicit TensorBytes(ModelDevice device) : device_(device) {}

  double now() const { return static_cast<double>(device_.cuda ? OfGpu().current : live_.now()); }

  double peak() const { return static_cast<double>(device_.cuda ? OfGpu().peak : live_.peak()); }

 private:
  const ModelDevice device_;
  const LiveBytes live_;
};

// Writes a checkpoint to `folder` while another step is trained.
Result<nlohmann::ordered_json> MeasureCheckpoint(const std::string& folder, std::int64_t step,
                                                 const Transformer& model, Trainer& trainer,
                                                 Collective& control) {
  CheckpointStore store(folder, control, kTimeout);
  CheckpointState state;
  state.step = step;
  const double begin = MonotonicSeconds();
  BUTTRESS_RETURN_IF_ERROR(store.Begin(state, model.units(), trainer.optimizer()));
  const double begun = MonotonicSeconds();
  double paused = begun - begin;
  trainer.CallBeforeUpdates([&] {
    const double stopped = MonotonicSeconds();
    store.BeforeUpdate();
    paused += MonotonicSeconds() - stopped;
    return OkStatus();
  });
  BUTTRESS_RETURN_IF_ERROR(trainer.Step(step, [] { return false; }).status());
  const double stepped = MonotonicSeconds();
  BUTTRESS_ASSIGN_OR_RETURN(const auto saved, store.Finish(/*wait=*/true));
  return nlohmann::ordered_json{{"bytes", saved->state.bytes},
                                {"paused", paused},
                                {"written", saved->seconds},
                                {"step", stepped - begin},
                                {"share", paused / (stepped - begin)}};
}

// The largest value of a rank.
Result<double> LargestOf(double own, Collective& control) {
  std::vector<double> all(static_cast<std::size_t>(control.size()));
  const Buffer gathered{all.data(), std::ssize(all), DType::kFloat64};
  BUTTRESS_RETURN_IF_ERROR(control.AllGather({&own, 1, DType::kFloat64}, gathered)->Wait(kTimeout));
  return *std::ranges::max_element(all);
}

nlohmann::ordered_json PlanRow(const Flags& flags, const ModelConfig& model, std::int64_t ranks) {
  const MemoryPlan plan =
      PlanLearnerMemory(flags.config, model, FullMicroBatch(flags.config, model), ranks,
                        flags.config.local.learner.zero);
  nlohmann::ordered_json parts;
  for (const auto& [name, bytes] : PartsOf(plan)) parts[name] = bytes;
  // Libraries are no tensors.
  return {{"parts", parts},
          {"state", plan.state() - plan.libraries},
          {"peak", plan.peak() - plan.libraries}};
}

Result<nlohmann::ordered_json> Measure(const Flags& flags, const ModelConfig& config,
                                       Collective& control) {
  const RunSettings& run = flags.config.run;
  const LearnerConfig& learner = flags.config.local.learner;
  BUTTRESS_ASSIGN_OR_RETURN(
      const RankDevice own,
      OpenRankDevice({learner.device, learner.device == ComputeDevice::kCuda && control.size() > 1,
                      learner.share_gpu, "--device cpu", kTimeout},
                     control));
  at::set_num_threads(static_cast<int>(learner.threads));
  const TensorBytes bytes(own.device);
  Collective& tensors = own.nccl ? *own.nccl : control;
  BUTTRESS_ASSIGN_OR_RETURN(
      const auto model,
      Transformer::Random(config, run.model.dtype, own.device, 1, ShareOf(tensors, learner.zero)));
  if (run.lora.on()) BUTTRESS_RETURN_IF_ERROR(StartAdapters(run.lora, 1, *model));
  DrawnGroups source(flags.groups);
  BUTTRESS_RETURN_IF_ERROR(CheckContext(config, learner.context_parallel, control.size()));
  BUTTRESS_ASSIGN_OR_RETURN(
      const auto context, ContextRanks::Form(learner.context_parallel, control, tensors, kTimeout));
  Trainer trainer({run, learner, "/dev/null", "", context.get()}, *model, nullptr, control, tensors,
                  source);
  BUTTRESS_ASSIGN_OR_RETURN(const double state, LargestOf(bytes.now(), control));
  StepMeasurements sums;
  double seconds = 0;
  Work work;
  nlohmann::json lengths;
  for (std::int64_t step = 1; step <= flags.steps + 1; ++step) {
    Settle(own.device);
    const double begin = MonotonicSeconds();
    BUTTRESS_ASSIGN_OR_RETURN(const StepState done, trainer.Step(step, [] { return false; }));
    Settle(own.device);
    if (step == 1 && flags.steps > 0) continue;  // allocates
    seconds += MonotonicSeconds() - begin;
    std::vector<v1::Group> groups;
    for (std::int64_t k = 0; k < flags.groups.groups; ++k) groups.push_back(source.Group(step, k));
    lengths.push_back(LengthsOf(groups));
    const Work one = WorkOf(groups, config);
    work.rows += one.rows;
    work.trained += one.trained;
    work.flops += one.flops;
    sums.seconds_forward += done.measured.seconds_forward;
    sums.seconds_backward += done.measured.seconds_backward;
    sums.seconds_reduce += done.measured.seconds_reduce;
    sums.seconds_optimizer += done.measured.seconds_optimizer;
    sums.reduced_bytes += done.measured.reduced_bytes;
    sums.entropy_exact = done.measured.entropy_exact;
    sums.skipped += done.measured.skipped;
  }
  if (sums.skipped > 0) return DataLoss("gradients were not finite");
  BUTTRESS_ASSIGN_OR_RETURN(const double peak, LargestOf(bytes.peak(), control));
  nlohmann::ordered_json checkpoint;
  if (!flags.checkpoint.empty()) {
    BUTTRESS_ASSIGN_OR_RETURN(
        checkpoint, MeasureCheckpoint(flags.checkpoint, flags.steps + 2, *model, trainer, control));
  }
  // A step that allocates has no speed to compare.
  const double product =
      flags.steps > 0 ? MatrixProductRate(model->units().front().flat.scalar_type(), own.device)
                      : std::numeric_limits<double>::quiet_NaN();
  const auto ranks = static_cast<double>(control.size());
  return nlohmann::ordered_json{
      {"ranks", control.size()},
      {"rows", work.rows},
      {"trained_tokens", work.trained},
      {"seconds", seconds},
      {"tokens_per_second", work.rows / seconds},
      {"flops_per_token", work.flops / work.rows},
      {"flops", work.flops / seconds / ranks},
      {"product_flops", product},
      {"share", work.flops / seconds / ranks / product},
      {"phases",
       {{"forward", sums.seconds_forward},
        {"backward", sums.seconds_backward},
        {"reduce", sums.seconds_reduce},
        {"optimizer", sums.seconds_optimizer}}},
      {"reduced_bytes", sums.reduced_bytes},
      {"entropy", sums.entropy_exact},
      {"peak_bytes", learner.device == ComputeDevice::kCuda ? peak : ResidentPeak()},
      {"state_bytes", state},
      {"tensor_peak_bytes", peak},
      {"checkpoint", checkpoint},
      {"plan", PlanRow(flags, config, control.size())},
      {"lengths", lengths}};
}

Status Run(Flags& flags) {
  BUTTRESS_ASSIGN_OR_RETURN(const ModelConfig model, LoadModelConfig(flags.model));
  RunSettings& run = flags.config.run;
  if (flags.fixed) {
    flags.groups.prompt.least = flags.groups.prompt.most;
    flags.groups.completion.least = flags.groups.completion.most;
  }
  flags.groups.vocabulary = model.vocab_size;
  run.steps = flags.steps + 2;
  run.batch.prompts = flags.groups.groups;
  run.sampling.group_size = flags.groups.completions;
  run.sampling.max_tokens = flags.groups.completion.most;
  run.data.max_prompt_tokens = flags.groups.prompt.most;
  nlohmann::ordered_json row;
  if (flags.plan_ranks > 0) {
    row = PlanRow(flags, model, flags.plan_ranks);
  } else {
    BUTTRESS_ASSIGN_OR_RETURN(const auto control, ReadLaunch().ranks > 1
                                                      ? MakeMpiCollective(kTimeout)
                                                      : MakeLocalCollective());
    BUTTRESS_ASSIGN_OR_RETURN(row, Measure(flags, model, *control));
    if (control->rank() != 0) return OkStatus();
  }
  std::printf("%s\n", row.dump().c_str());
  return OkStatus();
}

void AddFlags(CLI::App& app, Flags& flags) {
  RunSettings& run = flags.config.run;
  LearnerConfig& learner = flags.config.local.learner;
  run.model.dtype = ModelDtype::kBfloat16;
  const auto count = [&](const char* name, std::int64_t& value, const char* help) {
    app.add_option(name, value, help)->check(CLI::PositiveNumber)->capture_default_str();
  };
  app.add_option("model", flags.model, "folder with a config.json")->required();
  AddChoice(app, "--dtype", run.model.dtype, "parameters and activations");
  AddChoice(app, "--precision", run.optim.precision, "of the optimizer");
  AddChoice(app, "--device", learner.device, "where the model is trained");
  AddChoice(app, "--zero", learner.zero, "what a rank holds a part of");
  AddChoice(app, "--recompute", learner.recompute, "what the backward pass computes again");
  app.add_flag("--share-gpu", learner.share_gpu, "ranks may share a GPU");
  count("--threads", learner.threads, "torch threads of a rank");
  count("--context-parallel", learner.context_parallel, "ranks that divide the rows of a pass");
  count("--micro-batch-tokens", learner.micro_batch_tokens, "of a forward and backward pass");
  count("--micro-batch-mib", learner.micro_batch_mib, "of its planned activations");
  count("--lora-rank", run.lora.rank, "train adapters of this rank");
  const auto target = [&run](const std::string& name) {
    const Result<LoraTarget> found = FindChoice<LoraTarget>(name);
    if (!found.ok()) throw CLI::ValidationError("--lora-target", found.status().message());
    run.lora.targets = {*found};
  };
  app.add_option_function<std::string>("--lora-target", target, "the matrix that has them [all]");
  count("--groups", flags.groups.groups, "of a step");
  count("--group-size", flags.groups.completions, "completions of a group");
  count("--least-prompt", flags.groups.prompt.least, "tokens of a prompt");
  count("--most-prompt", flags.groups.prompt.most, "tokens of a prompt");
  count("--least", flags.groups.completion.least, "tokens of a completion");
  count("--most", flags.groups.completion.most, "tokens of a completion");
  app.add_flag("--fixed", flags.fixed, "all prompts and completions have the most tokens");
  app.add_option("--steps", flags.steps, "measured steps, after one that is not; 0: that one")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--checkpoint", flags.checkpoint,
                 "folder to write a checkpoint to, while one more step is trained");
  count("--plan", flags.plan_ranks, "print the memory plan for so many ranks, and train nothing");
}

}  // namespace
}  // namespace buttress

int main(int argc, char** argv) {
  buttress::Flags flags;
  CLI::App app("Measures the training steps of a learner on a model with random weights");
  buttress::AddFlags(app, flags);
  CLI11_PARSE(app, argc, argv);
  buttress::Status status;
  try {
    status = buttress::Run(flags);
  } catch (const std::exception& error) {
    status = buttress::Internal(error.what());
  }
  if (!status.ok()) std::fprintf(stderr, "bench_train: %s\n", status.message().c_str());
  return buttress::ExitCode(status);
}
