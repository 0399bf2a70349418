#include "learner/output/held_values.h"

#include <torch/types.h>

#include <map>
#include <span>
#include <utility>

#include "lib/policy/transformer.h"

namespace buttress {

at::Tensor HeldValues::part() const {
  return whole() ? values.narrow(0, unit->part_begin, unit->part.numel()) : values;
}

std::vector<HeldValues> HeldBy(const std::vector<ParameterUnit>& units, const AdamW& optimizer) {
  std::vector<HeldValues> held;
  std::map<std::string, HeldValues> by_name;
  for (const ParameterUnit& unit : units) {
    if (!unit.trainable) continue;
    const bool whole = unit.part.is_alias_of(unit.flat);
    held.push_back({"weights", &unit, held.size(), whole ? unit.flat : unit.part});
    by_name[unit.name] = held.back();
  }
  for (const auto& [name, tensor] : optimizer.state()) {
    const std::size_t dot = name.find('.');
    const HeldValues& weights = by_name.at(name.substr(dot + 1));
    held.push_back({name.substr(0, dot), weights.unit, weights.index, tensor});
  }
  return held;
}

StoredLayout LayoutOf(const std::vector<ParameterUnit>& units) {
  StoredLayout layout;
  for (const ParameterUnit& unit : units) {
    if (!unit.trainable) continue;
    StoredUnit stored{unit.name, unit.size(), {}};
    for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
      const auto& [name, tensor] = unit.parameters[i];
      stored.parameters.push_back({name, tensor.sizes().vec(), unit.offsets[i]});
    }
    layout.push_back(std::move(stored));
  }
  return layout;
}

Status ReadValues(const StoredShards& shards, const HeldValues& held, const StoredUnit& unit,
                  std::int64_t begin, const at::Tensor& values) {
  const at::NoGradGuard no_grad;
  const at::Tensor target = values.detach();
  const at::Tensor host =
      target.is_cpu() ? target : at::zeros(target.sizes(), target.options().device(at::kCPU));
  const std::span<char> bytes(static_cast<char*>(host.data_ptr()), host.nbytes());
  BUTTRESS_RETURN_IF_ERROR(shards.Read(held.kind, unit, begin, SafetensorsDtype(host), bytes));
  if (!target.is_cpu()) target.copy_(host);
  return OkStatus();
}

}  // namespace buttress
