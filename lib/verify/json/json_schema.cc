// Verifier json_schema. The reference answer is a schema (lib/verify/json/schema.h lists the
// keywords). The value is the text in <answer> tags, else in the last ```json fence, else the whole
// response.
#include "lib/base/text/bounded_json.h"
#include "lib/verify/extract.h"
#include "lib/verify/json/schema.h"
#include "lib/verify/verifiers.h"

namespace buttress {
namespace {

struct Found {
  std::string_view text;
  std::string anchor;
};

Found FindValue(std::string_view response) {
  if (const auto tagged = InAnswerTags(response)) return {*tagged, "tags"};
  if (const auto fenced = InLastFence(response, "json")) return {Trim(*fenced), "fence"};
  return {Trim(response), "whole"};
}

class JsonSchemaVerifier : public Verifier {
 public:
  Verdict Verify(const VerifyRequest& request) const override {
    Result<nlohmann::json> document = ParseBoundedJson(Trim(request.answer));
    if (!document.ok())
      return Unscorable("answer: " + document.status().message() + "; expected a JSON schema");
    const Result<JsonSchema> schema = JsonSchema::Compile(*std::move(document));
    if (!schema.ok()) return Unscorable("answer: " + schema.status().message());
    const Found found = FindValue(request.response);
    const std::string shown(FirstBytes(found.text, kShownBytes));
    const Result<nlohmann::json> value = ParseBoundedJson(found.text);
    Status status = value.ok() ? schema->Check(*value) : value.status();
    if (status.code() == StatusCode::kResourceExhausted)
      return Unscorable("answer: " + status.message());
    Verdict verdict = status.ok() ? Correct(shown, "") : Wrong(shown, status.message());
    verdict.anchor = found.anchor;
    return verdict;
  }
};

}  // namespace

std::unique_ptr<Verifier> MakeJsonSchema(const RewardConfig& /*config*/) {
  return std::make_unique<JsonSchemaVerifier>();
}

}  // namespace buttress
