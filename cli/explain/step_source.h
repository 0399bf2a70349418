// Sources of groups for a post-mortem, one step at a time: a ledger, or the dump of another
// trainer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/explain/facts.h"

namespace buttress {

// Not thread-safe.
class StepSource {
 public:
  virtual ~StepSource() = default;

  // Returns all groups of the next step, or an empty list at the end. kInvalidArgument names every
  // bad row with its file and line; kNotFound says what files that are no dumps hold instead.
  virtual Result<std::vector<GroupFacts>> Next() = 0;

  // The share of the input that has been read, in [0, 1].
  virtual double progress() const = 0;

  // Names the source, for example "verl dump, 120 files".
  virtual std::string description() const = 0;

  // What the reader left out or assumed, one sentence each; complete after the last step.
  virtual std::vector<std::string> remarks() const = 0;

  // Data sources whose verifier fails on answers of known verdict at the newest step
  // (run.reward.controls); 0 where nothing says so.
  virtual std::int64_t misjudged_sources() const { return 0; }
};

struct StepSourceOptions {
  // Fields of which the first that a row has decides what is right; TRL: columns whose sum is the
  // reward, too. Empty: what RewardSurvey finds.
  std::vector<std::string> rewards;
  std::int64_t max_tokens = 0;  // token limit of the run; 0: unknown
  bool skip_bad = false;        // leaves bad rows out and counts them
  bool growing = false;         // a trainer may be at work on the last line, which is then left out
};

// Opens a run folder, a ledger.db, a dump in a file of any format of lib/data/dataset.h, or a
// folder of them. kNotFound names a folder without such files.
Result<std::unique_ptr<StepSource>> OpenSteps(const std::string& path,
                                              const StepSourceOptions& options);

// Returns the run folder that `path` names (a run folder or its ledger.db), or "" for a dump.
std::string RunFolderOf(const std::string& path);

Result<std::unique_ptr<StepSource>> OpenLedgerSteps(const std::string& ledger_path);

// `remarks` become those of the source.
Result<std::unique_ptr<StepSource>> OpenDumpSteps(std::vector<std::string> files,
                                                  const StepSourceOptions& options,
                                                  std::vector<std::string> remarks = {});

}  // namespace buttress
