// Datasets in one text file: CSV and JSON arrays.
#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "lib/base/text/unicode.h"
#include "lib/data/dataset.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMaxRecordBytes = std::size_t{16} << 20;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Splits a file into records. Blank lines are not records.
class CsvReader {
 public:
  using Record = std::optional<std::vector<std::string>>;

  explicit CsvReader(std::istream& file) : file_(file) {
    std::string mark(kByteOrderMark.size(), '\0');
    file_.read(mark.data(), static_cast<std::streamsize>(mark.size()));
    if (file_ && mark == kByteOrderMark) return;
    file_.clear();
    file_.seekg(0);
  }

  // Returns the fields of the next record; nullopt at the end.
  Result<Record> Next() {
    while (file_.peek() == '\n' || file_.peek() == '\r') line_ += file_.get() == '\n' ? 1 : 0;
    if (file_.peek() == EOF) return Record();
    begin_ = line_;
    bytes_ = 0;
    std::vector<std::string> fields;
    for (bool more = true; more;) {
      std::string field;
      BUTTRESS_ASSIGN_OR_RETURN(more, ReadField(field));
      if (const auto bad = FirstInvalidUtf8(field))
        return InvalidArgument(fmt::format("field {} is not UTF-8", fields.size() + 1));
      fields.push_back(std::move(field));
    }
    return Record(std::move(fields));
  }

  std::size_t line() const { return begin_; }  // of the record, from 1

 private:
  // Reads a field and what ends it. Returns whether another one follows in the record.
  Result<bool> ReadField(std::string& field) {
    const bool quoted = file_.peek() == '"';
    if (quoted) {
      file_.get();
      BUTTRESS_RETURN_IF_ERROR(ReadQuoted(field));
    }
    for (int byte = file_.get(); byte != EOF; byte = file_.get()) {
      if (byte == ',') return true;
      if (byte == '\r' && file_.peek() == '\n') continue;
      if (byte == '\n') {
        ++line_;
        return false;
      }
      if (quoted || byte == '"')
        return InvalidArgument(
            "a quote inside a field; expected the whole field in quotes, and \"\" for each quote");
      BUTTRESS_RETURN_IF_ERROR(Append(static_cast<char>(byte), field));
    }
    return false;
  }

  Status ReadQuoted(std::string& field) {
    for (int byte = file_.get(); byte != EOF; byte = file_.get()) {
      if (byte == '"' && file_.peek() != '"') return OkStatus();
      if (byte == '"') file_.get();
      line_ += byte == '\n' ? 1 : 0;
      BUTTRESS_RETURN_IF_ERROR(Append(static_cast<char>(byte), field));
    }
    return InvalidArgument("the quotes of a field are not closed");
  }

  Status Append(char byte, std::string& field) {
    if (++bytes_ > kMaxRecordBytes)
      return InvalidArgument(fmt::format("longer than {} bytes", kMaxRecordBytes));
    field += byte;
    return OkStatus();
  }

  std::istream& file_;
  std::size_t line_ = 1;
  std::size_t begin_ = 1;
  std::size_t bytes_ = 0;  // of the record
};

Status CheckHeader(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    return InvalidArgument("the first record names the field '" + *twice + "' twice");
  if (names.front().empty()) return InvalidArgument("the first record has a field without a name");
  return OkStatus();
}

Status ReadRecords(CsvReader& reader, const RowSink& sink) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto names, reader.Next());
  if (!names) return InvalidArgument("empty; expected a first record with the names of the fields");
  BUTTRESS_RETURN_IF_ERROR(CheckHeader(*names));
  while (true) {
    BUTTRESS_ASSIGN_OR_RETURN(auto fields, reader.Next());
    if (!fields) return OkStatus();
    if (fields->size() != names->size())
      return InvalidArgument(
          fmt::format("{} fields; the first record names {}", fields->size(), names->size()));
    ordered_json row;
    for (std::size_t i = 0; i < names->size(); ++i) row[(*names)[i]] = std::move((*fields)[i]);
    BUTTRESS_RETURN_IF_ERROR(sink(row.dump()));
  }
}

using Event = ordered_json::parse_event_t;

constexpr int kMaxValueDepth = 64;  // of a row; values are copied and printed recursively

// Hands each element of the outer array to the sink as soon as it is parsed, and keeps none.
class Elements {
 public:
  explicit Elements(const RowSink& sink) : sink_(sink) {}

  bool Take(int depth, Event event, ordered_json& value) {
    if (!status_.ok()) return false;
    if (depth > kMaxValueDepth) {
      Refuse(fmt::format("nested deeper than {} levels", kMaxValueDepth));
    } else if (depth == 2 && event == Event::key) {
      if (!names_.insert(value.get<std::string>()).second)
        Refuse("field '" + value.get<std::string>() + "' appears twice");
    } else if (depth == 1 && event == Event::object_end) {
      ++row_;
      names_.clear();
      status_ = sink_(value.dump());
      return false;
    } else if (depth == 1 && (event == Event::value || event == Event::array_start)) {
      Refuse("expected an object");
    }
    return status_.ok();
  }

  const Status& status() const { return status_; }

 private:
  void Refuse(const std::string& what) {
    status_ = InvalidArgument(fmt::format("row {}: {}", row_ + 1, what));
  }

  const RowSink& sink_;
  std::set<std::string> names_;  // of the row so far
  std::size_t row_ = 0;
  Status status_;
};

}  // namespace

Status ReadCsv(const std::string& path, const RowSink& sink) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound("cannot read " + path);
  CsvReader reader(file);
  return ReadRecords(reader, sink).Annotate(fmt::format("{}, line {}", path, reader.line()));
}

Status ReadJsonArray(const std::string& path, const RowSink& sink) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound("cannot read " + path);
  Elements elements(sink);
  const auto take = [&elements](int depth, Event event, ordered_json& value) {
    return elements.Take(depth, event, value);
  };
  try {
    const ordered_json emptied = ordered_json::parse(file, take);
  } catch (const ordered_json::exception& error) {
    if (elements.status().ok())
      return InvalidArgument(fmt::format("{} is not JSON: {}", path, error.what()));
  }
  return elements.status().Annotate(path);
}

}  // namespace buttress
