#include "lib/measure/steps_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>
#include <utility>

#include "lib/base/os/file.h"

namespace buttress {
namespace {

constexpr double kNaN = StepMeasurements::kNotMeasured;

// "importance.ess" is {"importance", "ess"}, "step" is {"step", ""}.
std::pair<std::string, std::string> SplitName(std::string_view name) {
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) return {std::string(name), ""};
  return {std::string(name.substr(0, dot)), std::string(name.substr(dot + 1))};
}

// Counts are whole numbers, but for their means.
bool IsInteger(const Measurement& row) {
  return row.unit >= Unit::kBytes && row.reduction != Reduction::kMean;
}

nlohmann::ordered_json ToJson(double value, const Measurement& row) {
  if (!std::isfinite(value)) return nullptr;
  if (row.unit == Unit::kFlag) return value != 0;
  if (IsInteger(row)) return static_cast<std::int64_t>(value);
  return value;
}

// Nullopt if `value` is neither a number, a boolean nor null.
std::optional<double> FromJson(const nlohmann::json& value) {
  if (value.is_null()) return kNaN;
  if (value.is_boolean()) return value.get<bool>() ? 1.0 : 0.0;
  if (value.is_number()) return value.get<double>();
  return std::nullopt;
}

const nlohmann::json* Find(const nlohmann::json& object, const std::string& key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

std::vector<Alarm> AlarmsOf(const nlohmann::json& json) {
  std::vector<Alarm> alarms;
  const nlohmann::json* names = Find(json, "alarms");
  if (names == nullptr) return alarms;
  for (std::size_t i = 0; i < kAlarms; ++i) {
    const auto alarm = static_cast<Alarm>(i);
    for (const nlohmann::json& name : *names) {
      if (name == AlarmName(alarm)) alarms.push_back(alarm);
    }
  }
  return alarms;
}

// Calls visit(name, value) for every count and sum of a source, in the order of the file.
template <class Source, class Visit>
void ForEachSourceField(Source& source, Visit visit) {
  visit("groups", source.collapse.groups);
  visit("all_correct", source.collapse.all_correct);
  visit("all_wrong", source.collapse.all_wrong);
  visit("other_constant", source.collapse.other_constant);
  visit("mixed", source.collapse.mixed);
  visit("unscorable", source.collapse.unscorable);
  visit("scorable", source.scorable);
  visit("raw_reward", source.raw_reward);
  visit("correct", source.correct);
  visit("judged", source.judged);
  visit("virtual_groups", source.virtual_groups);
  visit("gate_rate", source.gate_rate);
  visit("gate_threshold", source.gate_threshold);
  visit("gate_open", source.gate_open);
}

// The counts and sums of a source, and its ACR, for people.
nlohmann::ordered_json SourceToJson(const SourceMeasurements& source) {
  nlohmann::ordered_json json;
  ForEachSourceField(source, [&](std::string_view name, const auto& value) {
    auto& field = json[std::string(name)];
    if (name == "gate_open" && std::isfinite(static_cast<double>(value)))
      field = value != 0;
    else if (name == "raw_reward" || name.starts_with("gate_"))
      field = value;  // null if it is not finite
    else
      field = static_cast<std::int64_t>(value);
    if (name == "unscorable") json["acr"] = source.acr();
  });
  return json;
}

// Reads what SourceToJson wrote. False if a value is not a number.
bool ReadSource(const nlohmann::json& json, SourceMeasurements& source) {
  bool whole = json.is_object();
  ForEachSourceField(source, [&](const char* key, auto& value) {
    constexpr bool kCount = std::is_same_v<decltype(value), std::int64_t&>;
    const nlohmann::json* found = whole ? Find(json, key) : nullptr;
    const auto number = found == nullptr ? std::nullopt : FromJson(*found);
    whole = number && (!kCount || (*number >= 0 && *number < 1e15));
    if (whole) value = static_cast<std::remove_reference_t<decltype(value)>>(*number);
  });
  return whole;
}

Status ReadSources(const nlohmann::json& json, std::vector<SourceMeasurements>& sources) {
  const nlohmann::json* all = Find(json, "sources");
  if (all == nullptr || !all->is_object()) return OkStatus();
  for (const auto& [name, value] : all->items()) {
    SourceMeasurements& source = sources.emplace_back();
    source.source = name;
    if (!ReadSource(value, source))
      return DataLoss(fmt::format("a value of the source '{}' is not a number", name));
  }
  return OkStatus();
}

Status ReadComponents(const nlohmann::json& json, std::vector<ComponentMeasurements>& components) {
  const nlohmann::json* all = Find(json, "components");
  if (all == nullptr || !all->is_object()) return OkStatus();
  for (const auto& [name, value] : all->items()) {
    if (!value.is_number())
      return DataLoss(fmt::format("the mean of the component '{}' is not a number", name));
    components.push_back({name, value.get<double>(), 1});
  }
  return OkStatus();
}

// Calls visit(line, number) for every complete line, `line` without its end, `number` from 1.
template <class Visit>
Status ForEachLine(std::string_view text, Visit visit) {
  std::size_t number = 0;
  for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    BUTTRESS_RETURN_IF_ERROR(visit(text.substr(0, end), ++number));
    text.remove_prefix(end + 1);
  }
  return OkStatus();
}

Result<std::string> ReadFileOrEmpty(const std::string& path) {
  auto text = ReadFile(path);
  if (text.status().code() == StatusCode::kNotFound) return std::string();
  return text;
}

}  // namespace

std::string StepToJson(const StepMeasurements& step) {
  nlohmann::ordered_json json;
  for (const Measurement& row : MeasurementTable()) {
    const auto [key, inner] = SplitName(row.name);
    (inner.empty() ? json[key] : json[key][inner]) = ToJson(step.*row.value, row);
  }
  json["components"] = nlohmann::json::object();
  for (const ComponentMeasurements& component : step.components)
    json["components"][component.name] = component.reward_mean();
  json["sources"] = nlohmann::json::object();
  for (const SourceMeasurements& source : step.sources)
    json["sources"][source.source] = SourceToJson(source);
  json["alarms"] = nlohmann::json::array();
  for (const Alarm alarm : step.alarms) json["alarms"].push_back(AlarmName(alarm));
  return json.dump();
}

Result<StepMeasurements> ParseStep(std::string_view line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  const nlohmann::json* number = json.is_object() ? Find(json, "step") : nullptr;
  if (number == nullptr || !number->is_number_integer()) {
    return DataLoss(
        fmt::format("'{}' is not a JSON object with an integer 'step'; move the file "
                    "aside if another program wrote it",
                    line.substr(0, 60)));
  }
  StepMeasurements step;
  for (const Measurement& row : MeasurementTable()) {
    const auto [key, inner] = SplitName(row.name);
    const nlohmann::json* value = Find(json, key);
    if (value != nullptr && !inner.empty())
      value = value->is_object() ? Find(*value, inner) : nullptr;
    const auto read = value == nullptr ? kNaN : FromJson(*value);
    if (!read) return DataLoss(fmt::format("value of '{}' is not a number", row.name));
    step.*row.value = *read;
  }
  BUTTRESS_RETURN_IF_ERROR(ReadComponents(json, step.components));
  BUTTRESS_RETURN_IF_ERROR(ReadSources(json, step.sources));
  step.alarms = AlarmsOf(json);
  return step;
}

Result<std::vector<StepMeasurements>> ReadSteps(const std::string& path) {
  return StepsTail(path).Next();
}

Result<std::vector<StepMeasurements>> ReadNewestSteps(const std::string& path, std::size_t count) {
  constexpr std::streamoff kTailBytes = 1 << 20;
  std::vector<StepMeasurements> steps;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return steps;
  const std::streamoff size = file.tellg(), begin = std::max<std::streamoff>(0, size - kTailBytes);
  file.seekg(begin);
  std::string text(static_cast<std::size_t>(size - begin), '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (begin > 0) text.erase(0, text.find('\n') + 1);  // the rest of a line
  std::vector<std::string_view> lines;
  BUTTRESS_RETURN_IF_ERROR(ForEachLine(text, [&lines](std::string_view line, std::size_t) {
    lines.push_back(line);
    return OkStatus();
  }));
  for (std::size_t i = lines.size() - std::min(lines.size(), count); i < lines.size(); ++i) {
    auto step = ParseStep(lines[i]);
    if (!step.ok()) return step.status().Annotate(path);
    steps.push_back(std::move(*step));
  }
  return steps;
}

Result<std::vector<StepMeasurements>> StepsTail::Next(std::uint64_t max_bytes) {
  std::vector<StepMeasurements> steps;
  const int fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return steps;

  struct stat info {};

  if (fd < 0 || ::fstat(fd, &info) != 0) {
    const std::string why = std::strerror(errno);
    if (fd >= 0) ::close(fd);
    return Unavailable("cannot read " + path_ + ": " + why);
  }
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (info.st_ino != file_ || size < offset_) {
    file_ = info.st_ino;
    offset_ = 0;
    lines_ = 0;
  }
  std::string text(std::min(size - offset_, max_bytes), '\0');
  const ssize_t n = ::pread(fd, text.data(), text.size(), static_cast<off_t>(offset_));
  ::close(fd);
  if (n < 0) return Unavailable("cannot read " + path_ + ": " + std::strerror(errno));
  text.resize(static_cast<std::size_t>(n));
  BUTTRESS_RETURN_IF_ERROR(ForEachLine(text, [&](std::string_view line, std::size_t) {
    ++lines_;
    offset_ += line.size() + 1;
    auto step = ParseStep(line);
    if (!step.ok()) return step.status().Annotate(fmt::format("{}:{}", path_, lines_));
    steps.push_back(std::move(*step));
    return OkStatus();
  }));
  return steps;
}

Status AppendStep(const std::string& path, const StepMeasurements& step) {
  return AppendToFile(path, StepToJson(step) + "\n");
}

Status TruncateSteps(const std::string& path, std::int64_t last_step) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadFileOrEmpty(path));
  std::string kept;
  BUTTRESS_RETURN_IF_ERROR(ForEachLine(text, [&](std::string_view line, std::size_t number) {
    const auto step = ParseStep(line);
    if (!step.ok()) return step.status().Annotate(fmt::format("{}:{}", path, number));
    if (step->step <= static_cast<double>(last_step)) kept.append(line).append("\n");
    return OkStatus();
  }));
  return kept.size() == text.size() ? OkStatus() : WriteFileAtomic(path, kept);
}

}  // namespace buttress
