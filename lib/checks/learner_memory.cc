#include "lib/checks/learner_memory.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "lib/checks/findings.h"
#include "lib/config/token_bounds.h"

namespace buttress {
namespace {

constexpr double kFloat32 = sizeof(float);

// Of a GPU: the context and kernels of CUDA, workspaces of cuBLAS, buffers of NCCL.
constexpr double kCudaLibraries = 2.0 * (1 << 30);

// The sizes of the code that computes: optimizer.cc.
constexpr double kUpdateChunk = 1 << 22, kUpdateBytes = 80;

// The largest sum of `count` units in a row.
double LargestRun(const std::vector<double>& units, std::size_t count) {
  double largest = 0;
  for (std::size_t first = 0; first < units.size(); ++first) {
    const auto begin = units.begin() + static_cast<std::ptrdiff_t>(first);
    const std::size_t some = std::min(count, units.size() - first);
    largest =
        std::max(largest, std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(some), 0.0));
  }
  return largest;
}

// The units in the order of a pass, which multiplies with a tied table twice.
std::vector<double> TablesOf(const ModelConfig& model, std::vector<double> units) {
  if (model.tie_word_embeddings) units.back() += units.front();
  return units;
}

// "local.learner.micro_batch_tokens (16384)", and the other bound if it is set.
std::string BoundsOf(const LearnerConfig& learner) {
  std::string text =
      fmt::format("local.learner.micro_batch_tokens ({})", learner.micro_batch_tokens);
  if (learner.micro_batch_mib > 0)
    text += fmt::format(" or local.learner.micro_batch_mib ({})", learner.micro_batch_mib);
  return text;
}

}  // namespace

double MemoryPlan::state() const {
  return weights + gradients + masters + moments + reference + gathered + libraries;
}

double MemoryPlan::pass() const { return activations + std::max(block, head); }

double MemoryPlan::peak() const { return state() + std::max(pass(), update); }

MicroBatchShape FullMicroBatch(const RunConfig& config, const ModelConfig& model) {
  const SamplingConfig& sampling = config.run.sampling;
  const MicroBatchBound bound = BoundOf(config.run, config.local.learner, model);
  const std::int64_t T = MostBehindPrompt(config.run);
  const std::int64_t P = std::max<std::int64_t>(
      1, std::min(config.run.data.max_prompt_tokens, model.max_positions - T));
  MicroBatchShape shape;
  std::int64_t left = config.local.learner.micro_batch_tokens;
  // Adds `count` completions of so many tokens behind a prompt, if the bound holds with them.
  const auto add = [&](std::int64_t prompt, std::int64_t count, std::int64_t tokens) {
    const std::size_t sequences = shape.sequences.size();
    shape.AddGroup(prompt, std::vector<std::int64_t>(static_cast<std::size_t>(count), tokens),
                   count * tokens);
    if (bound.Holds(shape)) {
      left -= prompt + count * tokens;
      return true;
    }
    shape.sequences.resize(sequences);
    shape.scored -= count * tokens;
    return false;
  };
  std::int64_t groups = 0;
  for (std::int64_t count = sampling.group_size; groups < config.run.batch.prompts; ++groups) {
    count = std::min(count, (left - P) / T);
    while (count > 0 && !add(P, count, T)) --count;
    if (count <= 0) break;
  }
  if (groups == 0) {
    shape.AddGroup(P, std::vector<std::int64_t>{T}, T);
  } else if (groups < config.run.batch.prompts && left > 1) {
    const std::int64_t prompt = std::min(P, left - 1);
    add(prompt, 1, left - prompt);
  }
  return shape;
}

MicroBatchBound BoundOf(const RunSettings& run, const LearnerConfig& learner,
                        const ModelConfig& model) {
  if (learner.micro_batch_mib == 0) return {};
  return {[run, learner, model](const MicroBatchShape& shape) {
            return PassBytesOf(run, learner, model, shape);
          },
          static_cast<double>(learner.micro_batch_mib) * (1 << 20)};
}

MemoryPlan PlanLearnerMemory(const RunConfig& config, const ModelConfig& model,
                             const MicroBatchShape& shape, std::int64_t ranks, ZeroStage stage) {
  const bool floats = config.run.model.dtype == ModelDtype::kFloat32;
  const bool lora = config.run.lora.on();  // adapters are float32, and all that is trained
  const bool stochastic =
      !floats && !lora && config.run.optim.precision == OptimPrecision::kStochastic;
  const bool cuda = config.local.learner.device == ComputeDevice::kCuda;
  const std::vector<double> units = UnitSizes(model);
  const std::vector<double> trained = TrainedSizes(config.run.lora, model);
  const double largest = *std::ranges::max_element(trained);
  const auto part = [&](const std::vector<double>& sizes, bool divided) {
    const double all = std::accumulate(sizes.begin(), sizes.end(), 0.0);
    return divided ? all / static_cast<double>(ranks) : all;
  };
  const bool third = stage == ZeroStage::k3 && ranks > 1;
  const double value = floats ? 4 : 2;
  MemoryPlan plan;
  plan.weights = value * part(units, third) + (lora ? kFloat32 * part(trained, third) : 0);
  plan.gradients = kFloat32 * part(trained, true);
  plan.masters =
      floats || lora || stochastic ? 0 : kFloat32 * part(trained, stage != ZeroStage::k0);
  plan.moments = (stochastic ? 4 : 8) * part(trained, stage != ZeroStage::k0);
  const Offload offload = config.local.learner.offload;
  if (offload == Offload::kDisk || (offload == Offload::kHost && cuda))
    plan.masters = plan.moments = 0;
  const auto two_units = [&](const std::vector<double>& sizes) {
    return value * LargestRun(TablesOf(model, sizes), 2);
  };
  const bool stored = config.local.learner.reference == ReferencePlace::kDisk;
  if (lora && !config.run.lora.adapter.empty()) {
    plan.reference = kFloat32 * part(trained, false);
  } else if (!lora && config.run.algorithm.kl_coef > 0) {
    plan.reference = stored ? two_units(units) : value * part(units, third);
  }
  // Experts that stay divided are gathered to be published.
  const bool experts = third && config.local.learner.expert_parallel;
  plan.gathered = third ? two_units(experts ? UnitSizes(model, 0) : units) : 0;
  plan.update = stochastic && cuda ? std::min(kUpdateChunk, largest) * kUpdateBytes : 0;
  if (stage == ZeroStage::k0 && ranks > 1) plan.update += kFloat32 * largest;
  if (experts) plan.update = std::max(plan.update, value * LargestRun(units, 1));
  plan.libraries = cuda ? kCudaLibraries : 0;
  const PassBytes pass = PlanPass(config.run, config.local.learner, model, shape, ranks);
  plan.activations = pass.activations;
  plan.block = pass.block;
  plan.head = pass.head;
  return plan;
}

std::vector<std::pair<std::string, double>> PartsOf(const MemoryPlan& plan) {
  std::vector<std::pair<std::string, double>> parts = {{"weights", plan.weights},
                                                       {"gradients", plan.gradients},
                                                       {"masters", plan.masters},
                                                       {"moments", plan.moments},
                                                       {"reference", plan.reference},
                                                       {"gathered units", plan.gathered},
                                                       {"activations", plan.activations},
                                                       {"block", plan.block},
                                                       {"head", plan.head},
                                                       {"update", plan.update},
                                                       {"libraries", plan.libraries}};
  std::erase_if(parts, [](const auto& part) { return part.second == 0; });
  return parts;
}

std::string DescribePlan(const MemoryPlan& plan) {
  std::string text = SizeText(plan.peak()) + " at most:";
  for (const auto& [name, bytes] : PartsOf(plan))
    text += fmt::format(" {} {},", name, SizeText(bytes));
  text.pop_back();
  return text;
}

std::string AdviceFor(const MemoryPlan& plan, const RunConfig& config) {
  const LearnerConfig& learner = config.local.learner;
  const bool floats = config.run.model.dtype == ModelDtype::kFloat32;
  if (plan.peak() > 2 * plan.state()) {
    if (plan.head > plan.activations + plan.block) return "lower " + BoundsOf(learner);
    return fmt::format("lower {}{}", BoundsOf(learner),
                       learner.recompute == Recompute::kBlock
                           ? " or raise local.learner.context_parallel"
                           : " or set local.learner.recompute: block");
  }
  if (floats) return "set run.model.dtype: bfloat16";
  if (config.run.optim.precision != OptimPrecision::kStochastic)
    return "set run.optim.precision: stochastic";
  if (plan.reference > 0 && !config.run.lora.on() && learner.reference == ReferencePlace::kDevice)
    return "set local.learner.reference: disk";
  return "set local.learner.zero: auto with more ranks (local.launch.learner_ranks), or take a "
         "smaller model";
}

Result<ZeroStage> ChooseZeroStage(const RunConfig& config, const ModelConfig& model,
                                  std::int64_t ranks, double bytes) {
  const bool experts = config.local.learner.expert_parallel;
  if (experts) {
    const Status divide = CanDivideExperts(model, ranks);
    if (!divide.ok()) return divide.Annotate("local.learner.expert_parallel");
  }
  if (config.local.learner.zero != ZeroStage::kAuto) return config.local.learner.zero;
  const MicroBatchShape shape = FullMicroBatch(config, model);
  MemoryPlan plan;
  for (const ZeroStage stage : {ZeroStage::k0, ZeroStage::k1, ZeroStage::k2, ZeroStage::k3}) {
    if (ranks == 1 && stage != ZeroStage::k0) break;
    if (experts && ranks > 1 && stage != ZeroStage::k3) continue;
    plan = PlanLearnerMemory(config, model, shape, ranks, stage);
    if (plan.peak() <= bytes) return stage;
  }
  return InvalidArgument(fmt::format(
      "local.learner.zero: auto: no stage fits a job of {} ranks: a rank has {} and needs {}; {}",
      ranks, SizeText(bytes), DescribePlan(plan), AdviceFor(plan, config)));
}

}  // namespace buttress
