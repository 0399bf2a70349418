// Checks the account that a ledger gives of its groups.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/ledger/reader.h"

namespace buttress {

// What an audit found.
struct AuditFinding {
  std::string kind;  // "groups", "content", "leases", "collapse", "plans", "prompts", "lineage",
                     // "dropped", "tokens", "file"; run folders add "payload" and "checkpoint"
  std::string what;  // one sentence
  std::vector<std::uint64_t> group_ids;
  bool accounted = false;  // nothing that was acknowledged is lost without account

  bool operator==(const AuditFinding&) const = default;
};

struct LedgerAudit {
  std::map<std::string, std::int64_t> groups;   // by state; the sum is all prompts drawn
  std::map<std::string, std::int64_t> dropped;  // by reason
  CollapseCounts reported;
  CollapseCounts recounted;
  std::map<std::string, CollapseCounts> recounted_by_source;
  std::vector<AuditFinding> findings;

  // Returns the sentences of the findings without account; empty if all invariants hold.
  std::vector<std::string> violations() const;
};

// Checks what holds of every ledger, at any time and after any crash: archives are whole; group ids
// 1 ... n are complete; groups, leases, plans and contents agree; no group is in two plans; no
// prompt is both drawn and passed over in one pass, and every prompt up to the cursor is one of
// them; commits follow one another and the states of planned groups follow from them; replaced
// groups have no signal; the reported collapse of the run and of each step equals a recount from
// the outcomes, and the counts that a restart reads, those of tokens too, equal a recount of the
// groups; a finished run has only settled and dropped groups. `visit` sees every group.
Result<LedgerAudit> AuditLedger(LedgerReader& reader,
                                const std::function<void(const GroupRecord&)>& visit = {});

}  // namespace buttress
