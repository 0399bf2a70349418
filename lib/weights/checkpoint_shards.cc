#include "lib/weights/checkpoint_shards.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "lib/base/os/file.h"

namespace buttress {
namespace {

std::string KeyOf(std::string_view kind, std::string_view unit) {
  return fmt::format("{}/{}", kind, unit);
}

Result<StoredParameter> ParseParameter(const nlohmann::json& json) {
  const bool complete = json.is_object() && json.contains("name") && json["name"].is_string() &&
                        json.contains("shape") && json["shape"].is_array() &&
                        std::ranges::all_of(json["shape"], &nlohmann::json::is_number_unsigned) &&
                        json.contains("offset") && json["offset"].is_number_unsigned();
  if (!complete)
    return DataLoss("a parameter of 'layout' is not an object with 'name', 'shape' and 'offset'");
  return StoredParameter{json["name"], json["shape"], json["offset"]};
}

Result<StoredUnit> ParseUnit(const nlohmann::json& json) {
  const bool complete = json.is_object() && json.contains("unit") && json["unit"].is_string() &&
                        json.contains("size") && json["size"].is_number_unsigned() &&
                        json.contains("parameters") && json["parameters"].is_array();
  if (!complete)
    return DataLoss("an entry of 'layout' is not an object with 'unit', 'size' and 'parameters'");
  StoredUnit unit{json["unit"], json["size"], {}};
  for (const auto& entry : json["parameters"]) {
    BUTTRESS_ASSIGN_OR_RETURN(StoredParameter parameter, ParseParameter(entry));
    if (parameter.offset > unit.size || parameter.size() > unit.size - parameter.offset)
      return DataLoss(fmt::format("'{}' lies outside of unit '{}'", parameter.name, unit.name));
    unit.parameters.push_back(std::move(parameter));
  }
  return unit;
}

std::map<std::string, std::vector<std::int64_t>> ShapesOf(const StoredLayout& layout) {
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const StoredUnit& unit : layout) {
    for (const StoredParameter& parameter : unit.parameters)
      shapes[parameter.name] = parameter.shape;
  }
  return shapes;
}

}  // namespace

std::int64_t StoredParameter::size() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

nlohmann::ordered_json LayoutToJson(const StoredLayout& layout) {
  auto json = nlohmann::ordered_json::array();
  for (const StoredUnit& unit : layout) {
    auto parameters = nlohmann::ordered_json::array();
    for (const auto& [name, shape, offset] : unit.parameters)
      parameters.push_back({{"name", name}, {"shape", shape}, {"offset", offset}});
    json.push_back({{"unit", unit.name}, {"size", unit.size}, {"parameters", parameters}});
  }
  return json;
}

Result<StoredLayout> ParseLayout(const nlohmann::json& state) {
  const auto layout = state.find("layout");
  if (layout == state.end() || !layout->is_array())
    return DataLoss("field 'layout' is missing or no list");
  StoredLayout parsed;
  for (const auto& entry : *layout) {
    BUTTRESS_ASSIGN_OR_RETURN(StoredUnit unit, ParseUnit(entry));
    parsed.push_back(std::move(unit));
  }
  return parsed;
}

Status CompareLayouts(const StoredLayout& stored, const StoredLayout& model) {
  auto shapes = ShapesOf(stored);
  for (const StoredUnit& unit : model) {
    for (const StoredParameter& parameter : unit.parameters) {
      const auto found = shapes.find(parameter.name);
      if (found == shapes.end())
        return InvalidArgument(fmt::format("it has no tensor '{}'", parameter.name));
      if (found->second != parameter.shape) {
        return InvalidArgument(fmt::format(
            "its tensor '{}' has the shape [{}], that of the model "
            "[{}]",
            parameter.name, fmt::join(found->second, ", "), fmt::join(parameter.shape, ", ")));
      }
      shapes.erase(found);
    }
  }
  if (shapes.empty()) return OkStatus();
  return InvalidArgument(
      fmt::format("the model has no tensor '{}', which it has", shapes.begin()->first));
}

std::string StoredName(std::string_view kind, std::string_view unit, std::int64_t begin) {
  return fmt::format("{}/{}/{}", kind, unit, begin);
}

Result<StoredShards> StoredShards::Open(const std::string& folder,
                                        const std::vector<WeightFile>& files, StoredLayout layout) {
  StoredShards shards;
  shards.layout_ = std::make_unique<const StoredLayout>(std::move(layout));
  for (const StoredUnit& unit : *shards.layout_) {
    for (const StoredParameter& parameter : unit.parameters)
      shards.places_[parameter.name] = {&unit, &parameter};
  }
  for (const WeightFile& file : files) {
    const std::string path = JoinPath(folder, file.name);
    BUTTRESS_ASSIGN_OR_RETURN(auto opened, SafetensorsFile::Open(path));
    for (const TensorView& tensor : opened->tensors())
      BUTTRESS_RETURN_IF_ERROR(shards.AddTensor(tensor).Annotate(path));
    shards.files_.push_back(std::move(opened));
  }
  return shards;
}

Status StoredShards::AddTensor(const TensorView& tensor) {
  const std::size_t slash = tensor.name.rfind('/');
  const char* const end = tensor.name.data() + tensor.name.size();
  std::int64_t begin = -1;
  if (slash != std::string::npos &&
      std::from_chars(tensor.name.data() + slash + 1, end, begin).ptr != end)
    begin = -1;
  if (begin < 0 || tensor.shape.size() != 1)
    return DataLoss(fmt::format("tensor '{}' is no range of a unit", tensor.name));
  ranges_[tensor.name.substr(0, slash)][begin] = &tensor;
  return OkStatus();
}

Status StoredShards::Read(std::string_view kind, const StoredUnit& unit, std::int64_t begin,
                          std::string_view dtype, std::span<char> out) const {
  const std::int64_t element = SafetensorsElementSize(dtype);
  const std::int64_t end = begin + std::ssize(out) / element;
  for (const StoredParameter& parameter : unit.parameters) {
    const std::int64_t from = std::max(begin, parameter.offset);
    const std::int64_t to = std::min(end, parameter.offset + parameter.size());
    if (from >= to) continue;
    const auto place = places_.find(parameter.name);
    if (place == places_.end())
      return DataLoss(fmt::format("'layout' has no parameter '{}'", parameter.name));
    const std::int64_t stored = place->second.parameter->offset + from - parameter.offset;
    const auto part = out.subspan(static_cast<std::size_t>((from - begin) * element),
                                  static_cast<std::size_t>((to - from) * element));
    BUTTRESS_RETURN_IF_ERROR(
        Copy(kind, *place->second.unit, stored, dtype, part).Annotate(parameter.name));
  }
  return OkStatus();
}

// Copies from the buffer of a stored unit.
Status StoredShards::Copy(std::string_view kind, const StoredUnit& unit, std::int64_t begin,
                          std::string_view dtype, std::span<char> out) const {
  const std::int64_t element = SafetensorsElementSize(dtype);
  const auto ranges = ranges_.find(KeyOf(kind, unit.name));
  while (!out.empty()) {
    const auto missing = [&] {
      return DataLoss(
          fmt::format("no file has value {} of '{}' of unit '{}'", begin, kind, unit.name));
    };
    if (ranges == ranges_.end()) return missing();
    auto range = ranges->second.upper_bound(begin);
    if (range == ranges->second.begin()) return missing();
    --range;
    const TensorView& tensor = *range->second;
    if (tensor.dtype != dtype) {
      return InvalidArgument(fmt::format("'{}' is {} in the checkpoint and {} in this run", kind,
                                         tensor.dtype, dtype));
    }
    const std::int64_t skipped = (begin - range->first) * element;
    if (skipped >= std::ssize(tensor.data)) return missing();
    const std::string_view data = tensor.data.substr(static_cast<std::size_t>(skipped), out.size());
    std::memcpy(out.data(), data.data(), data.size());
    ForgetPages(data);
    out = out.subspan(data.size());
    begin += std::ssize(data) / element;
  }
  return OkStatus();
}

}  // namespace buttress
