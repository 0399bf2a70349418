// The prompts of a run: the files of run.data.prompts or of all run.data.sources.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/config/sources.h"
#include "lib/data/prompt_file.h"

namespace buttress {

// Rows are counted through all files, in the order of the sources' names. Thread-safe.
class PromptSet {
 public:
  struct Source {
    PromptDataset settings;
    std::unique_ptr<PromptFile> file;
    std::uint64_t first_row = 0;
  };

  // Opens every file (PromptFile::Open). kInvalidArgument also if all have more rows than a run can
  // count. `tokenizer` must outlive the set. `positions` are those of the model, 0 if not known.
  static Result<PromptSet> Open(const RunSettings& run, const Tokenizer& tokenizer,
                                const std::string& cache = "", std::int64_t positions = 0);

  const std::vector<Source>& sources() const { return sources_; }

  // Rows of all files.
  std::uint64_t size() const { return sources_.back().first_row + sources_.back().file->size(); }

 private:
  explicit PromptSet(std::vector<Source> sources) : sources_(std::move(sources)) {}

  std::vector<Source> sources_;  // one or more
};

// Returns the rows of a source's file in the order in which `pass` draws them. It depends on these
// arguments alone. `name` is that of the source, empty for run.data.prompts.
std::vector<std::uint32_t> PromptOrder(std::uint64_t seed, const std::string& name,
                                       std::uint64_t pass, std::uint64_t rows);

}  // namespace buttress
