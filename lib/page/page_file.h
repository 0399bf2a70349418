// The page of a run as one HTML file, which needs no server and loads nothing.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "buttress/v1/coordinator.pb.h"
#include "lib/base/report/status.h"
#include "lib/config/run_config.h"

namespace buttress {

// Returns the page with its style, its script and `data` inside: the object of PageData::Whole, and
// {"causes": {"groups", "collapsed", "rows": [{"name", "groups", "meaning", "fix"}], "next":
// [sentence]}} where they are known. Texts of the run become neither markup nor a script.
std::string PageFile(const nlohmann::ordered_json& data);

// Returns the state of a run that has no coordinator, as its ledger has it: finished, or stopped.
// Workers and times are left out. Errors as LedgerReader::Open.
Result<v1::GetRunStatusResponse> StatusInLedger(const RunConfig& config);

}  // namespace buttress
