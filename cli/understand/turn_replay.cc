#include "cli/understand/turn_replay.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <utility>

#include "cli/output.h"
#include "cli/process.h"
#include "cli/understand/turn_report.h"
#include "lib/base/os/fd.h"
#include "lib/base/os/file.h"
#include "lib/base/text/random.h"
#include "lib/config/choice.h"
#include "lib/config/load.h"
#include "lib/config/run_folder.h"
#include "lib/experience/codec.h"
#include "lib/experience/episodes.h"
#include "lib/experience/group.h"
#include "lib/samples/sample_reader.h"
#include "lib/verify/process/spawn.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kMaxAnswerBytes = std::int64_t{1} << 30;

// The index of the version that sampled all of the tokens; nothing if several did.
std::optional<int> OneVersionOf(const v1::Group& group, const v1::Turn& turn) {
  for (const VersionSpan& span : VersionSpansOf(group, turn.completion())) {
    if (span.tokens.begin <= turn.begin() && turn.end() <= span.tokens.end) return span.version;
  }
  return std::nullopt;
}

RecordedTurn RecordedTurnOf(const v1::Group& group, const v1::Turn& turn, int episode, int index,
                            int version) {
  const v1::PolicyVersion& by = group.head().versions(version);
  const auto prompt = PromptOf(group), tokens = TokensOf(group, turn.completion());
  const auto begin = tokens.begin() + turn.begin(), end = tokens.begin() + turn.end();
  RecordedTurn recorded;
  recorded.group_id = group.head().group_id();
  recorded.episode = episode;
  recorded.turn = index;
  recorded.version = {by.learner_epoch(), by.step(), by.digest()};
  recorded.tools.assign(turn.tools().begin(), turn.tools().end());
  recorded.context.assign(prompt.begin(), prompt.end());
  recorded.context.insert(recorded.context.end(), tokens.begin(), begin);
  recorded.answer.assign(begin, end);
  SamplingParams& sampling = recorded.sampling;
  if (auto leased = FromProto(group.sampling()); leased.ok()) sampling = *std::move(leased);
  // As the worker mixes it: the episode is a sample of the group, and the turn a call of it.
  sampling.seed = MixSeed(MixSeed(sampling.seed, static_cast<std::uint64_t>(episode)),
                          static_cast<std::uint64_t>(index));
  sampling.max_tokens = turn.end() - turn.begin();
  sampling.min_tokens = std::min(sampling.min_tokens, sampling.max_tokens);
  return recorded;
}

// Reads the turns that `flags` ask for.
Result<RecordedTurns> ReadTurns(const TurnReplayFlags& flags) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto ledger,
                            LedgerReader::Open(JoinPath(flags.folder, "ledger.db")));
  const PayloadReader payloads(JoinPath(flags.folder, "payloads"));
  std::set<std::uint64_t> drawn;
  if (flags.step) {
    BUTTRESS_ASSIGN_OR_RETURN(const auto ids, ledger->DrawnFor(*flags.step));
    drawn.insert(ids.begin(), ids.end());
  }
  RecordedTurns turns;
  Status failed = OkStatus();
  const auto visit = [&](const GroupRecord& record) {
    if (!failed.ok() || !record.accepted || (flags.step && !drawn.contains(record.group.group_id)))
      return;
    const auto& versions = record.accepted->head->versions();
    const bool wanted = !flags.model.empty() ||
                        std::ranges::any_of(versions, [](const auto& v) { return v.step() == 0; });
    if (!wanted) return;
    const Result<v1::Group> group = ReadPayload(payloads, *record.accepted);
    if (group.ok()) return AddTurnsOf(*group, turns);
    if (group.status().code() == StatusCode::kNotFound) {
      ++turns.deleted_groups;
    } else {
      failed = group.status().Annotate(fmt::format("group {}", record.group.group_id));
    }
  };
  BUTTRESS_RETURN_IF_ERROR(ledger->ForEachGroup(visit));
  BUTTRESS_RETURN_IF_ERROR(failed);
  if (flags.model.empty())
    std::erase_if(turns.turns, [](const RecordedTurn& turn) { return turn.version.step > 0; });
  return turns;
}

std::string GenerateRow(const RecordedTurn& turn, std::size_t id) {
  const SamplingParams& sampling = turn.sampling;
  return JsonLine({{"id", id},
                   {"token_ids", turn.context},
                   {"temperature", sampling.temperature},
                   {"top_p", sampling.top_p},
                   {"top_k", sampling.top_k},
                   {"max_tokens", sampling.max_tokens},
                   {"min_tokens", sampling.min_tokens},
                   {"stop", sampling.stop},
                   {"include_stop", sampling.include_stop},
                   {"stop_token_ids", sampling.stop_token_ids},
                   {"seed", sampling.seed}});
}

Result<OwnedFd> MemoryFile(const char* name) {
  OwnedFd file(::memfd_create(name, MFD_CLOEXEC));
  if (file.get() < 0) return Unavailable(std::string("memfd_create: ") + std::strerror(errno));
  return file;
}

std::string DescriptorPath(const OwnedFd& file) {
  return fmt::format("/proc/self/fd/{}", file.get());
}

// Runs `rollout_worker generate` on the rows and returns what it prints.
Result<std::string> GeneratedBy(const std::string& model, ModelDtype dtype,
                                const std::string& rows) {
  BUTTRESS_ASSIGN_OR_RETURN(const OwnedFd in, MemoryFile("turns"));
  BUTTRESS_ASSIGN_OR_RETURN(const OwnedFd out, MemoryFile("answers"));
  BUTTRESS_RETURN_IF_ERROR(AppendToFile(DescriptorPath(in), rows));
  std::vector<std::string> environment;
  for (char** variable = environ; *variable != nullptr; ++variable)
    environment.emplace_back(*variable);
  BUTTRESS_ASSIGN_OR_RETURN(
      const pid_t pid,
      Spawn({.argv = {SiblingProgram("rollout_worker"), "generate", "--model", model, "--dtype",
                      std::string(ChoiceName(dtype)), "--json", "/dev/stdin"},
             .environment = std::move(environment),
             .fds = {in.get(), out.get(), STDERR_FILENO}}));
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return Unavailable("`rollout_worker generate` failed with the model " + model +
                       "; its error is above");
  return ReadFile(DescriptorPath(out), kMaxAnswerBytes);
}

Result<std::vector<std::vector<std::int32_t>>> SampleTurns(const std::string& model,
                                                           ModelDtype dtype,
                                                           const std::vector<RecordedTurn>& turns) {
  std::string rows;
  for (std::size_t i = 0; i < turns.size(); ++i) rows += GenerateRow(turns[i], i);
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, GeneratedBy(model, dtype, rows));
  std::istringstream lines(text);
  std::vector<std::vector<std::int32_t>> answers;
  for (std::string line; std::getline(lines, line);) {
    const ordered_json row = ordered_json::parse(line, nullptr, false);
    if (!row.is_object() || !row.contains("token_ids")) continue;
    answers.push_back(row["token_ids"].get<std::vector<std::int32_t>>());
  }
  if (answers.size() != turns.size())
    return DataLoss(fmt::format("`rollout_worker generate` answered {} of {} turns", answers.size(),
                                turns.size()));
  return answers;
}

}  // namespace

void AddTurnsOf(const v1::Group& group, RecordedTurns& turns) {
  const std::vector<std::int32_t> offsets = EpisodeOffsets(group.head());
  std::vector<int> next(CompletionsOf(group.head()), 0);  // turn of a completion
  for (const v1::Turn& turn : group.turns()) {
    const int index = next[static_cast<std::size_t>(turn.completion())]++;
    const auto end = std::ranges::upper_bound(offsets, turn.completion());
    const std::optional<int> version = OneVersionOf(group, turn);
    if (*end - *(end - 1) > 1) {
      ++turns.in_branches;
    } else if (!version) {
      ++turns.of_several;
    } else {
      const auto episode = static_cast<int>(end - 1 - offsets.begin());
      turns.turns.push_back(RecordedTurnOf(group, turn, episode, index, *version));
    }
  }
}

Status ReplayTurns(const TurnReplayFlags& flags) {
  BUTTRESS_ASSIGN_OR_RETURN(const RunConfig config,
                            LoadRunConfig(StoredConfigPath(flags.folder), {}));
  if (!config.run.env.on())
    return InvalidArgument(flags.folder +
                           ": its completions are no episodes (run.env.kind: single); replay "
                           "without --episodes computes their advantages");
  if (flags.model.empty() && config.local.worker.engine == EngineKind::kVllm)
    return InvalidArgument(
        "vLLM sampled this run, by random numbers of its own; name a --model to see what that "
        "answers to the recorded conversations");
  BUTTRESS_ASSIGN_OR_RETURN(const RecordedTurns recorded, ReadTurns(flags));
  if (recorded.turns.empty())
    return FailedPrecondition(fmt::format(
        "{} has no turn of {} with its tokens; those behind a checkpoint are deleted unless "
        "local.coordinator.keep_payloads is true",
        flags.folder,
        flags.model.empty() ? "the start model (--model names another)" : "episodes"));
  const std::string model = flags.model.empty() ? config.run.model.path : flags.model;
  BUTTRESS_ASSIGN_OR_RETURN(const auto answers,
                            SampleTurns(model, config.run.model.dtype, recorded.turns));
  const std::unique_ptr<Tokenizer> tokenizer = LoadRunTokenizer(flags.folder, model);
  TurnReport report(flags.json, tokenizer.get());
  for (std::size_t i = 0; i < answers.size(); ++i) report.Add(recorded.turns[i], answers[i]);
  std::fputs(report.Summary(recorded, model).c_str(), stdout);
  return OkStatus();
}

}  // namespace buttress
