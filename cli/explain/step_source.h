// Where the groups of a post-mortem come from, a step at a time: a ledger, or the dump of another
// trainer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/explain/facts.h"

namespace buttress {

// Not thread-safe.
class StepSource {
 public:
  virtual ~StepSource() = default;

  // All groups of the next step; empty at the end. kInvalidArgument names every bad row with its
  // file and line.
  virtual Result<std::vector<GroupFacts>> Next() = 0;

  // Share of the input that is read.
  virtual double progress() const = 0;

  // "verl dump, 120 files".
  virtual std::string description() const = 0;

  // What the reader had to leave out or assume, a sentence each; complete at the end.
  virtual std::vector<std::string> remarks() const = 0;
};

struct StepSourceOptions {
  std::vector<std::string>
      rewards;  // TRL: the columns that make the reward; empty: every column that holds numbers
  std::int64_t max_tokens = 0;  // a completion of so many tokens was cut; 0: unknown
  bool skip_bad = false;        // leave bad rows out, and count them
};

// A run folder or ledger.db; a folder of JSONL files or one. kInvalidArgument says what else it
// found.
Result<std::unique_ptr<StepSource>> OpenSteps(const std::string& path,
                                              const StepSourceOptions& options);

// The folder of the run that `path` (a run folder or its ledger.db) is; empty for a dump.
std::string RunFolderOf(const std::string& path);

Result<std::unique_ptr<StepSource>> OpenLedgerSteps(const std::string& ledger_path);
Result<std::unique_ptr<StepSource>> OpenDumpSteps(std::vector<std::string> files,
                                                  const StepSourceOptions& options);

}  // namespace buttress
