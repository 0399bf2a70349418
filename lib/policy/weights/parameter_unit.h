// The layout of parameters: each unit of the model is one flat buffer, and gradients, masters and
// moments lie as the weights do, so that a part of one belongs to the same part of the others.
// Torch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace buttress {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// The part of every unit that belongs to a process: part `rank` of `ranks` equal parts.
struct UnitShare {
  int rank = 0;
  int ranks = 1;
  // Whether the process holds its part of the weights only (ZeRO stage 3), and whole units for as
  // long as a pass needs them (Transformer::Hold).
  bool weights = false;
  // Whether the experts of a block are a unit of their own, which stays divided in every pass: each
  // process computes with the experts of its part. REQUIRES: `weights`, and experts that fill equal
  // parts (CanDivideExperts).
  bool experts = false;
  // Whether the process holds no weights: they stay in the files, and units are read for as long as
  // a pass needs them (StoredUnits). Excludes `weights`.
  bool stored = false;
};

// What is gathered, reduced, updated, published and checkpointed as one: the embedding, a block,
// the last norm with the head, which is not listed if it is tied, or the adapters of a block.
struct ParameterUnit {
  std::string name;  // "embedding", "block 3", "experts 3", "head", "adapters 3"

  // Leaf tensors, which require grad if they are trainable, views of `flat`, with their names in
  // the checkpoint and in its order.
  NamedTensors parameters;
  std::vector<std::int64_t> offsets;  // by parameter, of its first value in `flat`

  // [size] matrices, then biases and norms, each kind padded with zeros.
  at::Tensor flat;
  std::int64_t decayed = 0;  // the values before are those of matrices, which weight decay shrinks

  // [size / ranks] the part of this process: a view of `flat`, or with memory of its own where
  // UnitShare::weights says so. Undefined where UnitShare::stored says so.
  at::Tensor part;
  std::int64_t part_begin = 0;  // its first value in `flat`

  bool trainable = true;  // false: neither gradient nor optimizer state

  // Whether each process computes with its part alone (UnitShare::experts), so that the gradient of
  // the part is complete without those of the others.
  bool stays_divided = false;

  std::int64_t size() const { return flat.numel(); }
};

// Values at which the kinds of a unit and the parts of ranks begin are multiples of this, so that
// the vectors of a kernel do not depend on the division.
inline constexpr std::int64_t kUnitAlignment = 64;

// Where tensors of the given shapes lie in a flat buffer for `ranks` parts.
struct FlatLayout {
  std::vector<std::int64_t> offsets;  // by shape
  std::int64_t decayed = 0;
  std::int64_t size = 0;  // a multiple of kUnitAlignment * ranks
};

FlatLayout LayOutUnit(const std::vector<std::vector<std::int64_t>>& shapes, int ranks);

// Returns a buffer of that layout, of uninitialized values but for zeros in the padding, and fills
// `tensors` with views of it, which are leaves.
at::Tensor EmptyUnit(const std::vector<std::vector<std::int64_t>>& shapes, int ranks,
                     const at::TensorOptions& options, std::span<at::Tensor> tensors);

// Describes the buffer `flat` (EmptyUnit) of `parameters`.
ParameterUnit DescribeUnit(std::string name, NamedTensors parameters, const at::Tensor& flat,
                           const UnitShare& share = {});

// Returns a unit of its own memory with the values of `parameters`.
ParameterUnit PackUnit(std::string name, const NamedTensors& parameters,
                       const UnitShare& share = {});

// The values of one parameter in a piece of its unit's buffer, or of a buffer beside it.
struct ParameterPiece {
  std::size_t index = 0;   // of the parameter in the unit
  std::int64_t begin = 0;  // its first value among those of the parameter
  at::Tensor values;       // [n] a view
};

// Divides `values`, which lie at [begin, begin + values.numel()) of the unit's buffer, by
// parameter. The padding is left out.
std::vector<ParameterPiece> PiecesOf(const ParameterUnit& unit, const at::Tensor& values,
                                     std::int64_t begin);

// Gives `buffer`, shaped as ParameterUnit::flat, the shapes of the parameters, as views.
std::vector<at::Tensor> ViewsOf(const ParameterUnit& unit, const at::Tensor& buffer);

// Frees the memory of a buffer whose views live on, and gives it memory again, of uninitialized
// values. Between the calls no value may be read or written.
void ReleaseMemory(const at::Tensor& flat);
void TakeMemory(const at::Tensor& flat);

}  // namespace buttress
