// `buttress ledger rewind DIR --reason TEXT [--yes]`.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/operations/ledger_commands.h"
#include "cli/operations/rewind.h"

namespace buttress {
namespace {

struct RewindFlags {
  RewindRequest request;
  bool yes = false;
  bool json = false;
};

std::string LossJson(const RewindLoss& loss, bool done) {
  return nlohmann::ordered_json{{"done", done},
                                {"needed", loss.needed()},
                                {"older", loss.older},
                                {"checkpoint_step", loss.checkpoint_step},
                                {"planned_step", loss.planned_step},
                                {"lost_step", loss.lost_step},
                                {"lost_groups", loss.lost_groups},
                                {"missing_payloads", loss.missing_payloads},
                                {"checkpoints", loss.checkpoints},
                                {"aside", loss.aside}}
             .dump() +
         "\n";
}

std::string LossText(const RewindLoss& loss) {
  std::string text = loss.older.empty()
                         ? std::string("the ledger is older than the newest checkpoint\n")
                         : fmt::format("the ledger is older than the run: {}\n", loss.older);
  text += loss.checkpoint_step == 0
              ? std::string("the learner begins with the start model again\n")
              : fmt::format("the learner goes on from the checkpoint of step {}\n",
                            loss.checkpoint_step);
  if (loss.lost_step > loss.checkpoint_step) {
    text +=
        fmt::format("lost: the training of steps {} to {}; the ledger has plans up to step {}\n",
                    loss.checkpoint_step + 1, loss.lost_step, loss.planned_step);
  }
  text += fmt::format(
      "lost: {} accepted groups that the ledger does not know; their payloads go to "
      "{}\n",
      loss.lost_groups, loss.aside);
  if (loss.missing_payloads > 0) {
    text += fmt::format(
        "lost: {} groups that the ledger knows, because their payloads are deleted; "
        "others take their places\n",
        loss.missing_payloads);
  }
  for (const std::string& folder : loss.checkpoints)
    text += fmt::format("to be moved aside, not deleted: {}\n", folder);
  return text;
}

// Asks on a terminal.
bool Confirmed() {
  std::fputs("go on with the older ledger? [yes/no] ", stdout);
  std::fflush(stdout);
  std::string answer;
  return std::getline(std::cin, answer) && answer == "yes";
}

Status RunRewind(const RewindFlags& flags) {
  if (flags.request.reason.empty())
    return InvalidArgument("--reason is empty; the audit names it as the account of the loss");
  BUTTRESS_ASSIGN_OR_RETURN(Rewind rewind, Rewind::Plan(flags.request));
  const RewindLoss& loss = rewind.loss();
  const bool asks = loss.needed() && !flags.yes && !flags.json && isatty(STDIN_FILENO) != 0;
  if (!flags.json)
    std::fputs(loss.needed() ? LossText(loss).c_str()
                             : "ledger and checkpoints agree; there is nothing to rewind\n",
               stdout);
  const bool goes_on = loss.needed() && (flags.yes || (asks && Confirmed()));
  if (goes_on) BUTTRESS_RETURN_IF_ERROR(rewind.Apply());
  if (flags.json) std::fputs(LossJson(loss, goes_on).c_str(), stdout);
  if (goes_on && !flags.json) std::puts("rewound; start the run again");
  if (goes_on || !loss.needed()) return OkStatus();
  return InvalidArgument("nothing was changed; add --yes to go on with the older ledger");
}

}  // namespace

std::function<Status()> AddLedgerRewind(CLI::App& app) {
  const auto flags = std::make_shared<RewindFlags>();
  app.add_option("dir", flags->request.folder, "run folder; nothing of the run may be going on")
      ->required();
  app.add_option("--reason", flags->request.reason, "why; the audit shows it")->required();
  app.add_option("--learner", flags->request.learner_folder,
                 "local.out of the learner, if it is another folder");
  app.add_flag("--yes", flags->yes, "do not ask");
  app.add_flag("--json", flags->json, "print one JSON object; without --yes nothing is changed");
  app.footer(
      "Says what is lost, asks, and moves what the ledger does not know aside. Deletes nothing.\n"
      "Exit code 2 if nothing was changed and something would be.");
  return [flags] { return RunRewind(*flags); };
}

}  // namespace buttress
