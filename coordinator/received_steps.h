// Keeps the steps that the learner sends, where the coordinator does not see its steps.jsonl: the
// page reads them instead.
#pragma once

#include <string>

namespace buttress {

// Not thread-safe. A file that cannot be written costs a warning and the curves of the page.
class ReceivedSteps {
 public:
  // An empty `out` keeps nothing.
  explicit ReceivedSteps(std::string out) : out_(std::move(out)) {}

  // Appends the line of a step, without its end, unless it was the last, is not one of
  // steps.jsonl, or <out> holds the learner's own file.
  void Take(const std::string& line);

 private:
  const std::string out_;
  std::string last_;
  bool warned_ = false;
};

}  // namespace buttress
