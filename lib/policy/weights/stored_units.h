// The units of a model that is not held in memory: each is read from the files for as long as a
// pass needs it. Torch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <future>
#include <optional>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/policy/transformer.h"
#include "lib/policy/weights/parameters.h"

namespace buttress {

// Reads the units of UnitShare::stored, each process for itself. Besides the units that are held,
// one is in memory at most, which a thread reads ahead. To a GPU they go through pinned memory, on
// its stream. Not thread-safe.
class StoredUnits final : public UnitGatherer {
 public:
  // `values` are those of the units' parameters in the same order. `units` must outlive the object.
  StoredUnits(const std::vector<ParameterUnit>& units, StoredParameters values);
  ~StoredUnits() override;

  void Gather(std::size_t unit) override;
  void Release(std::size_t unit) override;

  // Another unit that was read ahead, and that nobody has gathered, is dropped.
  void Prefetch(std::size_t unit) override;

 private:
  struct Ahead {
    std::size_t unit = 0;
    at::Tensor host;  // ParameterUnit::flat, or pinned memory of its shape
    std::future<Status> read;
  };

  Status Read(std::size_t unit, const at::Tensor& host) const;
  void Drop();

  const std::vector<ParameterUnit>& units_;
  const StoredParameters values_;
  std::vector<std::size_t> first_;  // by unit, its first parameter
  std::vector<int> holds_;
  std::optional<Ahead> ahead_;
};

}  // namespace buttress
