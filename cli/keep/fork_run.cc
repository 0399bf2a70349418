#include "cli/keep/fork_run.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <tuple>

#include "cli/keep/fork_source.h"
#include "cli/keep/run_folder.h"
#include "lib/base/net/secret.h"
#include "lib/base/os/file.h"
#include "lib/base/text/digest.h"
#include "lib/config/load.h"
#include "lib/config/run_folder.h"
#include "lib/config/run_identity.h"
#include "lib/config/sources.h"
#include "lib/data/prompt_set.h"
#include "lib/ledger/ledger.h"
#include "lib/ledger/reader.h"
#include "lib/policy/model_config.h"
#include "lib/tokenizer/tokenizer.h"
#include "lib/weights/checkpoint_folder.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// Puts the checkpoint of `source` into the folder of the new run, under its run id: the large files
// are linked, or copied to another file system. Returns the digests of both states.
struct CarriedCheckpoint {
  std::string origin_digest;
  std::string digest;
};

Result<CarriedCheckpoint> CarryCheckpoint(const ForkSource& source, const std::string& part,
                                          const std::string& run_id, const RunConfig& config) {
  const std::string checkpoints = JoinPath(source.folder, "checkpoint");
  const auto name_others = [&](const std::string& what) {
    return InvalidArgument(fmt::format("--from: {}; the checkpoints of {} are those of steps {}",
                                       what, source.folder,
                                       fmt::join(CheckpointSteps(checkpoints), ", ")));
  };
  const std::string target = CheckpointFolderOf(JoinPath(part, "checkpoint"), source.step);
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(target));
  std::error_code error;
  fs::directory_iterator files(source.checkpoint(), error);
  if (error) return name_others(fmt::format("there is no checkpoint of step {}", source.step));
  for (const fs::directory_entry& file : files) {
    const std::string to = JoinPath(target, file.path().filename().string());
    BUTTRESS_RETURN_IF_ERROR(LinkOrCopy(file.path().string(), to));
  }
  const auto identity = VerifyCheckpoint(target);
  if (!identity.ok()) {
    return name_others(fmt::format("the checkpoint of step {} cannot be used: {}", source.step,
                                   identity.status().message()));
  }
  BUTTRESS_ASSIGN_OR_RETURN(ordered_json state, ReadCheckpointState(target));
  state["run_id"] = run_id;
  state["learner_epoch"] = 0;
  state["learner_sha256"] = "";
  state["seed"] = config.run.seed;
  state["config_sha256"] = RunIdentityHash(config);
  const std::string text = state.dump(2) + "\n";
  BUTTRESS_RETURN_IF_ERROR(WriteFileAtomic(JoinPath(target, kCheckpointStateName), text));
  return CarriedCheckpoint{identity->digest, Sha256Of(text)};
}

Status CheckModel(const ForkSource& source, const std::optional<RunConfig>& was,
                  const RunConfig& is) {
  if (!was) return OkStatus();  // a learner refuses tensors of another shape
  BUTTRESS_ASSIGN_OR_RETURN(const ModelConfig now, LoadModelConfig(is.run.model.path));
  const auto then = LoadModelConfig(was->run.model.path);
  const auto shape = [](const ModelConfig& model) {
    return std::tuple(model.architecture, model.vocab_size, model.hidden_size, model.blocks.size(),
                      model.blocks.empty() ? 0 : model.blocks[0].F, model.tie_word_embeddings);
  };
  const bool same = !then.ok() || shape(*then) == shape(now);
  if (same && was->run.model.dtype == is.run.model.dtype) return OkStatus();
  return InvalidArgument(fmt::format(
      "--from: the checkpoints of {} are of the model {} in {}; run.model names {} in {}; name a "
      "model of the same architecture, sizes and dtype",
      source.folder, was->run.model.path, ChoiceName(was->run.model.dtype), is.run.model.path,
      ChoiceName(is.run.model.dtype)));
}

// Where the other run stood after step `source.step`.
struct Position {
  std::map<std::string, SourceRow> sources;
  std::optional<double> acr_ema;
};

// The last prompt that a source gave to a step that the checkpoint contains.
struct LastDraw {
  std::uint64_t drawn = 0;
  std::uint64_t pass = 0;
  std::uint64_t row = 0;  // counted through all sources
};

Result<std::optional<double>> AcrEmaAfter(LedgerReader& reader, const RunRow& run,
                                          std::uint64_t step) {
  if (run.planned_step == step) return run.acr_ema;
  BUTTRESS_ASSIGN_OR_RETURN(const auto plans, reader.Plans());
  const auto next = plans.find(step + 1);
  return next == plans.end() ? std::nullopt : std::optional(next->second.collapse.acr_ema);
}

// The dataset that has a row, counted through all. A group's own source is a field of its row and
// need not be the name of the dataset.
std::size_t DatasetOf(const std::vector<SourceRow>& datasets, std::uint64_t row) {
  std::size_t i = 0;
  while (i + 1 < datasets.size() && row >= datasets[i].dataset.rows)
    row -= datasets[i++].dataset.rows;
  return i;
}

Result<Position> FindPosition(const ForkSource& source, const RunConfig& was) {
  const auto step = static_cast<std::uint64_t>(source.step);
  BUTTRESS_ASSIGN_OR_RETURN(const auto reader,
                            LedgerReader::Open(JoinPath(source.folder, "ledger.db")));
  BUTTRESS_ASSIGN_OR_RETURN(const std::optional<RunRow> run, reader->Run());
  if (!run || run->planned_step < step || run->run_id != source.run_id)
    return NotFound(fmt::format("its ledger does not know step {} of the run", step));
  BUTTRESS_ASSIGN_OR_RETURN(const std::optional<OriginRow> origin, reader->Origin());
  std::vector<LastDraw> draws(run->sources.size()), of_steps = draws;
  BUTTRESS_RETURN_IF_ERROR(reader->ForEachGroup([&](const GroupRecord& record) {
    const GroupRow& group = record.group;
    LastDraw& draw = draws.at(DatasetOf(run->sources, group.prompt.row));
    draw = {draw.drawn + 1, group.prompt.pass, group.prompt.row};
    if (group.step != 0 && group.step <= step) of_steps = draws;
  }));
  Position position;
  BUTTRESS_ASSIGN_OR_RETURN(position.acr_ema, AcrEmaAfter(*reader, *run, step));
  std::uint64_t first_row = 0;
  for (std::size_t i = 0; i < run->sources.size(); ++i) {
    const SourceRow& known = run->sources[i];
    const LastDraw& last = of_steps[i];
    SourceRow& row = position.sources[known.name] = known;
    row.cursor = origin ? origin->cursors.at(known.name) : PromptCursor();
    if (last.drawn > 0) {
      std::uint64_t index = last.row - first_row;
      if (was.run.data.shuffle) {
        const auto order = PromptOrder(was.run.seed, known.name, last.pass, known.dataset.rows);
        index = static_cast<std::uint64_t>(std::ranges::find(order, index) - order.begin());
      }
      row.cursor = {last.pass, index + 1, row.cursor.drawn + last.drawn};
    }
    first_row += known.dataset.rows;
  }
  return position;
}

// Sets where the new run begins to draw, and says so.
std::string PlacePrompts(const Result<Position>& position, bool same_order, RunRow& run) {
  if (!position.ok()) return "prompts are drawn from the beginning: " + position.status().message();
  run.acr_ema = position->acr_ema;
  bool all = same_order;
  for (SourceRow& source : run.sources) {
    const auto known = position->sources.find(source.name);
    const bool same =
        same_order && known != position->sources.end() && known->second.dataset == source.dataset;
    if (same) source.cursor = known->second.cursor;
    all = all && same;
  }
  return all ? "prompts continue behind those of that step"
             : "prompts of other data or in another order are drawn from the beginning";
}

// Builds the folder of the new run in `part`. Returns where its prompts begin.
Result<std::string> Build(const ForkSource& source, const RunConfig& config,
                          const std::string& part) {
  const auto stored = LoadRunConfig(StoredConfigPath(source.folder), {});
  const std::optional<RunConfig> was = stored.ok() ? std::optional(*stored) : std::nullopt;
  BUTTRESS_RETURN_IF_ERROR(CheckModel(source, was, config));
  RunRow run;
  run.run_id = ToHex(MakeSecret()).substr(0, 32);
  run.run_name = config.run.name;
  run.config_sha256 = RunIdentityHash(config);
  const auto step = static_cast<std::uint64_t>(source.step);
  run.planned_step = run.committed_step = run.checkpoint_step = run.settled_step = step;
  BUTTRESS_ASSIGN_OR_RETURN(const CarriedCheckpoint carried,
                            CarryCheckpoint(source, part, run.run_id, config));
  BUTTRESS_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(config.run.model.path));
  BUTTRESS_ASSIGN_OR_RETURN(const PromptSet prompts,
                            PromptSet::Open(config.run, *tokenizer, JoinPath(part, "data")));
  if (StepsOf(config.run, prompts.size()) <= source.step) {
    return InvalidArgument(
        fmt::format("--from: the new run begins after step {}, and ends with step {}; raise "
                    "run.steps or run.epochs",
                    source.step, StepsOf(config.run, prompts.size())));
  }
  for (const PromptSet::Source& own : prompts.sources())
    run.sources.push_back({own.settings.name, {own.file->size(), own.file->sha256()}, {}});
  const Result<Position> position =
      was ? FindPosition(source, *was)
          : Result<Position>(NotFound("it has no " + StoredConfigPath("folder")));
  const bool same_order =
      was && was->run.seed == config.run.seed && was->run.data.shuffle == config.run.data.shuffle;
  const std::string prompts_begin = PlacePrompts(position, same_order, run);
  LedgerChanges changes;
  changes.run = run;
  changes.checkpoints = {{0, step, carried.digest}};
  changes.origin = {source.run_id, step, carried.origin_digest, {}};
  for (const SourceRow& row : run.sources) changes.origin->cursors[row.name] = row.cursor;
  BUTTRESS_ASSIGN_OR_RETURN(const auto ledger, Ledger::Open(JoinPath(part, "ledger.db")));
  BUTTRESS_RETURN_IF_ERROR(ledger->Write(changes));
  return prompts_begin;
}

// Returns the origin of the run in `folder`; nullopt if it has none, or there is no run.
std::optional<OriginRow> OriginOf(const std::string& folder) {
  const auto reader = LedgerReader::Open(JoinPath(folder, "ledger.db"));
  if (!reader.ok()) return std::nullopt;
  const auto origin = (*reader)->Origin();
  return origin.ok() ? *origin : std::nullopt;
}

}  // namespace

Result<std::string> ForkRun(const std::string& from, const RunConfig& config) {
  BUTTRESS_ASSIGN_OR_RETURN(const ForkSource source, FindForkSource(from));
  const std::string& out = config.local.out;
  std::error_code ignored;
  if (fs::exists(out, ignored) && !fs::is_empty(out, ignored)) {
    const std::optional<OriginRow> origin = OriginOf(out);
    if (origin && origin->run_id == source.run_id &&
        (source.newest || origin->step == static_cast<std::uint64_t>(source.step)))
      return fmt::format("the run in {} has begun from step {} of {}, and continues", out,
                         origin->step, source.folder);
    return FailedPrecondition(fmt::format(
        "{} is in use, and not by a run from {}; set local.out to another folder, or move it aside "
        "with --fresh",
        out, from));
  }
  const std::string part = out + ".part";
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(part));
  BUTTRESS_ASSIGN_OR_RETURN(const FolderLock lock, FolderLock::Take(part));
  for (const fs::directory_entry& left : fs::directory_iterator(part, ignored)) {
    if (left.path().filename() != FolderLock::kName) fs::remove_all(left.path(), ignored);
  }
  const Result<std::string> prompts = Build(source, config, part);
  if (!prompts.ok()) {
    fs::remove_all(part, ignored);
    return prompts.status();
  }
  BUTTRESS_RETURN_IF_ERROR(PublishFolder(part, out));
  return fmt::format("a new run from step {} of {}: {}{}{}", source.step, source.folder, *prompts,
                     source.note.empty() ? "" : "; ", source.note);
}

}  // namespace buttress
