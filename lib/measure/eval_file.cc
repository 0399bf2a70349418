#include "lib/measure/eval_file.h"

#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "lib/base/os/file.h"

namespace buttress {
namespace {

nlohmann::ordered_json Known(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nullptr;
}

// Reads the fields of a row and keeps the name of the first that is wrong.
class FieldReader {
 public:
  explicit FieldReader(const nlohmann::json& json) : json_(json) {}

  template <class Integer>
  void Whole(const char* name, Integer& value) {
    const auto found = json_.find(name);
    if (found != json_.end() && found->is_number_integer())
      value = found->get<Integer>();
    else
      Refuse(name);
  }

  void Number(const char* name, double& value) {
    const auto found = json_.find(name);
    if (found != json_.end() && found->is_number())
      value = found->get<double>();
    else if (found == json_.end() || !found->is_null())
      Refuse(name);
  }

  Status status() const {
    return wrong_.empty() ? OkStatus()
                          : DataLoss("field '" + wrong_ + "' is missing or not a number");
  }

 private:
  void Refuse(const char* name) {
    if (wrong_.empty()) wrong_ = name;
  }

  const nlohmann::json& json_;
  std::string wrong_;
};

Result<std::string> ReadOrEmpty(const std::string& path) {
  auto text = ReadFile(path);
  if (text.status().code() == StatusCode::kNotFound) return std::string();
  return text;
}

}  // namespace

double EvalRow::truncated_share() const {
  return completions > 0 ? static_cast<double>(truncated) / static_cast<double>(completions)
                         : kNotMeasured;
}

std::string EvalsPath(const std::string& out) { return JoinPath(out, "eval.jsonl"); }

std::string EvalToJson(const EvalRow& row) {
  const nlohmann::ordered_json json = {{"step", row.step},
                                       {"learner_epoch", row.learner_epoch},
                                       {"time_unix", Known(row.time_unix)},
                                       {"accuracy", Known(row.accuracy)},
                                       {"reward_mean", Known(row.reward_mean)},
                                       {"prompts", row.prompts},
                                       {"completions", row.completions},
                                       {"unscorable", row.unscorable},
                                       {"truncated", row.truncated},
                                       {"truncated_share", Known(row.truncated_share())},
                                       {"tokens", row.tokens},
                                       {"temperature", Known(row.temperature)},
                                       {"seconds", Known(row.seconds)}};
  return json.dump();
}

Result<EvalRow> ParseEval(std::string_view line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return DataLoss("not a JSON object");
  EvalRow row;
  FieldReader reader(json);
  reader.Whole("step", row.step);
  reader.Whole("learner_epoch", row.learner_epoch);
  reader.Number("time_unix", row.time_unix);
  reader.Number("accuracy", row.accuracy);
  reader.Number("reward_mean", row.reward_mean);
  reader.Whole("prompts", row.prompts);
  reader.Whole("completions", row.completions);
  reader.Whole("unscorable", row.unscorable);
  reader.Whole("truncated", row.truncated);
  reader.Whole("tokens", row.tokens);
  reader.Number("temperature", row.temperature);
  reader.Number("seconds", row.seconds);
  BUTTRESS_RETURN_IF_ERROR(reader.status());
  return row;
}

Result<std::vector<EvalRow>> ReadEvals(const std::string& out) {
  const std::string path = EvalsPath(out);
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadOrEmpty(path));
  std::vector<EvalRow> rows;
  std::size_t begin = 0, number = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    ++number;
    const auto row = ParseEval(std::string_view(text).substr(begin, end - begin));
    if (!row.ok()) {
      return DataLoss(fmt::format("{}:{}: {}; move the file aside, it is made anew", path, number,
                                  row.status().message()));
    }
    std::erase_if(rows, [&row](const EvalRow& before) { return before.step >= row->step; });
    rows.push_back(*row);
    begin = end + 1;
  }
  return rows;
}

Status AddEval(const std::string& out, const EvalRow& row) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadOrEmpty(EvalsPath(out)));
  return WriteFileAtomic(EvalsPath(out), text + EvalToJson(row) + "\n");
}

}  // namespace buttress
