#include "tests/unit/tokenizer/tokenizer_folder.h"

#include <fstream>

#include "lib/base/os/file.h"
#include "lib/base/report/check.h"
#include "tests/support/temp_dir.h"

namespace buttress {

void WriteFileIn(const std::string& folder, const std::string& name, std::string_view bytes) {
  std::ofstream file(JoinPath(folder, name), std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  BUTTRESS_CHECK(file.good(), "cannot write " + name);
}

Result<std::unique_ptr<Tokenizer>> LoadFrom(std::string_view tokenizer_json,
                                            std::string_view tokenizer_config_json) {
  const TempDir folder;
  WriteFileIn(folder.path(), "tokenizer.json", tokenizer_json);
  if (!tokenizer_config_json.empty()) {
    WriteFileIn(folder.path(), "tokenizer_config.json", tokenizer_config_json);
  }
  return Tokenizer::Load(folder.path());
}

nlohmann::json PatchedTokenizer(const nlohmann::json& patch) {
  nlohmann::json tokenizer = ReadGoldenJson("tokenizer/tokenizer.json");
  tokenizer.merge_patch(patch);
  return tokenizer;
}

}  // namespace buttress
