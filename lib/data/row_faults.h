// Collects the rows of a dataset that cannot be used, for one message about all of them.
#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>

#include "lib/base/report/status.h"

namespace buttress {

// The file of the bad rows of a run's dataset: "<out>/data/bad_rows_prompts.txt"; with the name of
// one of run.data.sources, "<out>/data/bad_rows_prompts_NAME.txt".
std::string BadRowsPath(const std::string& out, const std::string& dataset,
                        const std::string& source = "");

// Memory holds the first rows only. Not thread-safe.
class RowFaults {
 public:
  // Every fault goes to the file `log`, a line each, which is created with the first one. With an
  // empty `log` there is no file, and the message shows more rows.
  explicit RowFaults(std::string log = "") : log_(std::move(log)) {}

  // `place` names the row: "line 3".
  void Add(const std::string& place, const std::string& fault);

  std::size_t count() const { return count_; }

  // OK without a fault. Otherwise kInvalidArgument with their number, the first of them, and, in
  // its last line, the file with all of them:
  //   train.jsonl: 312 of 9000 rows cannot be used:
  //     line 3: no field 'answer'; the row has prompt, solution
  //     ...
  //     ... and 307 more
  //   all of them: runs/a/data/bad_rows_prompts.txt
  Status Finish(const std::string& dataset, std::size_t rows);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  void Write(const std::string& line);

  const std::string log_;
  std::unique_ptr<std::FILE, Close> file_;
  bool unwritten_ = false;  // the file could not be created or written
  std::size_t count_ = 0;
  std::string first_;
};

}  // namespace buttress
