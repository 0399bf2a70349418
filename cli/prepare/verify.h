// Rows of the files that `buttress verify` and `buttress audit-verifier` read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/data/json_rows.h"
#include "lib/verify/verifier.h"

namespace CLI {
class App;
}

namespace buttress {

// Where the fields of a row are: names, or dotted paths as in run.data (lib/data/field_path.h).
struct VerifyFields {
  std::string prompt = "prompt";
  std::string response = "response";
  std::string answer = "answer";  // empty: the verifier needs no answer
  std::string source = "source";
  std::string id = "id";
  std::string label = "label";
  bool response_needed = true;
};

struct VerifyRow {
  std::string id;          // the row's id as text, or its line number
  nlohmann::json json_id;  // the row's id with its JSON type
  std::string prompt;
  std::string answer;
  std::string source;  // kDefaultSource if the row names none
  std::vector<std::string> responses;
  std::vector<bool> labels;  // whether each is correct; empty if the row has none
  bool is_group = false;     // the row has a list of responses
  std::string json;          // the row, with the prompt as its field "prompt"
};

// Reads a row of one response, or of a group: a list of responses, in the field of the response or
// in that of its plural ("responses"), with a list of labels likewise. A response of chat messages
// is the text of their contents. Prompt, id, source and labels are optional. A label is true,
// false, 1, 0, "correct" or "wrong", or such a text of CSV. kInvalidArgument names the field.
Result<VerifyRow> ReadVerifyRow(JsonRow row, const VerifyFields& fields);

struct VerifierFlags {
  std::string path;
  VerifyFields fields;
  std::string verifier = "math";
  std::vector<std::string> overrides;
  bool use_all = false;
  std::string mode;
  std::vector<std::string> anchors;

  // Adds FILE, the names of its fields, --verifier, --set, and short forms of some settings:
  // --use-all, --mode, --anchors.
  void AddTo(CLI::App& app);

  // kInvalidArgument for an unknown name or an invalid setting.
  Result<std::unique_ptr<VerifierSet>> Make() const;

  // Calls `use` with each row of the dataset and reports its progress on stderr every ten thousand
  // rows. kInvalidArgument for a file that cannot be read, or with all bad rows.
  Status ForEachRow(const std::function<void(const VerifyRow&)>& use) const;
};

}  // namespace buttress
