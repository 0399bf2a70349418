#include "tests/simulation/network.h"

namespace buttress::simulation {

bool Network::Suffers(Fault fault, const std::string& from) {
  const auto armed = armed_.find({fault, from});
  if (armed == armed_.end()) return false;
  if (--armed->second <= 0) armed_.erase(armed);
  world_.Count(NameOf(fault));
  world_.Tell("fault: {}, {}", NameOf(fault), from);
  return true;
}

bool Network::Accepts(const ProcessPtr& from, const std::string& start) {
  if (from->name == "operator" || answered_[from].Accept(start)) return true;
  world_.Count("an answer of a coordinator that was replaced");
  return false;
}

Status Network::Admit(const std::string& named) {
  if (old_until_ms_ > world_.now_ms() && dice_.Chance(30)) {
    const bool admits = named.empty() || old_.Admits(named) || Planted(Plant::kStartFenceLost);
    world_.Count(admits ? "the old coordinator was asked by who knows no other"
                        : "the old coordinator refused a caller");
    const bool has_new = old_.own != node_.known_starts().own;
    world_.Expect(!admits || !has_new || named != node_.known_starts().name(),
                  "(I8) a coordinator that was replaced serves no caller of the new one");
    return Unavailable("the old coordinator does not answer");
  }
  if (!node_.running()) return Unavailable("no coordinator answers");
  if (named.empty() || node_.known_starts().Admits(named)) return OkStatus();
  world_.Count("a caller knew a later start than the coordinator");
  return Unavailable("another coordinator has answered this caller");
}

void Network::Deliver(std::unique_ptr<NodeCall> call) {
  // A paused process has what arrives in its socket; whoever dies takes it along.
  const auto held = std::make_shared<std::unique_ptr<NodeCall>>(std::move(call));
  if (node_.process()->paused_until_ms <= world_.now_ms()) return node_.Receive(std::move(*held));
  world_.After(0, node_.process(), [this, held] { node_.Receive(std::move(*held)); });
}

void Network::Fetch(const ProcessPtr& from, const v1::FetchGroupsRequest& request,
                    std::function<Status(const v1::FetchGroupsResponse&)> take, Reply<bool> done) {
  const bool cut = Suffers(Fault::kFetchCut, from->name);
  Send<FetchParts>(
      from, kFetchMs,
      [this, cut, take = std::move(take), done = std::move(done)](Result<FetchParts> parts) {
        if (!parts.ok()) return done(parts.status());
        if (cut) parts->resize(dice_.Below(parts->size() + 1));
        for (const v1::FetchGroupsResponse& part : *parts)
          if (const Status taken = take(part); !taken.ok()) return done(taken);
        cut ? done(Unavailable("the stream broke")) : done(true);
      },
      [this, request](Reply<FetchParts> reply, Gone gone) {
        return std::make_unique<FetchNodeCall>(node_, request, std::move(reply), std::move(gone));
      });
}

void Network::Submit(const ProcessPtr& from, std::vector<v1::SubmitGroupsRequest> parts,
                     Reply<v1::SubmitGroupsResponse> done) {
  if (Suffers(Fault::kCorrupted, from->name)) {
    std::string& data = *parts.back().mutable_data();
    if (!data.empty()) data[dice_.Below(data.size())] ^= 0x20;
  }
  if (Suffers(Fault::kCut, from->name)) {
    std::string& data = *parts.back().mutable_data();
    data.resize(dice_.Below(data.size() + 1));
  }
  Send<v1::SubmitGroupsResponse>(
      from, kSubmitMs, std::move(done),
      [this, parts = std::move(parts)](Reply<v1::SubmitGroupsResponse> reply, Gone gone) {
        return std::make_unique<SubmitNodeCall>(node_, parts, std::move(reply), std::move(gone));
      });
}

}  // namespace buttress::simulation
