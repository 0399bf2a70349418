// The environments of run.env.name. EnvironmentFactory::Create (episodes/environment.h) makes their
// factories.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "rollout_worker/episodes/environment.h"

namespace buttress {

// Returns the fields of the task's row. kInvalidArgument if it is no object.
Result<nlohmann::ordered_json> RowOf(const EpisodeTask& task);

// Returns the prompt of a row as messages: a text is what the user says.
Result<nlohmann::ordered_json> OpeningOf(const nlohmann::ordered_json& row);

// The policy answers until it calls none of run.env.tools, each of whose results is a message of
// the role "tool". The verifier judges the content of the last answer.
Result<std::unique_ptr<EnvironmentFactory>> MakeToolsEnvironments(const RunSettings& run);

// The policy guesses a number from 1 to run.env.guess_max, which is the row's "number" or drawn
// from the seed, and hears "higher", "lower" or "not a number". Its guess is the last whole number
// of an answer, behind thoughts. The right one ends the episode with reward 1, which is the reward
// of its turn; until then both are 0.
Result<std::unique_ptr<EnvironmentFactory>> MakeGuessEnvironments(const RunSettings& run);

}  // namespace buttress
