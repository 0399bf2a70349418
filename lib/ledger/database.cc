#include "lib/ledger/database.h"

#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>

#include "lib/ledger/checked_files.h"

namespace buttress {
namespace {

// A reader may lock the file briefly, during a checkpoint of the write-ahead log.
constexpr int kBusyTimeoutMs = 5000;

// SQLite calls only ENOSPC of a write a full disk; a quota or a limit of the file's size is one as
// well. It does not keep the error of the system for a commit; `errno`, which is 0 before the call,
// has it. A sync that fails is none of them: what it lost is unknown.
bool IsFull(int code) {
  if ((code & 0xFF) == SQLITE_FULL) return true;
  return (code == SQLITE_IOERR_WRITE || code == SQLITE_IOERR_SHMSIZE) &&
         (errno == ENOSPC || errno == EDQUOT || errno == EFBIG);
}

Status SqliteError(sqlite3* database, int code) {
  if (code == SQLITE_IOERR_DATA) return DataLoss(TakeDamage());
  const char* const name = database == nullptr ? nullptr : sqlite3_db_filename(database, "main");
  const std::string message =
      (name == nullptr ? "" : std::string(name) + ": ") +
      "SQLite: " + (database != nullptr ? sqlite3_errmsg(database) : sqlite3_errstr(code));
  if (IsFull(code)) return ResourceExhausted(message + "; free some disk space");
  switch (code & 0xFF) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return DataLoss(message + "; " + kLedgerMend);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
      return Unavailable(message);
    default:
      return Internal(message);
  }
}

}  // namespace

Statement::~Statement() { sqlite3_finalize(statement_); }

Result<bool> Statement::Next() {
  if (bind_result_ != SQLITE_OK) return SqliteError(database_, bind_result_);
  errno = 0;
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  const Status failed = SqliteError(database_, code);
  sqlite3_reset(statement_);
  return failed;
}

Status Statement::RunBound() {
  const Result<bool> more = Next();
  sqlite3_reset(statement_);
  return more.status();
}

void Statement::Reset() {
  sqlite3_reset(statement_);
  bind_result_ = SQLITE_OK;
}

std::int64_t Statement::Int(int column) const { return sqlite3_column_int64(statement_, column); }

double Statement::Double(int column) const { return sqlite3_column_double(statement_, column); }

std::string Statement::Text(int column) const {
  const void* bytes = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  return bytes == nullptr
             ? std::string()
             : std::string(static_cast<const char*>(bytes), static_cast<std::size_t>(size));
}

bool Statement::Null(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

// SQLITE_STATIC: the bound bytes outlive the step, because Run and the callers of Bind own them. A
// null pointer would bind NULL, so an empty value is given another one.
void Statement::BindBytes(int index, std::string_view bytes, bool text) {
  const char* data = bytes.data() == nullptr ? "" : bytes.data();
  const int code =
      text ? sqlite3_bind_text64(statement_, index, data, bytes.size(), SQLITE_STATIC, SQLITE_UTF8)
           : sqlite3_bind_blob64(statement_, index, data, bytes.size(), SQLITE_STATIC);
  if (bind_result_ == SQLITE_OK) bind_result_ = code;
}

void Statement::BindOne(int index, double value) {
  const int code = sqlite3_bind_double(statement_, index, value);
  if (bind_result_ == SQLITE_OK) bind_result_ = code;
}

void Statement::BindOne(int index, std::int64_t value) {
  const int code = sqlite3_bind_int64(statement_, index, value);
  if (bind_result_ == SQLITE_OK) bind_result_ = code;
}

void Statement::BindNull(int index) {
  const int code = sqlite3_bind_null(statement_, index);
  if (bind_result_ == SQLITE_OK) bind_result_ = code;
}

Result<std::unique_ptr<Database>> Database::Open(const std::string& path, DatabaseMode mode) {
  const int access = mode == DatabaseMode::kReadOnly ? SQLITE_OPEN_READONLY
                                                     : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  sqlite3* handle = nullptr;
  const int flags = access | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  const int code = sqlite3_open_v2(path.c_str(), &handle, flags, CheckedFiles());
  std::unique_ptr<Database> database(new Database(handle));
  if (code != SQLITE_OK) return SqliteError(handle, code).Annotate(path);
  sqlite3_busy_timeout(handle, kBusyTimeoutMs);
  BUTTRESS_RETURN_IF_ERROR(database->ReserveSeals("main"));
  return database;
}

Status Database::ReserveSeals(const char* schema) {
  int bytes = kSealBytes;
  const int code = sqlite3_file_control(database_, schema, SQLITE_FCNTL_RESERVE_BYTES, &bytes);
  return code == SQLITE_OK ? OkStatus() : SqliteError(database_, code);
}

Database::~Database() { sqlite3_close(database_); }

Status Database::Execute(const std::string& sql) {
  errno = 0;
  const int code = sqlite3_exec(database_, sql.c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? OkStatus() : SqliteError(database_, code);
}

Result<std::unique_ptr<Statement>> Database::Prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code =
      sqlite3_prepare_v2(database_, sql.data(), static_cast<int>(sql.size()), &statement, nullptr);
  if (code != SQLITE_OK) return SqliteError(database_, code);
  return std::make_unique<Statement>(database_, statement);
}

Status Database::Attach(const std::string& path, const std::string& name) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto attach, Prepare("ATTACH ? AS ?"));
  BUTTRESS_RETURN_IF_ERROR(attach->Run(path, name));
  return ReserveSeals(name.c_str());
}

// All pages in one step: between two steps SQLite would notice every commit of the coordinator,
// which is another process, and begin again. Commits go on meanwhile, in the write-ahead log.
Status Database::BackUp(Database& to) {
  sqlite3_backup* backup = sqlite3_backup_init(to.database_, "main", database_, "main");
  if (backup == nullptr) return SqliteError(to.database_, sqlite3_errcode(to.database_));
  sqlite3_backup_step(backup, -1);
  const int code = sqlite3_backup_finish(backup);
  return code == SQLITE_OK ? OkStatus() : SqliteError(to.database_, code);
}

void Database::KeepLog() {
  sqlite3_db_config(database_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
}

bool Database::HasLog(const std::string& path) {
  sqlite3_vfs* const files = sqlite3_vfs_find(nullptr);
  int found = 0;
  files->xAccess(files, (path + "-wal").c_str(), SQLITE_ACCESS_EXISTS, &found);
  return found != 0;
}

Result<std::int64_t> Database::QueryInt(std::string_view sql) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::unique_ptr<Statement> statement, Prepare(sql));
  BUTTRESS_ASSIGN_OR_RETURN(const bool found, statement->Next());
  if (!found) return NotFound("no row for " + std::string(sql));
  return statement->Int(0);
}

Status CopyLedger(const std::string& path, const std::string& target) {
  if (access(path.c_str(), F_OK) != 0)
    return NotFound(path + ": no such file; expected the ledger.db of a run");
  BUTTRESS_ASSIGN_OR_RETURN(const auto from, Database::Open(path, DatabaseMode::kReadOnly));
  BUTTRESS_ASSIGN_OR_RETURN(const auto to, Database::Open(target, DatabaseMode::kReadWrite));
  BUTTRESS_RETURN_IF_ERROR(from->BackUp(*to));
  return to->Execute("PRAGMA synchronous = FULL; PRAGMA journal_mode = DELETE");
}

}  // namespace buttress
