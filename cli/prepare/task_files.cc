#include "cli/prepare/task_files.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <set>

#include "lib/base/os/file.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

constexpr int kMaxTries = 10000;
constexpr std::uint64_t kHashSalt = 0;

enum class Split { kTraining, kHeldOut };

// Draws a problem from one side of the split.
Result<TaskProblem> DrawFrom(const Task& task, Split split, double held_out_share,
                             RandomStream& random) {
  for (int i = 0; i < kMaxTries; ++i) {
    BUTTRESS_ASSIGN_OR_RETURN(TaskProblem problem, task.Draw(random));
    if (IsHeldOut(problem.canonical, held_out_share) == (split == Split::kHeldOut)) return problem;
  }
  return InvalidArgument(
      fmt::format("{} held-out problems in {} draws; make the problems larger or change "
                  "--held-out-share",
                  split == Split::kHeldOut ? "no" : "only", kMaxTries));
}

std::string PromptRow(const Task& task, std::string_view split, std::int64_t index,
                      const TaskProblem& problem) {
  const std::string name(task.name());
  const ordered_json row{{"id", name + "-" + std::string(split) + "-" + std::to_string(index)},
                         {"prompt", problem.prompt},
                         {"answer", problem.answer},
                         {"source", name}};
  return row.dump() + "\n";
}

RandomStream StreamOf(const TaskFileOptions& options, std::string_view file) {
  return RandomStream({.seed = options.seed, .stream = HashText(file)});
}

Result<std::string> TrainRows(const Task& task, const TaskFileOptions& options) {
  RandomStream random = StreamOf(options, "train");
  std::string rows;
  for (std::int64_t i = 0; i < options.train; ++i) {
    BUTTRESS_ASSIGN_OR_RETURN(const TaskProblem problem,
                              DrawFrom(task, Split::kTraining, options.held_out_share, random));
    rows += PromptRow(task, "train", i, problem);
  }
  return rows;
}

Result<std::string> HeldOutRows(const Task& task, const TaskFileOptions& options) {
  RandomStream random = StreamOf(options, "held_out");
  std::set<std::string> prompts;
  std::string rows;
  int tries = 0;
  while (static_cast<std::int64_t>(prompts.size()) < options.held_out) {
    BUTTRESS_ASSIGN_OR_RETURN(const TaskProblem problem,
                              DrawFrom(task, Split::kHeldOut, options.held_out_share, random));
    if (prompts.insert(problem.prompt).second) {
      rows += PromptRow(task, "held-out", static_cast<std::int64_t>(prompts.size()) - 1, problem);
      tries = 0;
    } else if (++tries == kMaxTries) {
      return InvalidArgument(
          fmt::format("--held-out = {}, but only {} distinct held-out prompts were found; ask for "
                      "fewer or make the problems larger",
                      options.held_out, prompts.size()));
    }
  }
  return rows;
}

Result<std::string> SftRows(const Task& task, const TaskFileOptions& options) {
  RandomStream random = StreamOf(options, "sft");
  std::string rows;
  for (std::int64_t i = 0; i < options.sft; ++i) {
    BUTTRESS_ASSIGN_OR_RETURN(const TaskProblem problem,
                              DrawFrom(task, Split::kTraining, options.held_out_share, random));
    const bool solved = random.Uniform() < options.solution_share;
    rows += ordered_json{{"prompt", problem.prompt},
                         {"response", solved ? problem.solution : problem.guess}}
                .dump() +
            "\n";
  }
  return rows;
}

}  // namespace

bool IsHeldOut(std::string_view canonical, double held_out_share) {
  return UniformAt({.seed = HashText(canonical), .stream = kHashSalt}, 0) < held_out_share;
}

Status WriteTask(const Task& task, const TaskFileOptions& options, const std::string& folder) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::string train, TrainRows(task, options));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string held_out, HeldOutRows(task, options));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string sft, SftRows(task, options));
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(folder));
  BUTTRESS_RETURN_IF_ERROR(WriteFileAtomic(JoinPath(folder, "train.jsonl"), train));
  BUTTRESS_RETURN_IF_ERROR(WriteFileAtomic(JoinPath(folder, "held_out.jsonl"), held_out));
  return WriteFileAtomic(JoinPath(folder, "sft.jsonl"), sft);
}

}  // namespace buttress
