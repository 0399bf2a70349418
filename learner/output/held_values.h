// The values of a model and its optimizer that a rank holds, as a checkpoint stores them. Torch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "learner/optimizer/optimizer.h"
#include "lib/base/report/status.h"
#include "lib/policy/weights/parameter_unit.h"
#include "lib/weights/checkpoint_shards.h"

namespace buttress {

// Values of a trainable unit: all of them, or the part of this rank.
struct HeldValues {
  std::string kind;  // "weights", or one of the optimizer
  const ParameterUnit* unit = nullptr;
  std::size_t index = 0;  // of the unit in LayoutOf
  at::Tensor values;      // [size] or [size / ranks]

  bool whole() const { return values.numel() == unit->size(); }

  // Where the values of the same kind and unit begin that `rank` holds, and those that it writes.
  std::int64_t BeginOn(int rank) const { return whole() ? 0 : rank * values.numel(); }

  std::int64_t PartBeginOn(int rank) const { return rank * unit->part.numel(); }

  // What this rank writes, [size / ranks].
  at::Tensor part() const;
};

// The units must outlive the result. What is not trainable is that of the start model.
std::vector<HeldValues> HeldBy(const std::vector<ParameterUnit>& units, const AdamW& optimizer);

// The layout of the trainable units.
StoredLayout LayoutOf(const std::vector<ParameterUnit>& units);

// Fills `values`, which are like those of `held` and begin at `begin` of `unit`, from a checkpoint.
Status ReadValues(const StoredShards& shards, const HeldValues& held, const StoredUnit& unit,
                  std::int64_t begin, const at::Tensor& values);

}  // namespace buttress
