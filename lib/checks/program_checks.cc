#include "lib/checks/program_checks.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <utility>
#include <vector>

#include "lib/checks/data_checks.h"
#include "lib/checks/env_checks.h"
#include "lib/checks/machine_checks.h"
#include "lib/checks/model_checks.h"
#include "lib/checks/peer_checks.h"
#include "lib/checks/setting_pairs.h"
#include "lib/checks/vllm_checks.h"
#include "lib/config/load_credentials.h"
#include "lib/policy/context_heads.h"

namespace buttress {
namespace {

constexpr std::size_t kQuickRows = 100, kAllRows = 2000;

struct Examined {
  const RunConfig& config;
  const CheckScope scope;
  const ProcessCounts here;
  const bool is_first;
  ModelFacts model = {};  // of the first check
  Findings findings = {};

  const RunSettings& run() const { return config.run; }

  const LocalSettings& local() const { return config.local; }

  bool whole_run() const { return scope <= CheckScope::kDoctor; }
};

Program ProgramOf(CheckScope scope) {
  return scope == CheckScope::kCoordinator ? Program::kCoordinator
         : scope == CheckScope::kWorker    ? Program::kWorker
                                           : Program::kLearner;
}

// Only a run that begins writes to its folder.
void CheckRows(Examined& run) {
  const bool quick = run.scope == CheckScope::kStart;
  CheckPrompts(run.run(), run.model, quick ? kQuickRows : kAllRows, quick ? run.local().out : "",
               run.findings);
}

// A reward needs rows that can be used; a model or file that cannot be is reported already.
void CheckRewardOnRows(Examined& run) {
  if (run.model.tokenizer && run.findings.Verdict().ok())
    CheckReward(run.run(), *run.model.tokenizer, run.findings);
}

// The machine of a worker need not have the prompts, on whose rows the reward is tried.
void CheckWorkerReward(Examined& run) {
  const bool here = std::ranges::all_of(DatasetsOf(run.run()), [](const PromptDataset& dataset) {
    std::error_code error;
    return std::filesystem::exists(dataset.data.prompts, error);
  });
  if (run.model.tokenizer && here) {
    CheckReward(run.run(), *run.model.tokenizer, run.findings);
  } else {
    CheckVerifiers(run.run(), run.findings);
  }
}

// The programs read the same files, but for their tokens.
void CheckEveryCredential(Examined& run) {
  if (!run.whole_run()) return CheckCredentials(run.local(), ProgramOf(run.scope), run.findings);
  for (const Program program :
       {Program::kCoordinator, Program::kWorker, Program::kLearner, Program::kStatus}) {
    Findings own;
    CheckCredentials(run.local(), program, own);
    for (const Finding& finding : own.list()) run.findings.AddNew(finding);
  }
}

void CheckContextGroups(Examined& run) {
  const std::int64_t size = run.local().learner.context_parallel;
  if (size == 1 || !run.model.config) return;
  const std::string key = "local.learner.context_parallel";
  const Status status = CheckContext(*run.model.config, size, run.here.job());
  if (!status.ok()) return run.findings.Error(key, status.message());
  run.findings.Ok(key, fmt::format("{} groups of {} ranks divide the rows of a micro-batch",
                                   run.here.job() / size, size));
}

void CheckListeners(Examined& run) {
  std::vector<ListenSetting> all;
  const auto add = [&](bool here, const std::vector<ListenSetting>& more) {
    if (here) all.insert(all.end(), more.begin(), more.end());
  };
  add(run.whole_run() || run.scope == CheckScope::kCoordinator, CoordinatorListeners(run.local()));
  add(run.here.workers > 0, WorkerListeners(run.local()));
  add(run.whole_run() || run.scope == CheckScope::kLearner,
      LearnerListeners(run.local(), run.here.ranks, run.is_first));
  CheckPorts(all, run.findings);
}

constexpr unsigned In(std::initializer_list<CheckScope> scopes) {
  unsigned bits = 0;
  for (const CheckScope scope : scopes) bits |= 1U << static_cast<unsigned>(scope);
  return bits;
}

using enum CheckScope;

// The checks in their order, which the output has too.
constexpr struct {
  unsigned scopes;
  void (*check)(Examined&);
} kChecks[] = {
    {In({kStart, kDoctor, kCoordinator, kWorker, kLearner}),
     [](Examined& run) { run.model = CheckModel(run.run(), run.findings); }},
    {In({kStart, kDoctor, kLearner}), [](Examined& run) { CheckAdapter(run.run(), run.findings); }},
    {In({kWorker}), CheckWorkerReward},
    {In({kStart, kDoctor, kCoordinator}), CheckRows},
    {In({kStart, kDoctor}), [](Examined& run) { CheckPrograms(run.local(), run.findings); }},
    {In({kStart, kDoctor}),
     [](Examined& run) {
       if (run.here.workers > 0) CheckEnvFiles(run.run().env, run.findings);
     }},
    {In({kStart, kDoctor, kCoordinator, kWorker, kLearner}), CheckEveryCredential},
    {In({kStart, kDoctor, kCoordinator, kWorker, kLearner}), CheckListeners},
    {In({kStart, kDoctor, kCoordinator, kLearner}),
     [](Examined& run) {
       if (run.is_first) CheckDisk(run.config, run.model.parameters, run.findings);
     }},
    {In({kStart, kDoctor}), [](Examined& run) { CheckSettingPairs(run.run(), run.findings); }},
    {In({kStart, kDoctor, kLearner}), CheckContextGroups},
    {In({kStart, kDoctor, kWorker, kLearner}),
     [](Examined& run) {
       CheckMemory(run.config, run.model, run.here, ThisMachine(), run.findings);
       CheckGpus(run.config, run.model, run.here, run.findings);
     }},
    {In({kStart, kDoctor}),
     [](Examined& run) { CheckVllmLaunch(run.config, run.model, run.here, run.findings); }},
    {In({kStart, kDoctor, kLearner}),
     [](Examined& run) { CheckReference(run.config, run.findings); }},
    {In({kStart}),
     [](Examined& run) {
       if (run.here.workers > 0) CheckVerifiers(run.run(), run.findings);
     }},
    {In({kDoctor}), CheckRewardOnRows},
    {In({kDoctor}),
     [](Examined& run) {
       const WorkerConfig& worker = run.local().worker;
       if (worker.engine == EngineKind::kVllm) CheckServers(worker.vllm, run.findings);
     }},
    {In({kWorker}), [](Examined& run) { CheckSharedFolder(run.config, run.findings); }},
    {In({kWorker, kLearner}),
     [](Examined& run) { CheckCoordinator(run.config, ProgramOf(run.scope), run.findings); }},
};

}  // namespace

Findings RunChecks(const RunConfig& config, CheckScope scope, const ProcessCounts& here,
                   bool is_first) {
  Examined run{.config = config, .scope = scope, .here = here, .is_first = is_first};
  for (const auto& [scopes, check] : kChecks)
    if ((scopes & In({scope})) != 0) check(run);
  return std::move(run.findings);
}

Status ReportProgramChecks(const Findings& findings, const ConfigFlags& flags,
                           const RunConfig& config) {
  BUTTRESS_RETURN_IF_ERROR(findings.Report(flags.json));
  if (!flags.json) fmt::print("{}: ok (run {})\n", flags.path, RunConfigHash(config).substr(0, 12));
  return OkStatus();
}

}  // namespace buttress
