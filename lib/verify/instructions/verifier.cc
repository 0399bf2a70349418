// Verifier instructions: a response is correct if it follows every instruction of its prompt. The
// instructions are in the answer, else in the dataset's row, in the form of IFEval:
// {"instruction_id_list": [...], "kwargs": [{...}, ...]}. instructions.h lists them.
#include "lib/base/text/bounded_json.h"
#include "lib/verify/extract.h"
#include "lib/verify/instructions/instructions.h"
#include "lib/verify/verifiers.h"

namespace buttress {
namespace {

using nlohmann::json;

constexpr std::string_view kIds = "instruction_id_list";
constexpr std::string_view kArguments = "kwargs";
constexpr std::size_t kMaxInstructions = 64;

// Returns the row of instructions after checking that both lists have the same length.
Result<json> ReadRow(const VerifyRequest& request) {
  Result<json> row = ParseBoundedJson(request.answer);
  if (!row.ok() || !row->is_object() || !row->contains(kIds))
    row = ParseBoundedJson(request.extra_json);
  if (!row.ok() || !row->is_object() || !row->contains(kIds))
    return InvalidArgument("neither the answer nor the row has 'instruction_id_list'");
  json& ids = (*row)[kIds];
  if (!ids.is_array() || ids.empty() || ids.size() > kMaxInstructions)
    return InvalidArgument("'instruction_id_list' is not a list of 1 to 64 ids");
  json& arguments = (*row)[kArguments];
  if (arguments.is_null()) arguments = json::array();
  if (!arguments.is_array() || (!arguments.empty() && arguments.size() != ids.size()))
    return InvalidArgument("'kwargs' is not a list with an object for each instruction");
  while (arguments.size() < ids.size()) arguments.push_back(json::object());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (arguments[i].is_null()) arguments[i] = json::object();
    if (!ids[i].is_string() || !arguments[i].is_object())
      return InvalidArgument("instruction " + std::to_string(i) +
                             " is not an id with an object of arguments");
  }
  return row;
}

class Instructions : public Verifier {
 public:
  Verdict Verify(const VerifyRequest& request) const override {
    const Result<json> row = ReadRow(request);
    if (!row.ok()) return Unscorable("instructions: " + row.status().message());
    const json& ids = (*row)[kIds];
    std::string broken;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto& id = ids[i].get_ref<const std::string&>();
      const Result<bool> follows = FollowsInstruction(id, (*row)[kArguments][i], request.response);
      if (!follows.ok()) return Unscorable("instructions: " + follows.status().message());
      if (!*follows) broken += (broken.empty() ? "not " : ", ") + id;
    }
    // As in IFEval, an empty response follows no instruction.
    if (Trim(request.response).empty()) return Wrong("empty", ids.dump());
    return broken.empty() ? Correct("", ids.dump()) : Wrong(broken, ids.dump());
  }
};

}  // namespace

std::unique_ptr<Verifier> MakeInstructions(const RewardConfig& /*config*/) {
  return std::make_unique<Instructions>();
}

}  // namespace buttress
