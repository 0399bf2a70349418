// `buttress task`. Countdown and arithmetic generate problems, split into training and held-out
// problems by canonical form, and pairs for supervised fine-tuning.
#include "cli/prepare/task.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/command.h"
#include "lib/base/os/file.h"
#include "lib/config/choice_option.h"

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

struct TaskFlags {
  std::string folder;
  PromptFormat format = PromptFormat::kCompact;
  TaskFileOptions files;
};

void AddTaskFlags(CLI::App& app, TaskFlags& flags) {
  app.add_option("--out", flags.folder, "folder for train.jsonl, held_out.jsonl and sft.jsonl")
      ->required();
  AddChoice(app, "--format", flags.format, "form of the prompts");
  app.add_option("--train", flags.files.train, "rows of train.jsonl")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--held-out", flags.files.held_out, "rows of held_out.jsonl, all distinct")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--sft", flags.files.sft, "rows of sft.jsonl")->check(CLI::NonNegativeNumber);
  app.option_defaults()->always_capture_default();
  app.add_option("--held-out-share", flags.files.held_out_share,
                 "share of all problems that is held out from training")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--solution-share", flags.files.solution_share,
                 "share of correct responses in sft.jsonl; the rest are random")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--seed", flags.files.seed,
                 "seed of the generated problems; the split does not depend on it");
}

Status Write(const Result<std::unique_ptr<Task>>& task, const TaskFlags& flags) {
  BUTTRESS_RETURN_IF_ERROR(task.status());
  BUTTRESS_RETURN_IF_ERROR(WriteTask(**task, flags.files, flags.folder));
  fmt::print("{}: {}/train.jsonl {}, held_out.jsonl {}, sft.jsonl {} rows\n", (*task)->name(),
             flags.folder, flags.files.train, flags.files.held_out, flags.files.sft);
  return OkStatus();
}

std::function<Status()> AddCountdown(CLI::App& app) {
  struct Flags {
    TaskFlags task;
    CountdownOptions countdown;
    CountdownKind kind;
    std::vector<std::string> mix;
    bool use_all = false;
  };

  const auto flags = std::make_shared<Flags>();
  AddTaskFlags(app, flags->task);
  app.add_option("--numbers", flags->kind.numbers, "numbers of a problem");
  app.add_option("--operators", flags->kind.operators, "operators of a problem");
  app.add_option("--mix", flags->mix,
                 "SHARE:NUMBERS:OPERATORS of one kind of problem; may be repeated and replaces "
                 "--numbers and --operators")
      ->default_str("");
  app.add_option("--number-min", flags->countdown.min_number, "smallest number");
  app.add_option("--number-max", flags->countdown.max_number, "largest number");
  app.add_option("--target-min", flags->countdown.min_target, "smallest target");
  app.add_option("--target-max", flags->countdown.max_target, "largest target");
  app.add_flag("--use-all", flags->use_all,
               "use every number exactly once (run.reward.use_all) instead of at most once");
  return [flags]() -> Status {
    flags->countdown.format = flags->task.format;
    flags->countdown.use = flags->use_all ? NumberUse::kExactlyOnce : NumberUse::kAtMostOnce;
    flags->countdown.kinds.clear();
    for (const std::string& text : flags->mix) {
      BUTTRESS_ASSIGN_OR_RETURN(CountdownKind kind, ParseCountdownKind(text));
      flags->countdown.kinds.push_back(std::move(kind));
    }
    if (flags->mix.empty()) flags->countdown.kinds.push_back(flags->kind);
    return Write(MakeCountdownTask(flags->countdown), flags->task);
  };
}

std::function<Status()> AddArithmetic(CLI::App& app) {
  struct Flags {
    TaskFlags task;
    ArithmeticOptions arithmetic;
  };

  const auto flags = std::make_shared<Flags>();
  AddTaskFlags(app, flags->task);
  app.add_option("--digits", flags->arithmetic.digits, "maximum digits of an operand");
  app.add_option("--operators", flags->arithmetic.operators, "operators to use, from + - *");
  return [flags] {
    flags->arithmetic.format = flags->task.format;
    return Write(MakeArithmeticTask(flags->arithmetic), flags->task);
  };
}

std::function<Status()> AddGuess(CLI::App& app) {
  struct Flags {
    std::string folder;
    GuessTaskOptions guess;
  };

  const auto flags = std::make_shared<Flags>();
  app.add_option("--out", flags->folder, "folder for train.jsonl and sft.jsonl")->required();
  app.option_defaults()->always_capture_default();
  app.add_option("--max", flags->guess.max, "numbers are 1 to this (run.env.guess_max)")
      ->check(CLI::Range(2, 1000000));
  app.add_option("--turns", flags->guess.turns, "guesses of a game in sft.jsonl at most")
      ->check(CLI::PositiveNumber);
  app.add_option("--sft", flags->guess.sft, "games in sft.jsonl, whose guesses are random")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--seed", flags->guess.seed, "seed of the games");
  return [flags]() -> Status {
    BUTTRESS_RETURN_IF_ERROR(WriteGuessTask(flags->guess, flags->folder));
    fmt::print("guess: {}/train.jsonl {}, sft.jsonl {} rows\n", flags->folder, flags->guess.max,
               flags->guess.sft);
    return OkStatus();
  };
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

std::function<Status()> AddTask(CLI::App& app) {
  app.require_subcommand(1);
  CLI::App& countdown_app = *app.add_subcommand("countdown", "reach a target with given numbers");
  CLI::App& arithmetic_app =
      *app.add_subcommand("arithmetic", "sums, differences and products of two numbers");
  CLI::App& guess_app = *app.add_subcommand("guess", "the guessing game of run.env.name: guess");
  return [&countdown_app, &guess_app, countdown = AddCountdown(countdown_app),
          arithmetic = AddArithmetic(arithmetic_app), guess = AddGuess(guess_app)] {
    return guess_app.parsed() ? guess() : countdown_app.parsed() ? countdown() : arithmetic();
  };
}

}  // namespace buttress
