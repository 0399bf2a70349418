// Measures training steps of a model with random weights: forward, backward, clipping and AdamW on
// packed sequences of random tokens, of which all but the first are trained. Prints one JSON
// object. bench/train/run.py runs it.
#include <ATen/DeviceAccelerator.h>
#include <torch/types.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "learner/optimizer/optimizer.h"
#include "learner/step/grad_reducer.h"
#include "learner/step/micro_batch.h"
#include "learner/step/shards.h"
#include "lib/base/os/clock.h"
#include "lib/base/text/random.h"
#include "lib/checks/memory_checks.h"
#include "lib/collectives/cuda_library.h"
#include "lib/config/choice_option.h"
#include "lib/policy/transformer.h"

namespace buttress {
namespace {

constexpr std::chrono::seconds kTimeout{60};
constexpr double kClip = 1.0;

struct Flags {
  std::string model;
  ModelDtype dtype = ModelDtype::kBfloat16;
  OptimConfig optim;
  ComputeDevice device = ComputeDevice::kCpu;
  std::int64_t gpu = -1;
  std::int64_t threads = 1;
  std::int64_t sequences = 16;
  std::int64_t length = 1024;
  std::int64_t steps = 5;
  std::int64_t chunk_rows = 1024;
};

// Waits for the work that was given to the GPU.
void Settle(ModelDevice device) {
  if (device.cuda) at::accelerator::synchronizeDevice(static_cast<at::DeviceIndex>(device.index));
}

// Multiplications and additions of one training step per token: 6 for each element of a matrix that
// multiplies it, which top_k experts of a block do, and 12 for each pair of positions, head and
// channel of the attention, of which a token has (T + 1) / 2 on average. (The forward pass has a
// third of each.)
double FlopsPerToken(const Transformer& model, std::int64_t length) {
  double flops = 0;
  for (const auto& [name, tensor] : model.parameters()) {
    const bool looked_up =
        name.find("embed_tokens") != std::string::npos && !model.config().tie_word_embeddings;
    const bool expert = name.find(".experts.") != std::string::npos;
    if (tensor.dim() == 2 && !looked_up && !expert)
      flops += 6.0 * static_cast<double>(tensor.numel());
  }
  for (const BlockSpec& block : model.config().blocks) {
    flops += 6.0 * static_cast<double>(block.experts.top_k * 3 * block.F * block.D);
    flops += 12.0 * static_cast<double>(block.attention.q_width()) *
             (static_cast<double>(length) + 1) / 2;
  }
  return flops;
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

// A line of /proc/self/status in bytes: "VmRSS:", "VmHWM:".
double ProcessBytes(const char* line_name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(line_name)) return std::stod(line.substr(6)) * 1024;
  }
  return 0;
}

// On a GPU the most bytes of tensors, else the most resident bytes of the process.
double PeakBytes(ModelDevice device) {
  if (device.cuda) {
    const auto stats = at::accelerator::getDeviceStats(static_cast<at::DeviceIndex>(device.index));
    return static_cast<double>(stats.allocated_bytes[0].peak);
  }
  return ProcessBytes("VmHWM:");
}

// What `buttress doctor` says of a rank with these micro-batches.
MemoryNeed PlannedMemory(const Flags& flags, const Transformer& model, std::int64_t tokens) {
  RunConfig config;
  config.run.model.dtype = flags.dtype;
  config.run.optim = flags.optim;
  config.run.sampling.max_tokens = flags.length;
  config.local.learner.micro_batch_tokens = tokens;
  config.local.learner.logprob_chunk_tokens = flags.chunk_rows;
  ModelFacts facts;
  facts.config = model.config();
  for (const auto& [name, tensor] : model.parameters()) facts.parameters += tensor.numel();
  return LearnerMemory(config, facts);
}

class Bench {
 public:
  Bench(const Flags& flags, ModelDevice device, Transformer& model)
      : flags_(flags),
        device_(device),
        model_(model),
        alone_(MakeLocalCollective()),
        reducer_(model.units(), *alone_, kTimeout),
        optimizer_(model.units(), flags.optim, 1) {
    RandomStream random({1, 0});
    const auto vocabulary = static_cast<double>(model.config().vocab_size);
    for (std::int64_t i = 0; i < flags.sequences; ++i) {
      // Another first token for each, because sequences with the same prompt share its rows.
      std::vector<std::int32_t> tokens{static_cast<std::int32_t>(i % model.config().vocab_size)};
      for (std::int64_t t = 0; t < flags.length; ++t)
        tokens.push_back(static_cast<std::int32_t>(random.Uniform() * vocabulary));
      const std::span<const std::int32_t> all(tokens);
      batch_.Add(all.first(1), all.subspan(1), {});
    }
  }

  // Returns the seconds of one step.
  Result<double> Step() {
    Settle(device_);
    const double begin = MonotonicSeconds();
    reducer_.Clear();
    ModelPass pass = batch_.Run(model_, {1.0, flags_.chunk_rows, EntropyMode::kNone});
    const at::Tensor loss = pass.output().logprobs_M.mean().neg();
    pass.Backward(pass.GradientOf(loss), reducer_);
    BUTTRESS_RETURN_IF_ERROR(reducer_.Reduce());
    const double norm = std::sqrt(reducer_.SquaredNorm());
    if (norm > kClip) reducer_.Scale(kClip / norm);
    BUTTRESS_RETURN_IF_ERROR(
        UpdateModel(model_, reducer_, optimizer_, flags_.optim.lr, *alone_, kTimeout));
    loss_ = loss.item<double>();
    Settle(device_);
    return MonotonicSeconds() - begin;
  }

  double loss() const { return loss_; }

  std::int64_t tokens() const { return batch_.input_tokens(); }

 private:
  const Flags& flags_;
  const ModelDevice device_;
  Transformer& model_;
  const std::unique_ptr<Collective> alone_;
  GradReducer reducer_;
  AdamW optimizer_;
  TokenBatch batch_;
  double loss_ = 0;
};

Status Run(const Flags& flags) {
  ModelDevice device{.cuda = flags.device == ComputeDevice::kCuda, .index = 0};
  if (device.cuda) {
    BUTTRESS_ASSIGN_OR_RETURN(device.index, OpenGpu(flags.gpu, "bench_train", "--device cpu"));
  }
  at::set_num_threads(static_cast<int>(flags.threads));
  const double base = device.cuda ? 0 : ProcessBytes("VmRSS:");
  BUTTRESS_ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(flags.model));
  BUTTRESS_ASSIGN_OR_RETURN(const auto model, Transformer::Random(config, flags.dtype, device, 1));
  Bench bench(flags, device, *model);
  std::vector<double> seconds;
  BUTTRESS_RETURN_IF_ERROR(bench.Step().status());  // allocates
  const double first_loss = bench.loss();
  for (std::int64_t step = 0; step < flags.steps; ++step) {
    BUTTRESS_ASSIGN_OR_RETURN(const double one, bench.Step());
    seconds.push_back(one);
  }
  std::ranges::sort(seconds);
  const double median = seconds[seconds.size() / 2];
  const double rate = static_cast<double>(bench.tokens()) / median;
  const double flops = FlopsPerToken(*model, flags.length);
  const double peak = PeakBytes(device);
  const MemoryNeed plan = PlannedMemory(flags, *model, bench.tokens());
  const double product =
      MatrixProductRate(model->parameters().front().second.scalar_type(), device);
  const nlohmann::ordered_json row = {{"tokens", bench.tokens()},
                                      {"seconds", median},
                                      {"tokens_per_second", rate},
                                      {"flops_per_token", flops},
                                      {"flops", rate * flops},
                                      {"product_flops", product},
                                      {"share", rate * flops / product},
                                      {"peak_bytes", peak},
                                      {"base_bytes", base},
                                      {"planned_state", plan.state},
                                      {"planned_passes", plan.passes},
                                      {"first_loss", first_loss},
                                      {"last_loss", bench.loss()}};
  std::printf("%s\n", row.dump().c_str());
  return OkStatus();
}

void AddFlags(CLI::App& app, Flags& flags) {
  app.add_option("model", flags.model, "folder with a config.json")->required();
  AddChoice(app, "--dtype", flags.dtype, "parameters and activations");
  AddChoice(app, "--precision", flags.optim.precision, "of the optimizer");
  AddChoice(app, "--device", flags.device, "where the model is trained");
  app.add_option("--gpu", flags.gpu, "GPU of cuda, counted from 0; default: the first");
  app.add_option("--threads", flags.threads, "torch threads")->check(CLI::PositiveNumber);
  app.add_option("--sequences", flags.sequences, "packed sequences")->check(CLI::PositiveNumber);
  app.add_option("--length", flags.length, "tokens of each")->check(CLI::PositiveNumber);
  app.add_option("--steps", flags.steps, "measured steps")->check(CLI::PositiveNumber);
  app.add_option("--chunk-rows", flags.chunk_rows, "rows of logits held at once")
      ->check(CLI::PositiveNumber);
}

}  // namespace
}  // namespace buttress

int main(int argc, char** argv) {
  buttress::Flags flags;
  CLI::App app("Measures training steps of a model with random weights");
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
