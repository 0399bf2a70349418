// The golden files of tests/golden, and folders made of variants of them.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "lib/base/status.h"
#include "lib/tokenizer/tokenizer.h"

namespace buttress {

std::string ReadGolden(const std::string& name);
nlohmann::json ReadGoldenJson(const std::string& name);

// A folder that is removed with its owner.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }

  void Write(const std::string& name, std::string_view bytes) const;

 private:
  std::string path_;
};

// Loads a folder with this tokenizer.json and, unless empty, this tokenizer_config.json.
Result<std::unique_ptr<Tokenizer>> LoadFrom(std::string_view tokenizer_json,
                                            std::string_view tokenizer_config_json = "");

// tokenizer.json with `patch` merged into it (RFC 7396).
nlohmann::json PatchedTokenizer(const nlohmann::json& patch);

}  // namespace buttress
