// Reads what the policy wrote: groups of the ledger with the texts of prompt and completions, while
// their payloads are there.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/experience/group.h"
#include "lib/ledger/payload_store.h"
#include "lib/ledger/reader.h"
#include "lib/samples/messages.h"
#include "lib/tokenizer/tokenizer.h"

namespace buttress {

// "stop", "length", "abort", "error" or "unspecified".
const char* FinishName(FinishReason reason);

// Returns the tokenizer of the model folder `model` or, if it is empty, of the model of the run in
// `folder`; null where there is none.
std::unique_ptr<Tokenizer> LoadRunTokenizer(const std::string& folder, const std::string& model);

// Returns the components of the reward of completion `i` by name, before weighting; an empty object
// without a weighted sum or without a verdict.
nlohmann::ordered_json ComponentsJson(const v1::GroupHead& head, std::size_t i);

// Returns the group that the payload holds. kNotFound if the payload was deleted, kDataLoss if it
// is damaged.
Result<v1::Group> ReadPayload(const PayloadReader& payloads, const AcceptedGroup& accepted);

// A part of an episode's conversation.
struct SamplePart {
  std::string text;  // as the tokens have it, with the marks of the chat template
  int turn = -1;     // index into Sample::turns of the answer that it is; -1: what others wrote
  std::vector<SampleMessage> messages = {};
};

// What the payload adds to a completion of a head.
struct Sample {
  std::optional<std::string> text;   // with special tokens; absent where `why_no_texts` says so
  std::string answer;                // that the verifier read; may be empty
  std::string unscorable;            // why it has no verdict; may be empty
  std::vector<v1::Turn> turns = {};  // of an episode
  std::vector<double> turn_rewards = {};
  std::vector<SamplePart> parts = {};  // of `text`, in order; empty outside of run.env
};

struct SampledGroup {
  GroupRow group;
  GroupHeadPtr head;
  std::optional<std::string> prompt;           // absent as the texts of samples are
  std::vector<SampleMessage> prompt_messages;  // that of episodes; empty outside of run.env
  std::vector<Sample> samples;                 // by index
  std::string why_no_texts;                    // empty where there are texts
};

// Returns [{"role", "content"}].
nlohmann::ordered_json MessagesJson(const std::vector<SampleMessage>& messages);

// Adds what an episode has to the JSON of its completion `i`: parent (of a branch), end, turns, and
// the parts of its conversation. Adds nothing outside of run.env.
void AddEpisodeJson(const SampledGroup& group, std::size_t i, nlohmann::ordered_json& json);

// Not thread-safe.
class SampleReader {
 public:
  // Reads the run in `folder`, which may be running. Without `tokenizer`, which outlives the
  // reader, there are no texts. Errors as LedgerReader::Open.
  static Result<std::unique_ptr<SampleReader>> Open(const std::string& folder,
                                                    const Tokenizer* tokenizer);

  LedgerReader& ledger() { return *ledger_; }

  // Returns those of the groups that were accepted, in the order of `ids`.
  Result<std::vector<SampledGroup>> Groups(std::span<const std::uint64_t> ids);

 private:
  SampleReader(std::unique_ptr<LedgerReader> ledger, const std::string& folder,
               const Tokenizer* tokenizer);
  SampledGroup SampledFrom(GroupRecord record) const;
  void AddTexts(const AcceptedGroup& accepted, SampledGroup& sampled) const;
  void AddParts(const v1::Group& group, int i, Sample& sample) const;
  std::string TextOf(std::span<const std::int32_t> tokens) const;

  const std::unique_ptr<LedgerReader> ledger_;
  const std::string payload_folder_;
  const Tokenizer* const tokenizer_;
};

}  // namespace buttress
