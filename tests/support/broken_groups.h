// Groups of a worker that is broken: they are not what was leased, or not what was sampled. And
// streams that stop in the middle of one.
#pragma once

#include <grpcpp/client_context.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "buttress/v1/coordinator.grpc.pb.h"
#include "lib/base/random.h"
#include "lib/experience/codec.h"
#include "lib/experience/types.h"
#include "lib/rpc/channel.h"

namespace buttress {

struct BrokenGroup {
  const char* what;
  void (*make)(Group& group);
};

inline constexpr BrokenGroup kBrokenGroups[] = {
    {"other prompt tokens", [](Group& g) { g.prompt_token_ids.back() ^= 1; }},
    {"fewer prompt tokens", [](Group& g) { g.prompt_token_ids.resize(1); }},
    {"another source", [](Group& g) { g.source = "easier"; }},
    {"another prompt", [](Group& g) { g.prompt_id += "'"; }},
    {"a prompt id of 1 MiB", [](Group& g) { g.prompt_id.assign(1 << 20, 'x'); }},
    {"another temperature", [](Group& g) { g.completions[0].sampling.temperature = 0.1; }},
    {"another seed", [](Group& g) { ++g.completions[1].sampling.seed; }},
    {"no limit of tokens", [](Group& g) { g.completions[0].sampling.max_tokens = 1 << 20; }},
    {"a reward that its components do not give",
     [](Group& g) {
       g.completions[0].raw_reward = -5;
       g.completions[0].reward = 1e6;
       g.completions[0].components = {{"exact", 1, 1}};
     }},
    {"a reward beside its raw reward, and no components",
     [](Group& g) {
       g.completions[0].raw_reward = -5;
       g.completions[0].reward = 1e6;
       g.completions[0].components.clear();
     }},
    {"other weights",
     [](Group& g) { g.completions[0].segments[0].version.digest = std::string(32, 'w'); }},
    {"a huge reward", [](Group& g) { g.completions[0].reward = 1e308; }},
    {"a log-prob of no token", [](Group& g) { g.completions[0].logprobs[0] = -3e38F; }},
    {"20,000 components",
     [](Group& g) {
       for (Completion& completion : g.completions)
         completion.components.assign(20000, {std::string(490, 'x'), 0, 1});
     }},
    {"a reason of 5 MiB",
     [](Group& g) {
       g.completions[0].outcome = Outcome::kUnscorable;
       g.completions[0].unscorable_reason.assign(5 << 20, 'x');
     }},
};

// What an honest worker could submit under `lease`: completions of three tokens, the first correct,
// the others wrong.
inline Group HonestGroup(const v1::Lease& lease, const std::string& worker_id,
                         const PolicyVersion& version) {
  Group group;
  group.group_id = lease.ref().group_id();
  group.prompt_id = lease.prompt_id();
  group.source = lease.source();
  group.prompt_token_ids.assign(lease.prompt_token_ids().begin(), lease.prompt_token_ids().end());
  group.worker_id = worker_id;
  for (std::uint32_t i = 0; i < lease.completions(); ++i) {
    Completion completion;
    completion.index = static_cast<std::int32_t>(i);
    completion.sampling = *FromProto(lease.sampling());
    completion.sampling.seed = MixSeed(completion.sampling.seed, i);
    completion.token_ids = {7, 8, 9};
    completion.logprobs = {-0.5F, -1.0F, -0.25F};
    completion.segments = {{0, version}};
    completion.finish_reason = FinishReason::kStop;
    completion.outcome = i == 0 ? Outcome::kCorrect : Outcome::kWrong;
    completion.raw_reward = completion.reward = i == 0 ? 1 : 0;
    group.completions.push_back(completion);
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
