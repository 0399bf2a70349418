#include "lib/policy/weights/parameter_unit.h"

#include <c10/core/StorageImpl.h>
#include <c10/util/accumulate.h>
#include <torch/types.h>

#include <algorithm>

#include "lib/base/report/check.h"

namespace buttress {
namespace {

std::int64_t RoundUp(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

void ZeroPadding(const at::Tensor& flat, const std::vector<std::vector<std::int64_t>>& shapes,
                 const FlatLayout& layout) {
  std::int64_t matrices_end = 0, vectors_end = layout.decayed;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    std::int64_t& end = shapes[i].size() >= 2 ? matrices_end : vectors_end;
    end = std::max(end, layout.offsets[i] + c10::multiply_integers(shapes[i]));
  }
  flat.narrow(0, matrices_end, layout.decayed - matrices_end).zero_();
  flat.narrow(0, vectors_end, layout.size - vectors_end).zero_();
}

}  // namespace

FlatLayout LayOutUnit(const std::vector<std::vector<std::int64_t>>& shapes, int ranks) {
  FlatLayout layout;
  layout.offsets.resize(shapes.size());
  const auto place = [&](bool matrices) {
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      if ((shapes[i].size() >= 2) != matrices) continue;
      layout.offsets[i] = layout.size;
      layout.size += c10::multiply_integers(shapes[i]);
    }
  };
  place(true);
  layout.decayed = layout.size = RoundUp(layout.size, kUnitAlignment);
  place(false);
  layout.size = RoundUp(layout.size, kUnitAlignment * ranks);
  return layout;
}

at::Tensor EmptyUnit(const std::vector<std::vector<std::int64_t>>& shapes, int ranks,
                     const at::TensorOptions& options, std::span<at::Tensor> tensors) {
  const FlatLayout layout = LayOutUnit(shapes, ranks);
  const at::Tensor flat = at::empty({layout.size}, options);
  ZeroPadding(flat, shapes, layout);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    tensors[i] = flat.narrow(0, layout.offsets[i], c10::multiply_integers(shapes[i]))
                     .view(shapes[i])
                     .detach();
  }
  return flat;
}

ParameterUnit DescribeUnit(std::string name, NamedTensors parameters, const at::Tensor& flat,
                           const UnitShare& share) {
  ParameterUnit unit;
  unit.name = std::move(name);
  unit.parameters = std::move(parameters);
  unit.flat = flat;
  unit.decayed = unit.size();
  for (const auto& [parameter_name, parameter] : unit.parameters) {
    const std::int64_t offset = parameter.storage_offset() - flat.storage_offset();
    unit.offsets.push_back(offset);
    if (parameter.dim() < 2) unit.decayed = std::min(unit.decayed, offset);
  }
  const std::int64_t part = unit.size() / share.ranks;
  BUTTRESS_CHECK(part * share.ranks == unit.size(), "a unit is padded for its ranks");
  unit.part_begin = share.rank * part;
  if (share.stored) return unit;
  unit.part =
      share.weights ? at::empty({part}, flat.options()) : flat.narrow(0, unit.part_begin, part);
  return unit;
}

ParameterUnit PackUnit(std::string name, const NamedTensors& parameters, const UnitShare& share) {
  std::vector<std::vector<std::int64_t>> shapes;
  for (const auto& [parameter_name, values] : parameters) shapes.push_back(values.sizes().vec());
  std::vector<at::Tensor> tensors(shapes.size());
  const at::Tensor flat = EmptyUnit(
      shapes, share.ranks, parameters.front().second.options().requires_grad(false), tensors);
  NamedTensors packed;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    tensors[i].copy_(parameters[i].second.detach());
    packed.emplace_back(parameters[i].first, tensors[i].requires_grad_(true));
  }
  return DescribeUnit(std::move(name), std::move(packed), flat, share);
}

std::vector<ParameterPiece> PiecesOf(const ParameterUnit& unit, const at::Tensor& values,
                                     std::int64_t begin) {
  std::vector<ParameterPiece> pieces;
  const std::int64_t end = begin + values.numel();
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    const std::int64_t offset = unit.offsets[i];
    const std::int64_t from = std::max(begin, offset);
    const std::int64_t to = std::min(end, offset + unit.parameters[i].second.numel());
    if (from < to) pieces.push_back({i, from - offset, values.narrow(0, from - begin, to - from)});
  }
  return pieces;
}

std::vector<at::Tensor> ViewsOf(const ParameterUnit& unit, const at::Tensor& buffer) {
  std::vector<at::Tensor> views;
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    const at::Tensor& parameter = unit.parameters[i].second;
    views.push_back(buffer.narrow(0, unit.offsets[i], parameter.numel()).view(parameter.sizes()));
  }
  return views;
}

void ReleaseMemory(const at::Tensor& flat) {
  c10::StorageImpl* const storage = flat.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(storage->allocator()->allocate(0));
  storage->set_nbytes(0);
}

void TakeMemory(const at::Tensor& flat) {
  c10::StorageImpl* const storage = flat.storage().unsafeGetStorageImpl();
  const std::size_t bytes =
      static_cast<std::size_t>(flat.storage_offset() + flat.numel()) * flat.element_size();
  storage->set_data_ptr_noswap(storage->allocator()->allocate(bytes));
  storage->set_nbytes(bytes);
}

}  // namespace buttress
