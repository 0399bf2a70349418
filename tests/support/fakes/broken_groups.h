// Groups of a worker that is broken: they are not what was leased, or not what was sampled. And
// streams that stop in the middle of one.
#pragma once

#include <grpcpp/client_context.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "buttress/v1/coordinator.grpc.pb.h"
#include "lib/experience/codec.h"
#include "lib/experience/group.h"
#include "lib/rpc/channel.h"

namespace buttress {

struct BrokenGroup {
  const char* what;
  void (*make)(v1::Group& group);
};

inline void SetRewards(v1::Group& g, double raw_reward, double reward) {
  g.mutable_head()->set_raw_rewards(0, raw_reward);
  g.mutable_head()->set_rewards(0, reward);
}

inline void AddComponent(v1::Group& g, const std::string& name) {
  v1::GroupHead& head = *g.mutable_head();
  head.add_component_names(name);
  head.add_component_weights(1);
  head.mutable_components()->Resize(Completions(head) * head.component_names_size(), 1);
}

inline constexpr BrokenGroup kBrokenGroups[] = {
    {"other prompt tokens",
     [](v1::Group& g) { g.set_prompt_token_ids(0, g.prompt_token_ids(0) ^ 1); }},
    {"fewer prompt tokens",
     [](v1::Group& g) {
       g.mutable_prompt_token_ids()->Truncate(1);
       g.mutable_head()->set_prompt_tokens(1);
     }},
    {"another source", [](v1::Group& g) { g.mutable_head()->set_source("easier"); }},
    {"another prompt", [](v1::Group& g) { g.mutable_head()->mutable_prompt_id()->append("'"); }},
    {"a prompt id of 1 MiB",
     [](v1::Group& g) { g.mutable_head()->set_prompt_id(std::string(1 << 20, 'x')); }},
    {"another temperature", [](v1::Group& g) { g.mutable_sampling()->set_temperature(0.1); }},
    {"another seed", [](v1::Group& g) { g.mutable_sampling()->set_seed(g.sampling().seed() + 1); }},
    {"no limit of tokens", [](v1::Group& g) { g.mutable_sampling()->set_max_tokens(1 << 20); }},
    {"a reward that its components do not give",
     [](v1::Group& g) {
       AddComponent(g, "exact");
       SetRewards(g, -5, 1e6);
     }},
    {"other weights",
     [](v1::Group& g) { g.mutable_head()->mutable_versions(0)->set_digest(std::string(32, 'w')); }},
    {"a reward next to its raw reward, and no components",
     [](v1::Group& g) { SetRewards(g, -5, 1e6); }},
    {"a huge reward", [](v1::Group& g) { SetRewards(g, 1, 1e308); }},
    {"a log-prob of no token", [](v1::Group& g) { g.set_logprobs(0, -3e38F); }},
    {"20,000 components",
     [](v1::Group& g) {
       for (int i = 0; i < 20000; ++i) g.mutable_head()->add_component_names(std::string(490, 'x'));
     }},
    {"a reason of 5 MiB",
     [](v1::Group& g) {
       g.mutable_head()->set_outcomes(0, v1::OUTCOME_UNSCORABLE);
       SetRewards(g, 0, 0);
       g.mutable_unscorable_reasons()->Add(std::string(5 << 20, 'x'));
       g.mutable_unscorable_reasons()->Add("");
     }},
};

// What an honest worker could submit under `lease`: completions of three tokens, the first correct,
// the others wrong. The first one can have more tokens.
inline v1::Group HonestGroup(const v1::Lease& lease, const std::string& worker_id,
                             const PolicyVersion& version, std::size_t first_tokens = 3) {
  constexpr float kLogprobs[] = {-0.5F, -1.0F, -0.25F};
  v1::Group group;
  v1::GroupHead& head = *group.mutable_head();
  head.set_group_id(lease.ref().group_id());
  head.set_prompt_id(lease.prompt_id());
  head.set_source(lease.source());
  head.set_worker_id(worker_id);
  head.set_prompt_tokens(lease.prompt_token_ids_size());
  *head.add_versions() = ToProto(version);
  group.mutable_prompt_token_ids()->Add(lease.prompt_token_ids().begin(),
                                        lease.prompt_token_ids().end());
  *group.mutable_sampling() = lease.sampling();
  for (std::uint32_t i = 0; i < lease.completions(); ++i) {
    std::vector<std::int32_t> tokens;
    std::vector<float> logprobs;
    for (std::size_t t = 0; t < (i == 0 ? first_tokens : 3); ++t) {
      tokens.push_back(7 + static_cast<std::int32_t>(t % 3));
      logprobs.push_back(kLogprobs[t % 3]);
    }
    AppendTokens(group, tokens, logprobs, FinishReason::kStop);
    AppendReward(head, i == 0 ? Outcome::kCorrect : Outcome::kWrong, i == 0 ? 1 : 0,
                 i == 0 ? 1 : 0);
  }
  return group;
}

// Calls without a lease that announce 256 MiB each and then send nothing more than `bytes`.
class IdleStreams {
 public:
  IdleStreams(v1::Coordinator::Stub& stub, int count, std::uint64_t bytes = 0,
              std::chrono::seconds deadline = kGroupTime) {
    v1::GetRunStatusResponse run;
    grpc::ClientContext asking;
    stub.GetRunStatus(&asking, v1::GetRunStatusRequest(), &run);
    for (int i = 0; i < count; ++i) {
      contexts_.push_back(std::make_unique<grpc::ClientContext>());
      contexts_.back()->set_deadline(std::chrono::system_clock::now() + deadline);
      streams_.push_back(stub.SubmitGroups(contexts_.back().get(), &response_));
      v1::SubmitGroupsRequest part;
      part.mutable_header()->set_run_id(run.run_id());
      part.mutable_header()->set_worker_id("idle" + std::to_string(i));
      part.mutable_header()->set_content_sha256(std::string(32, 'x'));
      part.mutable_header()->set_total_bytes(std::uint64_t{256} << 20);
      bool open = streams_.back()->Write(part);
      part.clear_header();
      part.set_data(std::string(kChunkBytes, 'x'));
      for (std::uint64_t sent = 0; open && sent < bytes; sent += kChunkBytes)
        open = streams_.back()->Write(part);
    }
  }

  ~IdleStreams() {
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      contexts_[i]->TryCancel();
      streams_[i]->Finish();
    }
  }

  IdleStreams(const IdleStreams&) = delete;
  IdleStreams& operator=(const IdleStreams&) = delete;

 private:
  v1::SubmitGroupsResponse response_;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts_;
  std::vector<std::unique_ptr<grpc::ClientWriterInterface<v1::SubmitGroupsRequest>>> streams_;
};

}  // namespace buttress
