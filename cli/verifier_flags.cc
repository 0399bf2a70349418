#include "cli/verifier_flags.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <fstream>

#include "lib/config/load.h"

namespace buttress {
namespace {

constexpr std::int64_t kRowsBetweenProgress = 10000;

}  // namespace

void VerifierFlags::AddTo(CLI::App& app) {
  app.add_option("file", path,
                 "JSONL of {\"id\", \"answer\", \"response\", \"label\"} or of groups: {\"id\", "
                 "\"answer\", \"responses\": [...], \"labels\": [...]}; labels are optional");
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

Result<std::unique_ptr<Verifier>> VerifierFlags::Make() const {
  if (path.empty()) return InvalidArgument("no JSONL file is named");
  std::vector<std::string> all = overrides;
  if (!mode.empty()) all.push_back("run.reward.math.mode=" + mode);
  if (use_all) all.emplace_back("run.reward.use_all=true");
  BUTTRESS_ASSIGN_OR_RETURN(RewardConfig config, ParseReward(all));
  if (!anchors.empty()) config.math.anchors = anchors;
  BUTTRESS_RETURN_IF_ERROR(ValidateRewardConfig(config));
  return MakeVerifier(verifier, config);
}

Status ForEachVerifyRow(const std::string& path, const std::function<void(const VerifyRow&)>& row) {
  std::ifstream file(path);
  if (!file) return NotFound("cannot read " + path);
  std::int64_t number = 0;
  std::int64_t responses = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.empty()) continue;
    const Result<VerifyRow> parsed = ParseVerifyRow(line, number);
    if (!parsed.ok()) return parsed.status().Annotate(path);
    row(*parsed);
    responses += static_cast<std::int64_t>(parsed->responses.size());
    if (number % kRowsBetweenProgress == 0)
      fmt::print(stderr, "{} rows, {} responses\n", number, responses);
  }
  if (file.bad()) return DataLoss("cannot read " + path + " after line " + std::to_string(number));
  return OkStatus();
}

}  // namespace buttress
