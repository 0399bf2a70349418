#include "cli/prepare/verifier_flags.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "lib/config/load.h"

namespace buttress {
namespace {

constexpr std::int64_t kRowsBetweenProgress = 10000;

}  // namespace

void VerifierFlags::AddTo(CLI::App& app) {
  app.add_option("file", path,
                 "JSONL, JSON, CSV, Parquet or Arrow of {\"id\", \"answer\", \"response\", "
                 "\"label\"} or of groups: {\"id\", \"answer\", \"responses\": [...], \"labels\": "
                 "[...]}; labels are optional");
  const auto field = [&app](const char* name, std::string& value, const std::string& what) {
    app.add_option(name, value, "field of the " + what)->capture_default_str();
  };
  field("--prompt-field", fields.prompt,
        "prompt; a dotted path names a field inside another one, as in run.data.prompt_field");
  field("--response-field", fields.response, "response, or of a list of them");
  field("--answer-field", fields.answer, "reference answer; empty: the verifier needs none");
  field("--source-field", fields.source, "data source, which run.reward.by_source names");
  field("--id-field", fields.id, "id");
  field("--label-field", fields.label, "label, or of a list of them");
  app.add_option(
         "--verifier", verifier,
         "a verifier, or a weighted sum such as math + 0.2 * format; buttress verify --list "
         "names the verifiers")
      ->capture_default_str();
  app.add_option("--set", overrides,
                 "a setting of run.reward, for example run.reward.code.language=cpp; may be "
                 "repeated");
  app.add_flag("--use-all", use_all, "countdown: every number exactly once");
  app.add_option("--mode", mode, "math: lenient | strict");
  app.add_option("--anchors", anchors,
                 "math: the markers of an answer, in the order of search: boxed,####,answer:")
      ->delimiter(',');
}

Result<std::unique_ptr<VerifierSet>> VerifierFlags::Make() const {
  if (path.empty()) return InvalidArgument("no file is named");
  std::vector<std::string> all = overrides;
  if (!mode.empty()) all.push_back("run.reward.math.mode=" + mode);
  if (use_all) all.emplace_back("run.reward.use_all=true");
  BUTTRESS_ASSIGN_OR_RETURN(RewardConfig config, ParseReward(all));
  if (!anchors.empty()) config.math.anchors = anchors;
  config.verifier = verifier;
  BUTTRESS_RETURN_IF_ERROR(ValidateRewardConfig(config));
  return VerifierSet::Make(config);
}

Status VerifierFlags::ForEachRow(const std::function<void(const VerifyRow&)>& use) const {
  std::int64_t rows = 0, responses = 0;
  return ForEachJsonRow(path, [&](JsonRow json) -> Status {
    BUTTRESS_ASSIGN_OR_RETURN(const VerifyRow row, ReadVerifyRow(std::move(json), fields));
    use(row);
    responses += static_cast<std::int64_t>(row.responses.size());
    if (++rows % kRowsBetweenProgress == 0)
      fmt::print(stderr, "{} rows, {} responses\n", rows, responses);
    return OkStatus();
  });
}

}  // namespace buttress
