// `buttress task countdown` and `buttress task arithmetic`: generate problems, split into training
// and held-out problems by canonical form, and pairs for supervised fine-tuning.
#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "cli/prepare/arithmetic_task.h"
#include "cli/prepare/countdown_task.h"
#include "cli/prepare/task_files.h"
#include "lib/base/os/file.h"
#include "lib/config/choice_option.h"

namespace buttress {
namespace {

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
  app.add_option("--held-out-share", flags.files.held_out_share,
                 "share of all problems that is held out from training")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--solution-share", flags.files.solution_share,
                 "share of correct responses in sft.jsonl; the rest are random")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--seed", flags.files.seed,
                 "seed of the generated problems; the split does not depend on it")
      ->capture_default_str();
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
  app.add_option("--numbers", flags->kind.numbers, "numbers of a problem")->capture_default_str();
  app.add_option("--operators", flags->kind.operators, "operators of a problem")
      ->capture_default_str();
  app.add_option("--mix", flags->mix,
                 "SHARE:NUMBERS:OPERATORS of one kind of problem; may be repeated and replaces "
                 "--numbers and --operators");
  app.add_option("--number-min", flags->countdown.min_number, "smallest number")
      ->capture_default_str();
  app.add_option("--number-max", flags->countdown.max_number, "largest number")
      ->capture_default_str();
  app.add_option("--target-min", flags->countdown.min_target, "smallest target")
      ->capture_default_str();
  app.add_option("--target-max", flags->countdown.max_target, "largest target")
      ->capture_default_str();
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
  app.add_option("--digits", flags->arithmetic.digits, "maximum digits of an operand")
      ->capture_default_str();
  app.add_option("--operators", flags->arithmetic.operators, "operators to use, from + - *")
      ->capture_default_str();
  return [flags] {
    flags->arithmetic.format = flags->task.format;
    return Write(MakeArithmeticTask(flags->arithmetic), flags->task);
  };
}

}  // namespace

std::function<Status()> AddTask(CLI::App& app) {
  app.require_subcommand(1);
  CLI::App& countdown_app = *app.add_subcommand("countdown", "reach a target with given numbers");
  CLI::App& arithmetic_app =
      *app.add_subcommand("arithmetic", "sums, differences and products of two numbers");
  return [&countdown_app, countdown = AddCountdown(countdown_app),
          arithmetic = AddArithmetic(arithmetic_app)] {
    return countdown_app.parsed() ? countdown() : arithmetic();
  };
}

}  // namespace buttress
