// The values of a checkpoint, divided over files. A unit of a model is a flat buffer of parameters
// with padding; each file holds ranges of such buffers. The layout names the place of every
// parameter, so that a reader with another number of ranks, and so another padding, finds its
// values by parameter. Without torch.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/weights/manifest.h"
#include "lib/weights/safetensors.h"

namespace buttress {

struct StoredParameter {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0;  // of its first value in the buffer of the unit

  std::int64_t size() const;

  bool operator==(const StoredParameter&) const = default;
};

struct StoredUnit {
  std::string name;
  std::int64_t size = 0;  // values of the buffer
  std::vector<StoredParameter> parameters;

  bool operator==(const StoredUnit&) const = default;
};

using StoredLayout = std::vector<StoredUnit>;

nlohmann::ordered_json LayoutToJson(const StoredLayout& layout);

// Reads the list "layout" of a checkpoint.json. kDataLoss names what is wrong with it.
Result<StoredLayout> ParseLayout(const nlohmann::json& state);

// kInvalidArgument names the first parameter of `model` that `stored` lacks or has in another
// shape, or the first that only `stored` has.
Status CompareLayouts(const StoredLayout& stored, const StoredLayout& model);

// The name of a tensor of a file: the values of a unit from `begin` on. `kind` says which, such as
// "weights" or "first".
std::string StoredName(std::string_view kind, std::string_view unit, std::int64_t begin);

// The files of one checkpoint, mapped into memory. Thread-safe.
class StoredShards {
 public:
  // kDataLoss names a file that is malformed or has a tensor that the layout does not explain.
  static Result<StoredShards> Open(const std::string& folder, const std::vector<WeightFile>& files,
                                   StoredLayout layout);

  // Fills `out` with the values of `kind` that the reader has from `begin` on in its own layout
  // `unit`. The padding keeps its bytes. kDataLoss if no file has a value, kInvalidArgument if the
  // values have another dtype (in the notation of safetensors). REQUIRES: CompareLayouts.
  Status Read(std::string_view kind, const StoredUnit& unit, std::int64_t begin,
              std::string_view dtype, std::span<char> out) const;

 private:
  struct Place {
    const StoredUnit* unit = nullptr;
    const StoredParameter* parameter = nullptr;
  };

  StoredShards() = default;

  Status AddTensor(const TensorView& tensor);
  Status Copy(std::string_view kind, const StoredUnit& unit, std::int64_t begin,
              std::string_view dtype, std::span<char> out) const;

  std::unique_ptr<const StoredLayout> layout_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, Place, std::less<>> places_;  // by parameter
  // Ranges by begin, by "<kind>/<unit>".
  std::map<std::string, std::map<std::int64_t, const TensorView*>> ranges_;
};

}  // namespace buttress
