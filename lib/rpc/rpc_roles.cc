#include "lib/rpc/rpc_roles.h"

#include <string>

namespace buttress {
namespace {

struct Row {
  std::string_view path;
  Role role;
};

// A method that several roles may call has several rows.
constexpr Row kRows[] = {
    {"/buttress.v1.Coordinator/RegisterWorker", Role::kWorker},
    {"/buttress.v1.Coordinator/Exchange", Role::kWorker},
    {"/buttress.v1.Coordinator/SubmitGroups", Role::kWorker},
    {"/buttress.v1.Weights/Fetch", Role::kWorker},
    {"/buttress.v1.Coordinator/RegisterLearner", Role::kLearner},
    {"/buttress.v1.Coordinator/PlanBatch", Role::kLearner},
    {"/buttress.v1.Coordinator/FetchGroups", Role::kLearner},
    {"/buttress.v1.Coordinator/Commit", Role::kLearner},
    {"/buttress.v1.Coordinator/AnnounceWeights", Role::kLearner},
    {"/buttress.v1.Coordinator/Checkpointed", Role::kLearner},
    {"/buttress.v1.Coordinator/OrderWorker", Role::kOperator},
    {"/buttress.v1.Coordinator/StopRun", Role::kOperator},
    {"/buttress.v1.Coordinator/GetRunStatus", Role::kOperator},
    {"/buttress.v1.Coordinator/GetRunStatus", Role::kMonitor},
};

constexpr std::string_view kOwnServices = "/buttress.";

}  // namespace

bool MayCall(Role role, std::string_view path) {
  if (!path.starts_with(kOwnServices)) return true;
  for (const Row& row : kRows) {
    if (row.path == path && row.role == role) return true;
  }
  return false;
}

std::string CallersOf(std::string_view path) {
  std::string callers;
  for (const Role role : kRoles) {
    if (!MayCall(role, path)) continue;
    callers += (callers.empty() ? "" : " or ") + std::string(RoleName(role));
  }
  return callers.empty() ? "nobody" : callers;
}

}  // namespace buttress
