#include "learner/optimizer/optimizer.h"

#include <ATen/Parallel.h>
#include <c10/util/StringUtil.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <torch/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numbers>
#include <utility>

#include "lib/base/os/file.h"
#include "lib/base/report/check.h"
#include "lib/base/text/random.h"
#include "lib/collectives/cuda_library.h"
#include "lib/policy/exception_status.h"

namespace buttress {
namespace {

constexpr std::int64_t kGrain = 32768;

// Returns zeros in a mapped file that has no name, so that it ends with the process.
at::Tensor ZerosOnDisk(const std::string& folder, std::int64_t count,
                       const at::TensorOptions& options) {
  const std::size_t bytes =
      std::max<std::size_t>(1, static_cast<std::size_t>(count) * options.dtype().itemsize());
  const auto fail = [&](const char* what) {
    throw StatusError(Unavailable(c10::str("optimizer state in ", folder, ": ", what, " ", bytes,
                                           " bytes: ", std::strerror(errno),
                                           "; free space there, or set local.learner.offload")));
  };
  const Status made = MakeFolders(folder);
  if (!made.ok()) throw StatusError(made);
  std::string path = JoinPath(folder, "optimizer-XXXXXX");
  const int file = ::mkostemp(path.data(), O_CLOEXEC);
  if (file < 0) fail("cannot make a file of");
  ::unlink(path.c_str());
  const int error = ::posix_fallocate(file, 0, static_cast<off_t>(bytes));
  void* const memory =
      error != 0 ? MAP_FAILED : ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (error != 0) errno = error;
  const int kept = errno;
  ::close(file);
  errno = kept;
  if (memory == MAP_FAILED) fail("cannot map a file of");
  return at::from_blob(
      memory, {count}, [bytes](void* data) { ::munmap(data, bytes); }, options);
}

void UpdateOnDevice(const AdamWRange& range, at::Device device) {
  const auto cuda = OpenCudaLibrary("the optimizer", "local.learner.device: cpu");
  const Status status = cuda.ok() ? (*cuda)->StochasticAdamW(range, device.index()) : cuda.status();
  if (!status.ok()) throw StatusError(status);
}

}  // namespace

AdamW::AdamW(const std::vector<ParameterUnit>& units, const OptimConfig& optim, std::uint64_t seed,
             AdamWOptions options)
    : units_(units),
      optim_(optim),
      options_(std::move(options)),
      seed_(seed),
      stochastic_(optim.precision == OptimPrecision::kStochastic) {
  std::size_t first_parameter = 0;
  for (const ParameterUnit& unit : units_) {
    AddUnit(unit, first_parameter);
    first_parameter += unit.parameters.size();
  }
}

// Returns zeros for the state of `values`, in the memory that the options name.
bool AdamW::IsStochastic(const at::Tensor& values) const {
  return stochastic_ && values.scalar_type() == at::kBFloat16;
}

at::Tensor AdamW::ZeroState(const at::Tensor& values) const {
  const auto options = values.options().dtype(IsStochastic(values) ? at::kBFloat16 : at::kFloat);
  if (options_.offload == Offload::kNone) return at::zeros({values.numel()}, options);
  if (options_.offload == Offload::kDisk)
    return ZerosOnDisk(options_.folder, values.numel(), options.device(at::kCPU));
  return at::zeros({values.numel()}, options.device(at::kCPU).pinned_memory(!values.is_cpu()));
}

void AdamW::AddUnit(const ParameterUnit& unit, std::size_t first_parameter) {
  UnitState& state = states_.emplace_back();
  if (!unit.trainable) return;
  state.first_parameter = first_parameter;
  state.begin = of_parts() ? unit.part_begin : 0;
  state.values = of_parts() ? unit.part : unit.flat;
  state.first = ZeroState(state.values);
  state.second = ZeroState(state.values);
  state_.emplace_back("first." + unit.name, state.first);
  state_.emplace_back("second." + unit.name, state.second);
  if (IsStochastic(state.values) || state.values.scalar_type() == at::kFloat) return;
  state.master = ZeroState(state.values).copy_(state.values);
  state_.emplace_back("master." + unit.name, state.master);
}

void AdamW::Update(std::size_t unit, const at::Tensor& gradient, double learning_rate) {
  const at::NoGradGuard no_grad;
  const UnitState& state = states_[unit];
  BUTTRESS_CHECK(gradient.numel() == state.values.numel(), "one gradient for each value");
  const at::Device device = state.first.device();
  UnitState here = state;
  if (state.master.defined()) {
    here.values = state.master;
  } else {
    here.values = state.values.to(device);
  }
  UpdateHere(units_[unit], here, gradient.to(device), learning_rate);
  if (!here.values.is_same(state.values)) state.values.copy_(here.values);
}

// Updates `state.values`, which are where the state is.
void AdamW::UpdateHere(const ParameterUnit& unit, const UnitState& state,
                       const at::Tensor& gradient, double learning_rate) const {
  if (IsStochastic(state.values)) return UpdateStochastic(unit, state, gradient, learning_rate);
  const std::int64_t n = state.values.numel();
  const std::int64_t decayed = std::clamp<std::int64_t>(unit.decayed - state.begin, 0, n);
  UpdateFloat32(state, gradient, 0, decayed, optim_.weight_decay, learning_rate);
  UpdateFloat32(state, gradient, decayed, n, 0, learning_rate);
}

// The fused kernel of LibTorch on the values [begin, end).
void AdamW::UpdateFloat32(const UnitState& unit, const at::Tensor& gradient, std::int64_t begin,
                          std::int64_t end, double decay, double learning_rate) const {
  if (begin == end) return;
  const auto range = [&](const at::Tensor& x) { return x.narrow(0, begin, end - begin); };
  // float32, as the kernel requires; exact up to 2^24.
  const at::Tensor step = at::full({}, static_cast<double>(steps_), unit.values.options());
  at::_fused_adamw_({range(unit.values)}, {range(gradient)}, {range(unit.first)},
                    {range(unit.second)}, {}, {step}, learning_rate, optim_.beta1, optim_.beta2,
                    decay, optim_.eps, /*amsgrad=*/false, /*maximize=*/false);
}

void AdamW::UpdateStochastic(const ParameterUnit& unit, const UnitState& state,
                             const at::Tensor& gradient, double learning_rate) const {
  const auto t = static_cast<double>(steps_);
  AdamWFactors factors;
  factors.step_size = static_cast<float>(learning_rate / (1 - std::pow(optim_.beta1, t)));
  factors.beta1 = static_cast<float>(optim_.beta1);
  factors.beta2 = static_cast<float>(optim_.beta2);
  factors.root_scale = static_cast<float>(1 / std::sqrt(1 - std::pow(optim_.beta2, t)));
  factors.eps = static_cast<float>(optim_.eps);
  for (const ParameterPiece& piece : PiecesOf(unit, state.values, state.begin)) {
    const std::int64_t from = piece.values.storage_offset() - state.values.storage_offset();
    const auto range = [&](const at::Tensor& x) { return x.narrow(0, from, piece.values.numel()); };
    const bool matrix = unit.parameters[piece.index].second.dim() >= 2;
    factors.keep = static_cast<float>(1 - learning_rate * (matrix ? optim_.weight_decay : 0.0));
    StochasticAdamWStep(
        {range(gradient), piece.values, range(state.first), range(state.second)}, factors,
        RoundingKeyOf(seed_, steps_,
                      static_cast<std::int64_t>(state.first_parameter + piece.index)),
        piece.begin);
  }
}

double LearningRate(const OptimConfig& options, double steps, std::int64_t total_steps) {
  const auto warmup = static_cast<double>(options.warmup_steps);
  if (steps < warmup) return options.lr * steps / warmup;
  if (options.schedule == LrSchedule::kConstant) return options.lr;
  const double falling_steps = std::max(1.0, static_cast<double>(total_steps) - warmup);
  const double done = std::clamp((steps - warmup) / falling_steps, 0.0, 1.0);
  const double left = options.schedule == LrSchedule::kLinear
                          ? 1 - done
                          : (1 + std::cos(std::numbers::pi * done)) / 2;
  return options.lr * (options.min_lr_ratio + (1 - options.min_lr_ratio) * left);
}

RoundingKey RoundingKeyOf(std::uint64_t seed, std::int64_t step, std::int64_t parameter) {
  const std::uint64_t update =
      MixSeed(MixSeed(seed, HashText("stochastic rounding")), static_cast<std::uint64_t>(step));
  const std::uint64_t key = MixSeed(update, static_cast<std::uint64_t>(parameter));
  return {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
}

void StochasticAdamWStep(const StochasticAdamWTensors& t, const AdamWFactors& factors,
                         RoundingKey key, std::int64_t index) {
  for (const at::Tensor* tensor : {&t.gradient, &t.parameter, &t.first, &t.second})
    BUTTRESS_CHECK(tensor->is_contiguous(), "AdamW updates contiguous tensors");
  const auto bits = [](const at::Tensor& x) {
    return static_cast<std::uint16_t*>(x.mutable_data_ptr());
  };
  const AdamWRange all = {t.gradient.const_data_ptr<float>(),
                          bits(t.parameter),
                          bits(t.first),
                          bits(t.second),
                          t.parameter.numel(),
                          static_cast<std::uint64_t>(index),
                          factors,
                          key};
  if (!t.parameter.is_cpu()) return UpdateOnDevice(all, t.parameter.device());
  at::parallel_for(0, all.count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    StochasticAdamWOnCpu({all.gradient + begin, all.parameter + begin, all.first + begin,
                          all.second + begin, end - begin,
                          all.index + static_cast<std::uint64_t>(begin), factors, key});
  });
}

}  // namespace buttress
