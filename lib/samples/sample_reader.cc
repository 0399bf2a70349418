#include "lib/samples/sample_reader.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "lib/base/os/file.h"
#include "lib/base/text/digest.h"
#include "lib/config/load.h"
#include "lib/config/run_folder.h"
#include "lib/experience/episode_ends.h"
#include "lib/experience/episodes.h"

namespace buttress {

const char* FinishName(FinishReason reason) {
  static constexpr const char* kNames[] = {"unspecified", "stop", "length", "abort", "error"};
  const auto place = static_cast<std::size_t>(reason);
  return place < std::size(kNames) ? kNames[place] : kNames[0];
}

nlohmann::ordered_json ComponentsJson(const v1::GroupHead& head, std::size_t i) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!IsScorable(head, i)) return json;
  const std::span<const double> values = ComponentsOf(head, i);
  for (std::size_t c = 0; c < values.size(); ++c)
    json[head.component_names(static_cast<int>(c))] = values[c];
  return json;
}

nlohmann::ordered_json MessagesJson(const std::vector<SampleMessage>& messages) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const SampleMessage& message : messages)
    json.push_back({{"role", message.role}, {"content", message.content}});
  return json;
}

void AddEpisodeJson(const SampledGroup& group, std::size_t i, nlohmann::ordered_json& json) {
  const v1::GroupHead& head = *group.head;
  if (head.turns().empty()) return;
  const auto at = static_cast<int>(i);
  const Sample& sample = group.samples[i];
  if (!IsRoot(head, i)) json["parent"] = head.parents(at);
  json["end"] = EpisodeEndName(head.episode_ends(at));
  json["turns"] = nlohmann::ordered_json::array();
  for (std::size_t t = 0; t < sample.turns.size(); ++t) {
    const v1::Turn& turn = sample.turns[t];
    json["turns"].push_back({{"reward", sample.turn_rewards[t]},
                             {"waited_ms", turn.waited_ms()},
                             {"sampled_ms", turn.sampled_ms()},
                             {"tools", std::vector(turn.tools().begin(), turn.tools().end())},
                             {"failed_tools", turn.failed_tools()}});
  }
  json["parts"] = nlohmann::ordered_json::array();
  for (const SamplePart& part : sample.parts)
    json["parts"].push_back({{"by", part.turn < 0 ? "environment" : "policy"},
                             {"text", part.text},
                             {"messages", MessagesJson(part.messages)}});
}

std::unique_ptr<Tokenizer> LoadRunTokenizer(const std::string& folder, const std::string& model) {
  std::string path = model;
  if (path.empty()) {
    const Result<RunConfig> config = LoadRunConfig(StoredConfigPath(folder), {});
    if (!config.ok()) return nullptr;
    path = config->run.model.path;
  }
  Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::Load(path);
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

Result<v1::Group> ReadPayload(const PayloadReader& payloads, const AcceptedGroup& accepted) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::string bytes, payloads.Read(accepted.payload));
  if (Sha256Of(bytes) != accepted.content_sha256)
    return DataLoss("the payload has another digest than the ledger");
  Result<v1::Group> group = ParseGroup(bytes);
  if (!group.ok()) return DataLoss(group.status().message());
  return group;
}

SampleReader::SampleReader(std::unique_ptr<LedgerReader> ledger, const std::string& folder,
                           const Tokenizer* tokenizer)
    : ledger_(std::move(ledger)),
      payload_folder_(JoinPath(folder, "payloads")),
      tokenizer_(tokenizer) {}

Result<std::unique_ptr<SampleReader>> SampleReader::Open(const std::string& folder,
                                                         const Tokenizer* tokenizer) {
  BUTTRESS_ASSIGN_OR_RETURN(
      auto ledger, LedgerReader::Open(JoinPath(folder, "ledger.db"), ReaderView::kEachCall));
  return std::unique_ptr<SampleReader>(new SampleReader(std::move(ledger), folder, tokenizer));
}

Result<std::vector<SampledGroup>> SampleReader::Groups(std::span<const std::uint64_t> ids) {
  BUTTRESS_ASSIGN_OR_RETURN(std::vector<GroupRecord> records, ledger_->GroupsById(ids));
  std::vector<SampledGroup> groups;
  for (const std::uint64_t id : ids) {
    const auto found = std::ranges::lower_bound(
        records, id, {}, [](const GroupRecord& record) { return record.group.group_id; });
    if (found != records.end() && found->group.group_id == id && found->accepted)
      groups.push_back(SampledFrom(std::move(*found)));
  }
  return groups;
}

SampledGroup SampleReader::SampledFrom(GroupRecord record) const {
  SampledGroup sampled;
  sampled.group = std::move(record.group);
  sampled.head = record.accepted->head;
  sampled.samples.resize(CompletionsOf(*sampled.head));
  AddTexts(*record.accepted, sampled);
  return sampled;
}

void SampleReader::AddTexts(const AcceptedGroup& accepted, SampledGroup& sampled) const {
  if (tokenizer_ == nullptr) {
    sampled.why_no_texts = "the tokenizer of the run's model cannot be read; name one with --model";
    return;
  }
  // A reader of its own, which keeps no segment open that the coordinator deletes.
  const Result<v1::Group> group = ReadPayload(PayloadReader(payload_folder_), accepted);
  if (!group.ok()) {
    sampled.why_no_texts =
        group.status().code() == StatusCode::kNotFound
            ? "the texts are deleted, because the steps are behind a checkpoint; "
              "local.coordinator.keep_payloads: true keeps those of a run"
            : group.status().message();
    return;
  }
  sampled.prompt = TextOf(PromptOf(*group));
  if (group->turns_size() > 0)
    sampled.prompt_messages = WrittenMessages(PromptOf(*group), *tokenizer_);
  for (int t = 0; t < group->turns_size(); ++t) {
    Sample& sample = sampled.samples[static_cast<std::size_t>(group->turns(t).completion())];
    sample.turns.push_back(group->turns(t));
    sample.turn_rewards.push_back(group->head().turn_rewards(t));
  }
  for (int i = 0; i < Completions(group->head()); ++i) {
    Sample& sample = sampled.samples[static_cast<std::size_t>(i)];
    AddParts(*group, i, sample);
    sample.text = TextOf(TokensOf(*group, i));
    sample.answer = ExtractedAnswerOf(*group, i);
    sample.unscorable = UnscorableReasonOf(*group, i);
  }
}

void SampleReader::AddParts(const v1::Group& group, int i, Sample& sample) const {
  const std::span<const std::int32_t> tokens = TokensOf(group, i);
  std::size_t at = 0;
  const auto add = [&](std::size_t end, int turn) {
    const std::span<const std::int32_t> part = tokens.subspan(at, end - at);
    at = end;
    if (part.empty()) return;
    sample.parts.push_back({TextOf(part), turn,
                            turn < 0 ? WrittenMessages(part, *tokenizer_)
                                     : std::vector{SampledMessage(part, *tokenizer_)}});
  };
  for (std::size_t t = 0; t < sample.turns.size(); ++t) {
    add(static_cast<std::size_t>(sample.turns[t].begin()), -1);
    add(static_cast<std::size_t>(sample.turns[t].end()), static_cast<int>(t));
  }
  if (!sample.turns.empty()) add(tokens.size(), -1);
}

std::string SampleReader::TextOf(std::span<const std::int32_t> tokens) const {
  const Result<std::string> text = tokenizer_->Decode(tokens, SpecialTokens::kKeep);
  return text.ok() ? *text : "(" + text.status().message() + ")";
}

}  // namespace buttress
