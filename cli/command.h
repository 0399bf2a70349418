// The commands of `buttress`. Each command is a row of the table in main.cc and a file of its own.
#pragma once

#include <functional>
#include <string>

#include "lib/base/report/status.h"

namespace CLI {
class App;
}

namespace buttress {

// Declares the options of a command on `app` and returns the function that runs the command after
// the options are parsed. That function returns kCancelled after an interrupt and a clean stop.
using AddCommand = std::function<Status()> (*)(CLI::App& app);

// The status of a command that a condition of the user ends (--fail-if). Its exit code is 1.
inline Status ConditionHolds(const std::string& condition) {
  return FailedPrecondition("the condition holds: " + condition);
}

inline bool IsConditionHolds(const Status& status) {
  return status.code() == StatusCode::kFailedPrecondition &&
         status.message().starts_with("the condition holds: ");
}

struct CommandEntry {
  const char* name;
  const char* summary;
  AddCommand add;
  const char* group = "";  // heading in --help
};

std::function<Status()> AddTask(CLI::App& app);
std::function<Status()> AddNewModel(CLI::App& app);
std::function<Status()> AddVerify(CLI::App& app);
std::function<Status()> AddAuditVerifier(CLI::App& app);
std::function<Status()> AddAdvantages(CLI::App& app);
std::function<Status()> AddImport(CLI::App& app);
std::function<Status()> AddExplain(CLI::App& app);
std::function<Status()> AddLedger(CLI::App& app);
std::function<Status()> AddLedgerAudit(CLI::App& app);
std::function<Status()> AddLedgerShow(CLI::App& app);
std::function<Status()> AddLedgerDrop(CLI::App& app);
std::function<Status()> AddLedgerPrune(CLI::App& app);
std::function<Status()> AddBackup(CLI::App& app);
std::function<Status()> AddRestore(CLI::App& app);
std::function<Status()> AddReplay(CLI::App& app);
std::function<Status()> AddLaunch(CLI::App& app);
std::function<Status()> AddTrack(CLI::App& app);
std::function<Status()> AddStudy(CLI::App& app);
std::function<Status()> AddDoctor(CLI::App& app);
std::function<Status()> AddOnHost(CLI::App& app);
std::function<Status()> AddStatus(CLI::App& app);
std::function<Status()> AddCordon(CLI::App& app);
std::function<Status()> AddDrain(CLI::App& app);
std::function<Status()> AddUncordon(CLI::App& app);
std::function<Status()> AddMaxAge(CLI::App& app);
std::function<Status()> AddSamples(CLI::App& app);
std::function<Status()> AddPage(CLI::App& app);
std::function<Status()> AddCompare(CLI::App& app);
std::function<Status()> AddStop(CLI::App& app);
std::function<Status()> AddTokenize(CLI::App& app);
std::function<Status()> AddEval(CLI::App& app);
std::function<Status()> AddProbe(CLI::App& app);
std::function<Status()> AddVllmServer(CLI::App& app);
std::function<Status()> AddDetokenize(CLI::App& app);

}  // namespace buttress
