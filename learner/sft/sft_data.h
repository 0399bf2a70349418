// Rows of a dataset as sequences for supervised training.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "learner/sft/sft_chat.h"
#include "lib/base/report/status.h"
#include "lib/base/text/random.h"
#include "lib/config/run_config.h"
#include "lib/tokenizer/tokenizer.h"

namespace buttress {

// Where the fields of a row are (dotted paths, as in run.data), and what a sequence may be.
struct SftDataOptions {
  std::string path;  // a dataset of any format of lib/data/dataset.h
  std::string messages_field = "messages";
  std::string prompt_field = "prompt";
  std::string response_field = "response";
  std::string tools_field = "tools";
  bool chat_template = false;                             // of prompts that are texts
  std::string system_prompt;                              // before them
  std::map<std::string, std::string> template_arguments;  // as run.data.template_arguments
  std::vector<std::int32_t> ends;  // end tokens; the first one ends a response that is a text
  std::int64_t max_tokens = 0;     // of a sequence
  OverLong over_long = OverLong::kRefuse;
  std::int64_t vocab_size = 0;  // of the model
};

struct SftData {
  std::vector<std::vector<SftExample>> rows;  // the sequences of each row; none is empty
  std::size_t dropped = 0;                    // sequences that are too long
  std::int64_t turns = 0;                     // of the assistant, in rows of messages
  std::int64_t unended = 0;                   // those without an end token

  std::vector<SftExample> TakeExamples() &&;
};

// Reads every row. A row with the field of messages is a conversation, of which the assistant's
// turns are trained. Any other row is a prompt and a response: both texts, which are joined and
// closed with the end token; or messages each, of which those of the response are trained. A prompt
// of messages, and with `chat_template` also one of text, makes a message of a response that is a
// text. kInvalidArgument lists the bad rows with their faults.
Result<SftData> ReadSftData(const SftDataOptions& options, const Tokenizer& tokenizer);

// Takes about `share` of the rows out of `data`, at least one, chosen by `seed`. kInvalidArgument
// unless a row stays. REQUIRES: 0 < share < 1.
Result<SftData> TakeHeldOut(SftData& data, double share, std::uint64_t seed);

// Draws every index below `count` once per pass, in an order that depends on seed and pass. Not
// thread-safe.
class ShuffledIndices {
 public:
  // REQUIRES: count > 0.
  ShuffledIndices(std::size_t count, std::uint64_t seed);

  std::size_t Next();

 private:
  void Shuffle();

  const std::uint64_t seed_;
  std::uint64_t pass_ = 0;
  std::size_t next_ = 0;
  std::vector<std::size_t> order_;
};

}  // namespace buttress
