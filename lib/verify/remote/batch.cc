#include "lib/verify/remote/batch.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/base/text/bounded_json.h"
#include "lib/base/text/reward_bounds.h"
#include "lib/verify/extract.h"

namespace buttress {
namespace {

using nlohmann::json;

constexpr std::size_t kReasonBytes = 500;

Verdict DecodeResult(const json& result, double correct_from) {
  if (!result.is_object())
    return Unscorable("the result is " + std::string(FirstBytes(result.dump(), kReasonBytes)) +
                      "; expected an object");
  if (result.contains("error")) {
    const json& error = result["error"];
    const std::string reason = error.is_string() ? error.get<std::string>() : error.dump();
    return Unscorable(reason.empty() ? "error without a reason"
                                     : std::string(FirstBytes(reason, kReasonBytes)));
  }
  if (result.contains("not_applicable") && result["not_applicable"] == true)
    return NotApplicable("the function does not apply to this row");
  if (!result.contains("score") || !result["score"].is_number())
    return Unscorable("the result has no number 'score'");
  const double score = result["score"].get<double>();
  if (!IsReward(score))
    return Unscorable(fmt::format("the score is {}; expected a number in [-{}, {}]", score,
                                  kMaxReward, kMaxReward));
  if (result.contains("correct") && !result["correct"].is_boolean())
    return Unscorable("'correct' of the result is neither true nor false");
  const bool correct =
      result.contains("correct") ? result["correct"].get<bool>() : score >= correct_from;
  Verdict verdict =
      correct ? Correct(result["score"].dump(), "") : Wrong(result["score"].dump(), "");
  verdict.raw_reward = score;
  return verdict;
}

// The newest policy of the batch, as TRL's trainer_state names its fields.
json State(std::span<const VerifyRequest> requests) {
  std::int64_t step = -1;
  for (const VerifyRequest& request : requests) step = std::max(step, request.step);
  return {{"global_step", step}, {"max_steps", requests.front().steps}};
}

}  // namespace

std::string EncodeBatch(std::span<const VerifyRequest> requests, BatchFields fields) {
  json items = json::array();
  for (const VerifyRequest& request : requests) {
    Result<json> row = ParseBoundedJson(request.extra_json, kMaxReferenceBytes);
    items.push_back({{"prompt", request.prompt},
                     {"response", request.response},
                     {"answer", request.answer},
                     {"source", request.source},
                     {"row", row.ok() && row->is_object() ? *std::move(row) : json::object()},
                     {"truncated", request.truncated}});
    if (fields.token_ids && !request.token_ids.empty())
      items.back()["token_ids"] =
          std::vector<std::int32_t>(request.token_ids.begin(), request.token_ids.end());
  }
  json batch{{"items", std::move(items)}};
  if (fields.state && !requests.empty() && requests.front().steps >= 0)
    batch["state"] = State(requests);
  return batch.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::vector<Verdict> DecodeResults(std::string_view reply, std::size_t count, double correct_from) {
  const Result<json> parsed = ParseBoundedJson(reply, kMaxReferenceBytes);
  if (!parsed.ok())
    return AllUnscorable(count, "the reply is malformed: " + parsed.status().message());
  if (!parsed->is_object() || !parsed->contains("results") || !(*parsed)["results"].is_array())
    return AllUnscorable(count, "the reply has no list 'results'");
  const json& results = (*parsed)["results"];
  if (results.size() != count)
    return AllUnscorable(count, std::to_string(results.size()) + " results for " +
                                    std::to_string(count) + " completions");
  std::vector<Verdict> verdicts;
  for (const json& result : results) verdicts.push_back(DecodeResult(result, correct_from));
  return verdicts;
}

std::vector<Verdict> AllUnscorable(std::size_t count, const std::string& reason) {
  return std::vector<Verdict>(count, Unscorable(std::string(FirstBytes(reason, kReasonBytes))));
}

}  // namespace buttress
