#include "learner/step/grad_reducer.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "learner/step/squared_norm.h"
#include "lib/base/os/memory.h"
#include "lib/base/report/check.h"
#include "lib/policy/exception_status.h"

namespace buttress {
namespace {

// Units whose sums may be on their way at a time, besides the one that is computed.
constexpr std::size_t kMostPending = 2;

DType DTypeOf(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return DType::kFloat32;
    case at::kDouble:
      return DType::kFloat64;
    case at::kBFloat16:
      return DType::kBFloat16;
    case at::kInt:
      return DType::kInt32;
    case at::kLong:
      return DType::kInt64;
    default:
      break;
  }
  BUTTRESS_CHECK(false, "collectives do not sum tensors of this dtype");
  return DType::kUInt8;
}

}  // namespace

Buffer BufferOf(const at::Tensor& tensor) {
  BUTTRESS_CHECK(tensor.is_contiguous(), "the buffer of a collective must be contiguous");
  return {tensor.data_ptr(), tensor.numel(), DTypeOf(tensor.scalar_type()),
          tensor.is_cpu() ? DeviceKind::kCpu : DeviceKind::kDevice};
}

GradReducer::GradReducer(const std::vector<ParameterUnit>& units, Collective& collective,
                         std::chrono::milliseconds timeout)
    : units_(units),
      collective_(collective),
      timeout_(timeout),
      views_(units.size()),
      whole_(units.size()),
      parts_(units.size()) {
  for (const ParameterUnit& unit : units_)
    BUTTRESS_CHECK(unit.part.numel() * collective.size() == unit.size(),
                   "the units are divided among the ranks");
}

void GradReducer::Clear() {
  pending_.clear();
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    views_[unit].clear();
    whole_[unit] = parts_[unit] = at::Tensor();
  }
  bytes_ = 0;
}

void GradReducer::Allocate(std::size_t unit) {
  if (units_[unit].stays_divided) return AllocatePart(unit);
  if (whole_[unit].defined()) return;
  ReturnFreedMemory();  // of activations, which a buffer is too large to reuse
  const at::Tensor& flat = units_[unit].flat;
  whole_[unit] = at::zeros({flat.numel()}, flat.options().dtype(at::kFloat).requires_grad(false));
  views_[unit] = ViewsOf(units_[unit], whole_[unit]);
}

void GradReducer::AllocatePart(std::size_t index) {
  at::Tensor& part = parts_[index];
  if (part.defined()) return;
  const ParameterUnit& unit = units_[index];
  part = at::zeros_like(unit.part, unit.part.options().dtype(at::kFloat));
  views_[index].resize(unit.parameters.size());
  for (const ParameterPiece& piece : PiecesOf(unit, part, unit.part_begin)) {
    const at::IntArrayRef shape = unit.parameters[piece.index].second.sizes();
    views_[index][piece.index] = piece.values.view(shape);
  }
}

at::Tensor& GradReducer::Of(std::size_t unit, std::size_t index) {
  Allocate(unit);
  return views_[unit][index];
}

void GradReducer::Add(std::size_t unit, std::size_t index, const at::Tensor& gradient) {
  if (units_[unit].trainable) Of(unit, index).add_(gradient);
}

void GradReducer::AddRows(std::size_t unit, std::size_t index, std::int64_t first,
                          const at::Tensor& gradient) {
  if (units_[unit].trainable) Of(unit, index).narrow(0, first, gradient.size(0)).add_(gradient);
}

void GradReducer::AddRowsAt(std::size_t unit, std::size_t index, const at::Tensor& rows_U,
                            const at::Tensor& gradient_UD) {
  if (units_[unit].trainable) Of(unit, index).index_add_(0, rows_U, gradient_UD);
}

// One rank keeps its buffer for the next round; several begin the sum of their buffers.
void GradReducer::Done(std::size_t unit) {
  if (!units_[unit].trainable) return;
  Allocate(unit);
  if (units_[unit].stays_divided) return;
  if (collective_.size() == 1) {
    parts_[unit] = whole_[unit];
    return;
  }
  Pending next;
  next.unit = unit;
  next.whole = std::exchange(whole_[unit], at::Tensor());
  views_[unit].clear();
  next.sum = at::empty_like(units_[unit].part, next.whole.options());
  next.work = collective_.ReduceScatterSum(BufferOf(next.whole), BufferOf(next.sum));
  bytes_ += static_cast<std::int64_t>(next.whole.nbytes());
  pending_.push_back(std::move(next));
  if (pending_.size() > kMostPending) TakeSum();
}

void GradReducer::TakeSum() {
  Pending first = std::move(pending_.front());
  pending_.pop_front();
  const Status status = first.work->Join(timeout_);
  if (!status.ok()) throw StatusError(status.Annotate("sum of gradients"));
  at::Tensor& part = parts_[first.unit];
  if (part.defined()) {
    part.add_(first.sum);
  } else {
    part = first.sum;
  }
}

void GradReducer::SkipRound() {
  for (std::size_t unit = units_.size(); unit-- > 0;) Done(unit);
}

Status GradReducer::Reduce() {
  try {
    while (!pending_.empty()) TakeSum();
  } catch (const StatusError& error) {
    return error.status();
  }
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    const at::Tensor& part = units_[unit].part;
    if (units_[unit].trainable && !parts_[unit].defined())
      parts_[unit] = at::zeros_like(part, part.options().dtype(at::kFloat));
  }
  return OkStatus();
}

NamedTensors GradReducer::named_gradients() const {
  NamedTensors named;
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    if (!parts_[unit].defined()) continue;
    for (ParameterPiece& piece : PiecesOf(units_[unit], parts_[unit], units_[unit].part_begin))
      named.emplace_back(units_[unit].parameters[piece.index].first, std::move(piece.values));
  }
  return named;
}

at::Tensor GradReducer::SquaredNorm() const {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& part : parts_)
    if (part.defined()) parts.push_back(part);
  return buttress::SquaredNorm(parts);
}

void GradReducer::Scale(double factor) {
  for (at::Tensor& part : parts_) {
    if (part.defined()) part.mul_(factor);
  }
}

}  // namespace buttress
