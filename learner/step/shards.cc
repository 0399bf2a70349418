#include "learner/step/shards.h"

#include <torch/types.h>

#include <utility>

#include "lib/base/report/check.h"
#include "lib/policy/exception_status.h"

namespace buttress {
namespace {

// Begins to fill `whole` with the parts of all ranks.
std::unique_ptr<Work> BeginGather(const at::Tensor& part, const at::Tensor& whole,
                                  Collective& collective) {
  return collective.AllGather(BufferOf(part), BufferOf(whole));
}

Status UpdateReplica(const Transformer& model, const GradReducer& reducer, AdamW& optimizer,
                     double learning_rate, Collective& collective,
                     std::chrono::milliseconds timeout) {
  for (std::size_t u = 0; u < model.units().size(); ++u) {
    if (!model.units()[u].trainable) continue;
    at::Tensor gradient = reducer.part(u);
    if (collective.size() > 1) {
      const at::Tensor part =
          std::exchange(gradient, at::empty({model.units()[u].size()}, gradient.options()));
      BUTTRESS_RETURN_IF_ERROR(BeginGather(part, gradient, collective)->Join(timeout));
    }
    optimizer.Update(u, gradient, learning_rate);
  }
  return OkStatus();
}

}  // namespace

UnitShare ShareOf(const Collective& collective, ZeroStage stage, bool expert_parallel) {
  BUTTRESS_CHECK(stage != ZeroStage::kAuto, "the stage is chosen before the model is loaded");
  const bool divided = stage == ZeroStage::k3 && collective.size() > 1;
  return {collective.rank(), collective.size(), divided, divided && expert_parallel};
}

ShardedUnits::ShardedUnits(const std::vector<ParameterUnit>& units, Collective& collective,
                           std::chrono::milliseconds timeout)
    : units_(units), collective_(collective), timeout_(timeout), entries_(units.size()) {}

void ShardedUnits::Prefetch(std::size_t unit) {
  Entry& entry = entries_[unit];
  if (entry.has_memory) return;
  TakeMemory(units_[unit].flat);
  entry.has_memory = true;
  entry.work = BeginGather(units_[unit].part, units_[unit].flat, collective_);
}

void ShardedUnits::Gather(std::size_t unit) {
  Prefetch(unit);
  Entry& entry = entries_[unit];
  ++entry.holds;
  if (entry.work == nullptr) return;
  const Status status = std::exchange(entry.work, nullptr)->Join(timeout_);
  if (!status.ok()) throw StatusError(status.Annotate("weights of " + units_[unit].name));
}

void ShardedUnits::Release(std::size_t unit) {
  Entry& entry = entries_[unit];
  if (--entry.holds > 0) return;
  ReleaseMemory(units_[unit].flat);
  entry.has_memory = false;
}

void ShardedUnits::Exchange(const at::Tensor& in, const std::vector<std::int64_t>& sent,
                            const at::Tensor& out, const std::vector<std::int64_t>& received) {
  const auto values = [](const at::Tensor& rows, std::vector<std::int64_t> counts) {
    const std::int64_t width = rows.dim() > 1 ? rows.size(1) : 1;
    for (std::int64_t& count : counts) count *= width;
    return counts;
  };
  const Status status =
      collective_.AllToAll(BufferOf(in), values(in, sent), BufferOf(out), values(out, received))
          ->Join(timeout_);
  if (!status.ok()) throw StatusError(status.Annotate("rows of experts"));
}

std::unique_ptr<ShardedUnits> ShardModel(Transformer& model, Collective& collective,
                                         std::chrono::milliseconds timeout) {
  if (!model.share().weights) return nullptr;
  auto units = std::make_unique<ShardedUnits>(model.units(), collective, timeout);
  model.GatherBy(units.get());
  if (model.share().experts) model.ExchangeBy(units.get());
  return units;
}

Status UpdateModel(const Transformer& model, const GradReducer& reducer, AdamW& optimizer,
                   double learning_rate, Collective& collective,
                   std::chrono::milliseconds timeout) {
  const at::NoGradGuard no_grad;
  optimizer.BeginStep();
  if (!optimizer.of_parts())
    return UpdateReplica(model, reducer, optimizer, learning_rate, collective, timeout);
  std::vector<std::unique_ptr<Work>> works;
  for (std::size_t u = 0; u < model.units().size(); ++u) {
    const ParameterUnit& unit = model.units()[u];
    if (!unit.trainable) continue;
    optimizer.Update(u, reducer.part(u), learning_rate);
    if (collective.size() == 1 || model.share().weights) continue;
    works.push_back(BeginGather(unit.part, unit.flat, collective));
  }
  for (const auto& work : works)
    BUTTRESS_RETURN_IF_ERROR(work->Join(timeout).Annotate("parts of the new weights"));
  return OkStatus();
}

}  // namespace buttress
