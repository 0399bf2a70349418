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

void Network::Deliver(std::unique_ptr<NodeCall> call) {
  // A paused process has what arrives in its socket; whoever dies takes it along.
  const auto held = std::make_shared<std::unique_ptr<NodeCall>>(std::move(call));
  if (node_.process()->paused_until_ms <= world_.now_ms()) return node_.Receive(std::move(*held));
  world_.After(0, node_.process(), [this, held] { node_.Receive(std::move(*held)); });
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
