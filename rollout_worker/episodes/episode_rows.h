// The completions of a group before its columns are written, which episodes become by their
// branches.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "buttress/v1/experience.pb.h"
#include "lib/experience/partial.h"
#include "rollout_worker/episodes/episode.h"
#include "rollout_worker/scoring/scoring_pool.h"

namespace buttress {

// One completion of a group, behind its prompt. T tokens.
struct SampledRow {
  const ScoredCompletion* scored = nullptr;  // whose verdict it has
  std::string failure = {};  // why it is unscorable although its verdict is not; or empty
  std::span<const std::int32_t> token_ids = {};  // [T]
  std::vector<float> logprobs = {};              // [T], nats
  std::vector<Segment> segments = {};            // in order; cover all tokens
  FinishReason finish_reason = FinishReason::kUnspecified;
  std::int32_t parent = -1;             // index of the row whose conversation it leaves
  std::vector<EpisodeTurn> turns = {};  // of an episode, in order

  std::int32_t tokens() const { return static_cast<std::int32_t>(token_ids.size()); }

  bool scorable() const {
    return failure.empty() && scored->verdict.outcome != Outcome::kUnscorable;
  }
};

// Returns the rows of a group of episodes, in the order of the episodes: the first branch of an
// episode and behind it its others, or a row without tokens for an episode without a branch. A
// token that the policy did not sample has the version of the turn before it, at the beginning that
// of the first turn, and a log-prob of 0.
//
// `prompt` becomes the tokens that all branches begin with, up to where the first turn of any of
// them begins, and what follows are the tokens of the rows. It stays as it is, and every row is
// without tokens and unscorable, if not even the first token is common to all; it stays as it is as
// well where no episode has a branch. REQUIRES: all are scored; a branch has turns, which are not
// empty, and segments.
std::vector<SampledRow> EpisodeRows(std::span<const std::optional<ScoredCompletion>> episodes,
                                    std::vector<std::int32_t>& prompt);

// Fills the columns that only groups of episodes have. The last turn of the last branch of an
// episode has what its other turns leave of the raw reward, so that the rewards from a turn on,
// branch behind branch, hold what the episode was worth. REQUIRES: the other columns are filled.
void AppendEpisodes(std::span<const SampledRow> rows, v1::Group& group);

}  // namespace buttress
