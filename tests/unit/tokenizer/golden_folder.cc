#include "tests/unit/tokenizer/golden_folder.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "lib/base/check.h"

namespace buttress {

std::string ReadGolden(const std::string& name) {
  std::ifstream file(std::string(BUTTRESS_GOLDEN_DIR "/") + name, std::ios::binary);
  BUTTRESS_CHECK(file.good(), "no golden file " + name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

nlohmann::json ReadGoldenJson(const std::string& name) {
  return nlohmann::json::parse(ReadGolden(name));
}

ScratchFolder::ScratchFolder()
    : path_((std::filesystem::temp_directory_path() / "tokenizer_test.XXXXXX").string()) {
  BUTTRESS_CHECK(::mkdtemp(path_.data()) != nullptr, "no temporary folder");
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void ScratchFolder::Write(const std::string& name, std::string_view bytes) const {
  std::ofstream file(path_ + "/" + name, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  BUTTRESS_CHECK(file.good(), "cannot write " + name);
}

Result<std::unique_ptr<Tokenizer>> LoadFrom(std::string_view tokenizer_json,
                                            std::string_view tokenizer_config_json) {
  const ScratchFolder folder;
  folder.Write("tokenizer.json", tokenizer_json);
  if (!tokenizer_config_json.empty()) folder.Write("tokenizer_config.json", tokenizer_config_json);
  return Tokenizer::Load(folder.path());
}

nlohmann::json PatchedTokenizer(const nlohmann::json& patch) {
  nlohmann::json tokenizer = ReadGoldenJson("tokenizer/tokenizer.json");
  tokenizer.merge_patch(patch);
  return tokenizer;
}

}  // namespace buttress
