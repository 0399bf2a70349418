// SQLite behind RAII and Status: one connection and its prepared statements.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/status.h"

struct sqlite3;
struct sqlite3_stmt;

namespace buttress {

// Bytes to bind as a BLOB; a string_view is bound as TEXT.
struct Blob {
  std::string_view bytes;
};

// A prepared statement. Not thread-safe; must not outlive its Database. 64-bit unsigned numbers are
// stored as their signed bits.
class Statement {
 public:
  Statement(sqlite3* database, sqlite3_stmt* statement)
      : database_(database), statement_(statement) {}

  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Binds `values` to the parameters in order and runs to the end.
  template <class... Values>
  Status Run(const Values&... values) {
    Bind(values...);
    return RunBound();
  }

  // Binds `values` and gets ready for Next.
  template <class... Values>
  void Bind(const Values&... values) {
    Reset();
    int index = 0;
    (BindOne(++index, values), ...);
  }

  // True with a row, false at the end.
  Result<bool> Next();

  // Columns of the row, from 0. NULL is 0, 0.0 or empty.
  std::int64_t Int(int column) const;

  std::uint64_t Unsigned(int column) const { return static_cast<std::uint64_t>(Int(column)); }

  double Double(int column) const;
  std::string Text(int column) const;  // TEXT or BLOB
  bool Null(int column) const;

 private:
  Status RunBound();
  void Reset();
  void BindInt(int index, std::int64_t value);
  void BindNull(int index);
  void BindOne(int index, std::string_view value);
  void BindOne(int index, Blob value);
  void BindOne(int index, double value);

  void BindOne(int index, const std::string& value) { BindOne(index, std::string_view(value)); }

  template <std::integral T>
  void BindOne(int index, T value) {
    BindInt(index, static_cast<std::int64_t>(value));
  }

  template <class T>
  void BindOne(int index, const std::optional<T>& value) {
    if (value) BindOne(index, *value);
    if (!value) BindNull(index);
  }

  sqlite3* database_;
  sqlite3_stmt* statement_;
  int bind_result_ = 0;  // first failure of a bind
};

enum class DatabaseMode { kReadWrite, kReadOnly };

// Not thread-safe.
class Database {
 public:
  // kReadWrite makes the file if there is none.
  static Result<std::unique_ptr<Database>> Open(const std::string& path, DatabaseMode mode);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Runs statements without parameters.
  Status Execute(const std::string& sql);

  Result<std::unique_ptr<Statement>> Prepare(std::string_view sql);

  // First column of the first row; kNotFound if there is none.
  Result<std::int64_t> QueryInt(std::string_view sql);

 private:
  explicit Database(sqlite3* database) : database_(database) {}

  sqlite3* const database_;
};

}  // namespace buttress
