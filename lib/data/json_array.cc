#include <fmt/core.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "lib/data/dataset.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;
using Event = ordered_json::parse_event_t;

constexpr int kMaxValueDepth = 64;  // of a row; values are copied and printed recursively

// Hands each element of the outer array to the sink as soon as it is parsed, and keeps none.
class Elements {
 public:
  explicit Elements(const RowSink& sink) : sink_(sink) {}

  bool Take(int depth, Event event, ordered_json& value) {
    if (!status_.ok()) return false;
    if (depth > kMaxValueDepth) {
      Refuse(fmt::format("nested deeper than {} levels", kMaxValueDepth));
    } else if (depth == 2 && event == Event::key) {
      if (!names_.insert(value.get<std::string>()).second)
        Refuse("field '" + value.get<std::string>() + "' appears twice");
    } else if (depth == 1 && event == Event::object_end) {
      ++row_;
      names_.clear();
      status_ = sink_(value.dump());
      return false;
    } else if (depth == 1 && (event == Event::value || event == Event::array_start)) {
      Refuse("expected an object");
    }
    return status_.ok();
  }

  const Status& status() const { return status_; }

 private:
  void Refuse(const std::string& what) {
    status_ = InvalidArgument(fmt::format("row {}: {}", row_ + 1, what));
  }

  const RowSink& sink_;
  std::set<std::string> names_;  // of the row so far
  std::size_t row_ = 0;
  Status status_;
};

}  // namespace

Status ReadJsonArray(const std::string& path, const RowSink& sink) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound("cannot read " + path);
  Elements elements(sink);
  const auto take = [&elements](int depth, Event event, ordered_json& value) {
    return elements.Take(depth, event, value);
  };
  try {
    const ordered_json emptied = ordered_json::parse(file, take);
  } catch (const ordered_json::exception& error) {
    if (elements.status().ok())
      return InvalidArgument(fmt::format("{} is not JSON: {}", path, error.what()));
  }
  return elements.status().Annotate(path);
}

}  // namespace buttress
