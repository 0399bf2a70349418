// An episode: a conversation of the policy with an environment, from its task to its reward, as
// tokens. It is to a group what a completion is where run.env.kind is single.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/experience/partial.h"
#include "lib/experience/types.h"

namespace buttress {

// What an environment or an agent is given.
struct EpisodeTask {
  std::string prompt_id;
  std::string source;
  std::string row_json;  // the dataset's row, with the prompt as its field "prompt"
  std::string answer;    // the dataset's reference answer
};

// Why an episode ended. The numbers equal those of v1::EpisodeEnd.
enum class EpisodeEnd : std::uint8_t {
  kUnspecified = 0,
  kDone = 1,
  kTurns = 2,
  kTokens = 3,
  kTools = 4,
  kTime = 5,
  kFailed = 6
};

// One answer of the policy: tokens [begin, end) of its branch.
struct EpisodeTurn {
  std::int32_t begin = 0;
  std::int32_t end = 0;
  double reward = 0;               // that the environment gave for it
  std::int64_t waited_ms = 0;      // before the policy was asked
  std::int64_t sampled_ms = 0;     // until it had answered
  std::vector<std::string> tools;  // that were called, by name; empty: the call cannot be read
  std::int32_t failed_tools = 0;   // of them, those that cannot be read included
};

// A conversation that only grew at its end. T tokens, the first prompt included.
struct EpisodeBranch {
  std::int32_t parent = -1;  // index of the branch whose conversation it leaves; -1: the first
  std::vector<std::int32_t> token_ids;  // [T]
  std::vector<float> logprobs;          // [T], nats; 0 for tokens that the policy did not sample
  std::vector<Segment> segments;        // of the policy's tokens, in order
  std::vector<EpisodeTurn> turns;       // in order
  FinishReason finish_reason = FinishReason::kStop;  // of the last answer
};

struct Episode {
  std::vector<EpisodeBranch> branches;  // the first one's parent is -1; empty if nothing was asked
  EpisodeEnd end = EpisodeEnd::kUnspecified;
  std::string failure;           // why, for kTime and kFailed
  std::optional<double> reward;  // of the episode, where environment or agent gave one
  // Otherwise the verifier judges this: the content of the last answer.
  std::string answer;
  std::int64_t reencoded_tokens = 0;  // of the policy's tokens, encoded again; 0 by construction

  // Tokens that the policy sampled, over all branches.
  std::int64_t sampled_tokens() const {
    std::int64_t tokens = 0;
    for (const EpisodeBranch& branch : branches) {
      for (const EpisodeTurn& turn : branch.turns) tokens += turn.end - turn.begin;
    }
    return tokens;
  }
};

}  // namespace buttress
