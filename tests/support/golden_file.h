// Reads files of tests/golden. The target defines BUTTRESS_GOLDEN_DIR.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "lib/base/report/check.h"

namespace buttress {

inline std::string ReadGolden(const std::string& name) {
  std::ifstream file(std::string(BUTTRESS_GOLDEN_DIR "/") + name, std::ios::binary);
  BUTTRESS_CHECK(file.good(), "no golden file " + name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline nlohmann::json ReadGoldenJson(const std::string& name) {
  return nlohmann::json::parse(ReadGolden(name));
}

}  // namespace buttress
