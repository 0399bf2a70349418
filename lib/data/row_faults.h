// Collects the rows of a dataset that cannot be used, for one message about all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"

namespace buttress {

// The file of the bad rows of a run's dataset: "<out>/data/bad_rows_prompts.txt"; with the name of
// one of run.data.sources, "<out>/data/bad_rows_prompts_NAME.txt".
std::string BadRowsPath(const std::string& out, const std::string& dataset,
                        const std::string& source = "");

// Memory holds the faults that the message shows. Not thread-safe.
class RowFaults {
 public:
  // Rows are named by `unit`, "line" or "row", and number. Every fault goes to the file `log`, a
  // line each, which is created with the first one. With an empty `log` there is no file, and the
  // message shows more faults.
  explicit RowFaults(std::string_view unit, std::string log = "")
      : unit_(unit), log_(std::move(log)) {}

  // The rows of equal faults are shown together.
  void Add(std::int64_t number, const std::string& fault);

  std::size_t count() const { return count_; }

  // OK without a fault. Otherwise kInvalidArgument with their number, the first different ones and,
  // in its last line, the file with all of them:
  //   train.jsonl: 312 of 9000 rows cannot be used:
  //     line 3: not JSON
  //     308 rows: no field 'answer'; the row has prompt, solution: lines 4, 5, 9, ...
  //     ... and 3 rows with other faults
  //   all of them: runs/a/data/bad_rows_prompts.txt
  Status Finish(const std::string& dataset, std::size_t rows);

 private:
  struct Fault {
    std::string text;
    std::size_t count;
    std::string first_rows;  // "3, 17, 20"
  };

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  void Write(const std::string& line);
  std::string Describe(const Fault& fault) const;

  const std::string unit_;
  const std::string log_;
  std::unique_ptr<std::FILE, Close> file_;
  bool unwritten_ = false;  // the file could not be created or written
  std::size_t count_ = 0;
  std::size_t unshown_ = 0;    // rows with none of `faults_`
  std::vector<Fault> faults_;  // the first different ones
};

}  // namespace buttress
