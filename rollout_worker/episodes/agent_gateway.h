// The OpenAI endpoint of agents: each episode has its own, under a key that nobody can guess.
//
//   POST /episodes/KEY/v1/chat/completions, /completions    asks the policy
//   GET  /episodes/KEY/v1/models                            names it
//   POST /episodes/KEY/v1/reward    {"reward": 0.5} of the episode, {"turn_reward": 0.1} of its
//                                   last turn
//
// Sampling parameters of a request are read and not used, except max_tokens, which may shrink an
// answer: the loss assumes those of the run. Errors have OpenAI's form: 401 for a request without
// the key as its bearer token, 404 for an unknown episode or a model other than kAgentModel, 410
// for an episode that is over, 400 with the code episode_ended at a limit, 429 for too many calls
// at once, 413 and 408 for a request that is too large or comes too slowly. The episode keeps the
// last one as its reason, should it end without an answer.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>

#include "lib/base/report/status.h"
#include "lib/base/thread/sync.h"
#include "lib/base/web/api_port.h"
#include "lib/config/sections/local_config.h"
#include "lib/tokenizer/tokenizer.h"
#include "rollout_worker/episodes/live_episode.h"

namespace buttress {

// What agents name the policy; they may name nothing as well.
inline constexpr char kAgentModel[] = "policy";

// Thread-safe.
class AgentGateway {
 public:
  // Serves on local.worker.episodes.listen. kUnavailable if the port is taken. `tokenizer` must
  // outlive it and the episodes.
  static Result<std::unique_ptr<AgentGateway>> Start(const EpisodesConfig& config,
                                                     const Tokenizer& tokenizer);

  // Lets an agent reach the episode and returns its key.
  std::string Open(const std::shared_ptr<LiveEpisode>& episode) EXCLUDES(mutex_);

  // From now on calls with the key get 410.
  void Close(const std::string& key) EXCLUDES(mutex_);

  // OPENAI_BASE_URL of the episode with this key.
  std::string UrlOf(const std::string& key) const { return url_ + "/episodes/" + key + "/v1"; }

 private:
  explicit AgentGateway(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  void Answer(const std::shared_ptr<ApiCall>& call) EXCLUDES(mutex_);
  Result<std::shared_ptr<LiveEpisode>> Find(const std::string& key) EXCLUDES(mutex_);
  // Answers, or returns why not.
  Status AnswerOf(const std::shared_ptr<ApiCall>& call,
                  const std::shared_ptr<LiveEpisode>& episode) const;

  const Tokenizer& tokenizer_;
  std::string url_;
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<LiveEpisode>> open_ GUARDED_BY(mutex_);  // by key
  std::deque<std::string> closed_ GUARDED_BY(mutex_);                            // the last ones
  std::unique_ptr<ApiPort> port_;  // the last, so that it ends first
};

}  // namespace buttress
