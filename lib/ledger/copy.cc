#include "lib/ledger/copy.h"

#include <unistd.h>

#include "lib/ledger/database.h"

namespace buttress {

Status CopyLedger(const std::string& path, const std::string& target) {
  if (access(path.c_str(), F_OK) != 0)
    return NotFound(path + ": no such file; expected the ledger.db of a run");
  BUTTRESS_ASSIGN_OR_RETURN(const auto from, Database::Open(path, DatabaseMode::kReadOnly));
  BUTTRESS_ASSIGN_OR_RETURN(const auto to, Database::Open(target, DatabaseMode::kReadWrite));
  BUTTRESS_RETURN_IF_ERROR(from->BackUp(*to).Annotate(path));
  return to->Execute("PRAGMA synchronous = FULL; PRAGMA journal_mode = DELETE").Annotate(target);
}

}  // namespace buttress
