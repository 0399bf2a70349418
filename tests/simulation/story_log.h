// The log of the code under test, as lines of the story. The linker puts the function of
// story_log.cc in the place of Log (CMakeLists.txt).
#pragma once

#include <functional>
#include <string>

namespace buttress::simulation {

// Lines go to `sink` as long as this lives, and nowhere otherwise.
class StoryLog {
 public:
  explicit StoryLog(std::function<void(const std::string&)> sink);
  ~StoryLog();
  StoryLog(const StoryLog&) = delete;
  StoryLog& operator=(const StoryLog&) = delete;
};

}  // namespace buttress::simulation
