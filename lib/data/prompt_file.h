// Reads a dataset of prompts, whose rows have the fields that run.data names (docs/data.md).
// Prompts are rendered and tokenized here and nowhere else.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/config/reward_text.h"
#include "lib/config/run_config.h"
#include "lib/config/sources.h"
#include "lib/data/dataset.h"
#include "lib/data/text_encoder.h"
#include "lib/tokenizer/tokenizer.h"

namespace buttress {

struct Prompt {
  std::string id;                       // unique in the run
  std::string source;                   // selects the verifier
  std::vector<std::int32_t> token_ids;  // not empty
  std::string answer;                   // a text verbatim, any other value as JSON
  std::string extra_json;               // the row, with the prompt as its field "prompt"
};

// Converts rows to prompts. Thread-safe.
class PromptParser {
 public:
  // `tokenizer` must outlive the parser. Returns kInvalidArgument for settings or a chat template
  // that cannot be used. `answers` says which answers may be lists or objects. The prompts of a
  // dataset with a name have it as their source, and before their ids: "math/17".
  static Result<PromptParser> Create(const PromptDataset& dataset, const Tokenizer& tokenizer,
                                     AnswerForms answers = {});

  // Parses one row. `line` counts from 1 and is the id of a row without one. Returns
  // kInvalidArgument with the fault of the row. A prompt of more than max_prompt_tokens, or one
  // that leaves no place for a completion, is such a fault, or kOutOfRange where over_long is drop.
  Result<Prompt> Parse(std::string_view row, std::size_t line) const;

  // Returns a hash of the prompt of a row as the model gets it, its text or its messages; nothing
  // for a row without a prompt.
  std::optional<std::uint64_t> HashPrompt(std::string_view row) const;

  // "run.data.prompt_field".
  std::string Key(std::string_view setting) const { return section_ + "." + std::string(setting); }

 private:
  PromptParser(const PromptDataset& dataset, TextEncoder encoder, AnswerForms answers)
      : name_(dataset.name),
        section_(dataset.section),
        config_(dataset.data),
        max_tokens_(dataset.max_tokens),
        positions_(dataset.positions),
        encoder_(std::move(encoder)),
        answers_(std::move(answers)) {}

  Status CheckLength(std::int64_t tokens) const;
  Status ReadName(nlohmann::ordered_json& row, std::size_t line, Prompt& prompt) const;
  // The text or the messages that are encoded.
  nlohmann::ordered_json Sent(const nlohmann::ordered_json& asked) const;
  Result<std::vector<std::int32_t>> Encode(const nlohmann::ordered_json& asked) const;

  std::string name_;
  std::string section_;
  DataConfig config_;
  std::int64_t max_tokens_;
  std::int64_t positions_;
  TextEncoder encoder_;
  AnswerForms answers_;
};

// The rows that a check found too long, where run.data.over_long is drop.
struct DroppedRows {
  std::size_t count = 0;
  std::string first;  // the first of them: "3, 17, 20, ..."
};

// An open file of prompts. Memory holds only the position of each row. Thread-safe.
class PromptFile {
 public:
  // Finds the rows, and parses none. What is not JSONL is converted into the folder `cache`
  // (OpenAsJsonl of dataset.h). kInvalidArgument for settings that cannot be used and for a
  // file without rows. `tokenizer` must outlive the file.
  static Result<std::unique_ptr<PromptFile>> Open(const PromptDataset& dataset,
                                                  const Tokenizer& tokenizer,
                                                  AnswerForms answers = {},
                                                  const std::string& cache = "");
  // Opens `path` with the settings of run.data.
  static Result<std::unique_ptr<PromptFile>> Open(const std::string& path, const DataConfig& config,
                                                  const Tokenizer& tokenizer,
                                                  AnswerForms answers = {},
                                                  const std::string& cache = "");
  ~PromptFile() = default;
  PromptFile(const PromptFile&) = delete;
  PromptFile& operator=(const PromptFile&) = delete;

  // Parses every row. One kInvalidArgument reports all invalid rows by line, or by number where the
  // dataset is not JSONL: rows that are not JSON, fields that are missing or of the wrong type,
  // empty prompts, too many tokens, duplicate ids. It also reports a file whose prompts are all too
  // long. The message shows the first invalid rows; the file `log` gets all of them, unless it is
  // empty (row_faults.h). kCancelled soon after `stop` becomes true.
  Result<DroppedRows> CheckRows(const std::atomic<bool>& stop, const std::string& log = "") const;

  // Returns the hashes of the prompts of all rows (PromptParser::HashPrompt), sorted; rows without
  // a prompt have none. Tokenizes nothing. kDataLoss as Read.
  Result<std::vector<std::uint64_t>> SortedHashes() const;

  std::size_t size() const { return rows_.size(); }

  // Returns the SHA-256 of the file, or of its rows as JSONL, in hexadecimal digits.
  const std::string& sha256() const { return sha256_; }

  // Returns kInvalidArgument if the row is invalid, kOutOfRange if run.data.over_long drops it,
  // kDataLoss if the file is now shorter than it
  // was. REQUIRES: row < size().
  Result<Prompt> Read(std::size_t row) const;

 private:
  struct Row {
    std::uint64_t offset;
    std::uint32_t bytes;
    std::uint32_t line;  // from 1
  };

  class Check;

  PromptFile(std::string path, JsonlFile file, PromptParser parser)
      : path_(std::move(path)), file_(std::move(file)), parser_(std::move(parser)) {}

  // "line 3", or "row 3" of a dataset that is not JSONL.
  std::string Place(std::uint32_t line) const;

  Status FindRows();
  Result<std::string> ReadText(const Row& row) const;
  Result<Prompt> ReadRow(std::size_t row) const;

  const std::string path_;
  const JsonlFile file_;
  const PromptParser parser_;
  std::vector<Row> rows_;
  std::string sha256_;
};

}  // namespace buttress
