// SQLite with RAII and Status: a connection and its prepared statements.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "lib/base/report/status.h"

struct sqlite3;
struct sqlite3_stmt;

namespace buttress {

// Bytes to bind as a BLOB; a string_view is bound as TEXT.
struct Blob {
  std::string_view bytes;
};

// A prepared statement. Unsigned 64-bit numbers are stored as signed ones with the same bits. Not
// thread-safe. REQUIRES: the Database outlives it.
class Statement {
 public:
  Statement(sqlite3* database, sqlite3_stmt* statement)
      : database_(database), statement_(statement) {}

  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Binds `values` to the parameters, in order, and runs the statement to its end.
  template <class... Values>
  Status Run(const Values&... values) {
    Bind(values...);
    return RunBound();
  }

  // Binds `values` to the parameters, in order, before a loop over Next.
  template <class... Values>
  void Bind(const Values&... values) {
    Reset();
    int index = 0;
    (BindOne(++index, values), ...);
  }

  // Steps to the next row; returns false at the end.
  Result<bool> Next();

  // Return a column of the row, from 0. NULL reads as 0, 0.0 or an empty string.
  std::int64_t Int(int column) const;

  std::uint64_t Unsigned(int column) const { return static_cast<std::uint64_t>(Int(column)); }

  double Double(int column) const;
  std::string Text(int column) const;  // TEXT or BLOB
  bool Null(int column) const;

  // Reads the first columns of the row into `values`, in order.
  template <class... Values>
  void Read(Values&... values) const {
    int column = 0;
    (ReadOne(column++, values), ...);
  }

 private:
  Status RunBound();
  void Reset();

  void ReadOne(int column, std::string& value) const { value = Text(column); }

  template <class T>
  requires std::is_arithmetic_v<T>

  void ReadOne(int column, T& value) const {
    value =
        std::is_floating_point_v<T> ? static_cast<T>(Double(column)) : static_cast<T>(Int(column));
  }

  template <class T>
  void ReadOne(int column, std::optional<T>& value) const {
    if (!Null(column)) ReadOne(column, value.emplace());
  }

  void BindNull(int index);
  void BindBytes(int index, std::string_view bytes, bool text);
  void BindOne(int index, std::int64_t value);
  void BindOne(int index, double value);

  void BindOne(int index, std::string_view value) { BindBytes(index, value, true); }

  void BindOne(int index, Blob value) { BindBytes(index, value.bytes, false); }

  void BindOne(int index, const std::string& value) { BindOne(index, std::string_view(value)); }

  template <std::integral T>
  void BindOne(int index, T value) {
    BindOne(index, static_cast<std::int64_t>(value));
  }

  template <class T>
  void BindOne(int index, const std::optional<T>& value) {
    if (value) BindOne(index, *value);
    if (!value) BindNull(index);
  }

  sqlite3* database_;
  sqlite3_stmt* statement_;
  int bind_result_ = 0;  // SQLite code of the first bind that failed
};

enum class DatabaseMode { kReadWrite, kReadOnly };

// A SQLite database whose pages are checked (checked_files.h). A call that reads a damaged page
// returns kDataLoss, which names the file and the page. Not thread-safe.
class Database {
 public:
  // kReadWrite creates the file if it is missing.
  static Result<std::unique_ptr<Database>> Open(const std::string& path, DatabaseMode mode);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Runs statements without parameters.
  Status Execute(const std::string& sql);

  Result<std::unique_ptr<Statement>> Prepare(std::string_view sql);

  // Calls `visit(row)`, which returns a Status, for each row that `sql` selects with `values` as
  // its parameters.
  template <class Visit, class... Values>
  Status ForEach(std::string_view sql, Visit visit, const Values&... values) {
    BUTTRESS_ASSIGN_OR_RETURN(const std::unique_ptr<Statement> rows, Prepare(sql));
    rows->Bind(values...);
    while (true) {
      BUTTRESS_ASSIGN_OR_RETURN(const bool found, rows->Next());
      if (!found) return OkStatus();
      BUTTRESS_RETURN_IF_ERROR(visit(*rows));
    }
  }

  // Opens or creates the database `path` as the schema `name` of this connection.
  Status Attach(const std::string& path, const std::string& name);

  // Copies this database into the empty one `to`, as of one moment.
  Status BackUp(Database& to);

  // Keeps the write-ahead log when the connection is closed, instead of copying it into the file.
  void KeepLog();

  // Returns whether the database `path` has a write-ahead log that is not empty: its writer is
  // running, or was killed.
  static bool HasLog(const std::string& path);

  // Returns the first column of the first row; kNotFound without a row.
  Result<std::int64_t> QueryInt(std::string_view sql);

 private:
  explicit Database(sqlite3* database) : database_(database) {}

  // Leaves room in each page of a new database for its seal.
  Status ReserveSeals(const char* schema);

  sqlite3* const database_;
};

// Copies the ledger `path` to the new file `target`, durably, with SQLite's backup interface: the
// copy lies between two transactions of the coordinator. It is one file, without a write-ahead log.
// kNotFound if there is no ledger.
Status CopyLedger(const std::string& path, const std::string& target);

}  // namespace buttress
