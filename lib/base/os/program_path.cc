#include "lib/base/os/program_path.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace buttress {
namespace {

bool Runs(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

}  // namespace

std::string FindProgram(const std::string& program) {
  if (program.find('/') != std::string::npos) return Runs(program) ? program : "";
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (Runs(folder + "/" + program)) return folder + "/" + program;
  return "";
}

bool OnPath(const std::string& program) { return !FindProgram(program).empty(); }

}  // namespace buttress
