#include "coordinator/schedule/partials.h"

#include <utility>

namespace buttress {

void Partials::Add(const LeaseRef& lease, PartialCompletion part) {
  const auto more = static_cast<std::int64_t>(part.token_ids.size());
  if (tokens_ + more > kMostTokens || more > kMostOfAGroup) return;
  const auto group = groups_.find(lease.group_id);
  Kept* kept = nullptr;
  if (group != groups_.end()) {
    if (CountTokens(group->second) + more > kMostOfAGroup) return;
    const auto found = group->second.find(part.completion);
    if (found != group->second.end()) kept = &found->second;
  }
  if (part.first_token == 0) {
    if (kept != nullptr && kept->lease_epoch > lease.lease_epoch) return;
    if (kept == nullptr) kept = &groups_[lease.group_id][part.completion];
    tokens_ += part.end() - kept->size();
    *kept = {lease.lease_epoch, std::move(part)};
    return;
  }
  if (kept == nullptr || kept->lease_epoch != lease.lease_epoch || part.first_token > kept->size())
    return;
  tokens_ += part.end() - kept->size();
  kept->completion.Cut(part.first_token);
  kept->completion.Append(std::move(part));
}

std::vector<PartialCompletion> Partials::HandOver(
    const LeaseRef& lease, const std::function<bool(const PartialCompletion&)>& may_continue) {
  std::vector<PartialCompletion> handed;
  const auto group = groups_.find(lease.group_id);
  if (group == groups_.end()) return handed;
  std::erase_if(group->second, [&](const auto& entry) {
    if (may_continue(entry.second.completion)) return false;
    tokens_ -= entry.second.size();
    return true;
  });
  for (auto& [index, kept] : group->second) {
    kept.lease_epoch = lease.lease_epoch;
    handed.push_back(kept.completion);
  }
  return handed;
}

void Partials::ForgetIf(const std::function<bool(std::uint64_t group_id)>& ended) {
  std::erase_if(groups_, [&](const auto& entry) {
    if (!ended(entry.first)) return false;
    tokens_ -= CountTokens(entry.second);
    return true;
  });
}

void Partials::Forget(std::uint64_t group_id) {
  const auto group = groups_.find(group_id);
  if (group == groups_.end()) return;
  tokens_ -= CountTokens(group->second);
  groups_.erase(group);
}

std::int64_t Partials::CountTokens(const Completions& completions) {
  std::int64_t tokens = 0;
  for (const auto& [index, kept] : completions) tokens += kept.size();
  return tokens;
}

}  // namespace buttress
