#include "cli/keep/fork_source.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "lib/base/os/file.h"
#include "lib/base/text/digest.h"
#include "lib/config/load.h"
#include "lib/ledger/lineage_rows.h"
#include "lib/ledger/reader.h"
#include "lib/weights/checkpoint_folder.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

std::uint64_t NumberIn(const ordered_json& state, const char* name) {
  const auto number = state.find(name);
  return number != state.end() && number->is_number_unsigned() ? number->get<std::uint64_t>() : 0;
}

// What the ledger of a run has of its checkpoints.
class KnownCheckpoints {
 public:
  static Result<KnownCheckpoints> Read(const std::string& folder) {
    BUTTRESS_ASSIGN_OR_RETURN(const auto reader, LedgerReader::Open(JoinPath(folder, "ledger.db")));
    KnownCheckpoints known;
    BUTTRESS_ASSIGN_OR_RETURN(known.reported_, reader->Checkpoints());
    BUTTRESS_ASSIGN_OR_RETURN(known.learners_, reader->Learners());
    return known;
  }

  // Returns why the run may not go on from the checkpoint; empty if it may.
  std::string WhyNot(const std::string& checkpoint) const {
    const auto text =
        ReadFile(JoinPath(checkpoint, kCheckpointStateName), kMaxCheckpointStateBytes);
    const auto state = ReadCheckpointState(checkpoint);
    if (!text.ok() || !state.ok()) return "it is damaged";
    if (WasReplaced({NumberIn(*state, "learner_epoch"), NumberIn(*state, "step"), ""}, learners_))
      return "it was written by a learner that had been replaced, or the run went back behind it";
    const std::string digest = Sha256Of(*text);
    const bool known =
        std::ranges::any_of(reported_,
                            [&](const CheckpointRow& row) { return row.digest == digest; }) ||
        std::ranges::any_of(learners_, [&](const LearnerRow& learner) {
          return learner.checkpoint_digest == digest;
        });
    return known ? "" : "its learner has not reported it, or it is newer than the ledger";
  }

 private:
  std::vector<CheckpointRow> reported_;
  std::vector<LearnerRow> learners_;
};

// Chooses the newest of `steps`, newest first, that the ledger knows.
Status ChooseNewest(const std::vector<std::int64_t>& steps, const std::string& from,
                    ForkSource& source) {
  source.step = steps.front();
  const auto known = KnownCheckpoints::Read(source.folder);
  if (!known.ok()) {
    source.note = fmt::format(
        "the newest checkpoint is taken, of step {}, since no ledger says "
        "whether its run knows it ({})",
        source.step, known.status().message());
    return OkStatus();
  }
  std::vector<std::string> passed;
  for (const std::int64_t step : steps) {
    source.step = step;
    const std::string why = known->WhyNot(source.checkpoint());
    if (why.empty()) {
      if (!passed.empty())
        source.note = "passed over: " + fmt::format("{}", fmt::join(passed, "; "));
      return OkStatus();
    }
    passed.push_back(fmt::format("the checkpoint of step {}, because {}", step, why));
  }
  return InvalidArgument(fmt::format(
      "--from {}: the ledger in {} knows none of the checkpoints there: {}; name the one to begin "
      "with, as in --from {}@{}",
      from, source.folder, fmt::join(passed, "; "), source.folder, steps.front()));
}

// Whoever names a step may take what the ledger does not know.
void NoteUnknown(ForkSource& source) {
  const auto known = KnownCheckpoints::Read(source.folder);
  if (!known.ok()) return;
  const std::string why = known->WhyNot(source.checkpoint());
  if (!why.empty())
    source.note =
        fmt::format("the ledger of {} does not stand for this checkpoint: {}", source.folder, why);
}

}  // namespace

std::string ForkSource::checkpoint() const {
  return CheckpointFolderOf(JoinPath(folder, "checkpoint"), step);
}

Result<ordered_json> ReadCheckpointState(const std::string& checkpoint) {
  const std::string path = JoinPath(checkpoint, kCheckpointStateName);
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxCheckpointStateBytes));
  auto json = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("run_id") || !json["run_id"].is_string())
    return DataLoss(path + " is not the state of a checkpoint");
  return json;
}

Result<ForkSource> FindForkSource(const std::string& from) {
  ForkSource source;
  std::string run = from;
  const std::size_t at = from.rfind('@');
  const char* end = from.data() + from.size();
  source.newest =
      at == std::string::npos || std::from_chars(from.data() + at + 1, end, source.step).ptr != end;
  if (!source.newest) run.resize(at);
  std::error_code ignored;
  source.folder = run;
  if (!fs::is_directory(run, ignored)) {
    auto config = LoadRunConfig(run, {});
    if (!config.ok()) return config.status().Annotate("--from " + from);
    source.folder = config->local.out;
  }
  const std::vector<std::int64_t> steps = CheckpointSteps(JoinPath(source.folder, "checkpoint"));
  if (steps.empty()) {
    return InvalidArgument(fmt::format(
        "--from {}: {}/checkpoint has no checkpoint; name the folder of a run that has one", from,
        source.folder));
  }
  if (source.newest) {
    BUTTRESS_RETURN_IF_ERROR(ChooseNewest(steps, from, source));
  }
  // The new run may have begun before the checkpoint of its step was deleted.
  ForkSource named = source;
  if (std::ranges::count(steps, source.step) == 0) named.step = steps.front();
  BUTTRESS_ASSIGN_OR_RETURN(const ordered_json state, ReadCheckpointState(named.checkpoint()));
  source.run_id = state["run_id"];
  if (!source.newest && named.step == source.step) NoteUnknown(source);
  return source;
}

}  // namespace buttress
