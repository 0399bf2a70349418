// libbuttress_arrow.so: rows of Parquet files and of Arrow's IPC files as JSON.
#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>

#include <cmath>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "lib/base/text/unicode.h"
#include "lib/data/arrow/arrow_api.h"

namespace buttress {
namespace {

using arrow::Type;
using nlohmann::ordered_json;

constexpr std::int64_t kBatchRows = 1024;

Status FromArrow(const arrow::Status& status) {
  return status.ok() ? OkStatus() : InvalidArgument(status.ToString());
}

template <class T>
Result<T> FromArrow(arrow::Result<T> result) {
  if (!result.ok()) return InvalidArgument(result.status().ToString());
  return std::move(result).ValueUnsafe();
}

// Returns value `row` of `column`: lists as lists, structs and maps as objects, dates and times and
// decimals as texts, NaN and infinities as null. REQUIRES: CheckHasJson(*column.type()).
Result<ordered_json> JsonAt(const arrow::Array& column, std::int64_t row);

Result<ordered_json> TextOf(std::string_view text) {
  if (FirstInvalidUtf8(text)) return InvalidArgument("a text is not UTF-8");
  return ordered_json(text);
}

template <class Array>
const Array& As(const arrow::Array& column) {
  return static_cast<const Array&>(column);
}

ordered_json NumberOf(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json();
}

Result<ordered_json> ListOf(const arrow::Array& values, std::int64_t offset, std::int64_t length) {
  ordered_json list = ordered_json::array();
  for (std::int64_t i = offset; i < offset + length; ++i) {
    BUTTRESS_ASSIGN_OR_RETURN(ordered_json value, JsonAt(values, i));
    list.push_back(std::move(value));
  }
  return list;
}

template <class Array>
Result<ordered_json> ListAt(const arrow::Array& column, std::int64_t row) {
  const auto& list = As<Array>(column);
  return ListOf(*list.values(), list.value_offset(row), list.value_length(row));
}

Result<ordered_json> StructAt(const arrow::StructArray& column, std::int64_t row) {
  ordered_json object = ordered_json::object();
  for (int i = 0; i < column.num_fields(); ++i) {
    BUTTRESS_ASSIGN_OR_RETURN(object[column.struct_type()->field(i)->name()],
                              JsonAt(*column.field(i), row));
  }
  return object;
}

Result<ordered_json> MapAt(const arrow::MapArray& column, std::int64_t row) {
  ordered_json object = ordered_json::object();
  const std::int64_t end = column.value_offset(row) + column.value_length(row);
  for (std::int64_t i = column.value_offset(row); i < end; ++i) {
    BUTTRESS_ASSIGN_OR_RETURN(const ordered_json key, JsonAt(*column.keys(), i));
    BUTTRESS_ASSIGN_OR_RETURN(object[key.is_string() ? key.get<std::string>() : key.dump()],
                              JsonAt(*column.items(), i));
  }
  return object;
}

// Dates, times and decimals, as Arrow prints them.
Result<ordered_json> PrintedAt(const arrow::Array& column, std::int64_t row) {
  const auto scalar = column.GetScalar(row);
  if (!scalar.ok()) return InvalidArgument(scalar.status().ToString());
  return TextOf((*scalar)->ToString());
}

bool IsPrinted(Type::type id) {
  return arrow::is_decimal(id) || arrow::is_temporal(id) || id == Type::DURATION;
}

// Checks that JSON has a form for the values of a type, down to its innermost fields.
// kInvalidArgument names the type.
Status CheckHasJson(const arrow::DataType& type) {
  const Type::type id = type.id();
  if (id == Type::DICTIONARY)
    return CheckHasJson(*static_cast<const arrow::DictionaryType&>(type).value_type());
  if (id == Type::EXTENSION)
    return CheckHasJson(*static_cast<const arrow::ExtensionType&>(type).storage_type());
  const bool nested = id == Type::LIST || id == Type::LARGE_LIST || id == Type::FIXED_SIZE_LIST ||
                      id == Type::STRUCT || id == Type::MAP;
  const bool plain = id == Type::NA || id == Type::BOOL || arrow::is_integer(id) ||
                     arrow::is_floating(id) || arrow::is_string(id) || id == Type::STRING_VIEW;
  if (!nested && !plain && !IsPrinted(id))
    return InvalidArgument("type " + type.ToString() +
                           " has no form in JSON; leave the column out");
  for (const auto& field : type.fields())
    BUTTRESS_RETURN_IF_ERROR(CheckHasJson(*field->type()).Annotate("'" + field->name() + "'"));
  return OkStatus();
}

Result<ordered_json> JsonAt(const arrow::Array& column, std::int64_t row) {
  if (column.IsNull(row)) return ordered_json();
  switch (column.type_id()) {
    case Type::NA:
      return ordered_json();
    case Type::BOOL:
      return ordered_json(As<arrow::BooleanArray>(column).Value(row));
    case Type::INT8:
      return ordered_json(As<arrow::Int8Array>(column).Value(row));
    case Type::INT16:
      return ordered_json(As<arrow::Int16Array>(column).Value(row));
    case Type::INT32:
      return ordered_json(As<arrow::Int32Array>(column).Value(row));
    case Type::INT64:
      return ordered_json(As<arrow::Int64Array>(column).Value(row));
    case Type::UINT8:
      return ordered_json(As<arrow::UInt8Array>(column).Value(row));
    case Type::UINT16:
      return ordered_json(As<arrow::UInt16Array>(column).Value(row));
    case Type::UINT32:
      return ordered_json(As<arrow::UInt32Array>(column).Value(row));
    case Type::UINT64:
      return ordered_json(As<arrow::UInt64Array>(column).Value(row));
    case Type::HALF_FLOAT:
      return NumberOf(
          arrow::util::Float16::FromBits(As<arrow::HalfFloatArray>(column).Value(row)).ToDouble());
    case Type::FLOAT:
      return NumberOf(As<arrow::FloatArray>(column).Value(row));
    case Type::DOUBLE:
      return NumberOf(As<arrow::DoubleArray>(column).Value(row));
    case Type::STRING:
      return TextOf(As<arrow::StringArray>(column).GetView(row));
    case Type::LARGE_STRING:
      return TextOf(As<arrow::LargeStringArray>(column).GetView(row));
    case Type::STRING_VIEW:
      return TextOf(As<arrow::StringViewArray>(column).GetView(row));
    case Type::LIST:
      return ListAt<arrow::ListArray>(column, row);
    case Type::LARGE_LIST:
      return ListAt<arrow::LargeListArray>(column, row);
    case Type::FIXED_SIZE_LIST:
      return ListAt<arrow::FixedSizeListArray>(column, row);
    case Type::STRUCT:
      return StructAt(As<arrow::StructArray>(column), row);
    case Type::MAP:
      return MapAt(As<arrow::MapArray>(column), row);
    case Type::DICTIONARY: {
      const auto& encoded = As<arrow::DictionaryArray>(column);
      return JsonAt(*encoded.dictionary(), encoded.GetValueIndex(row));
    }
    case Type::EXTENSION:
      return JsonAt(*As<arrow::ExtensionArray>(column).storage(), row);
    default:
      return PrintedAt(column, row);
  }
}

Status CheckSchema(const arrow::Schema& schema) {
  for (const auto& field : schema.fields())
    BUTTRESS_RETURN_IF_ERROR(
        CheckHasJson(*field->type()).Annotate("column '" + field->name() + "'"));
  return OkStatus();
}

Status SendRows(const arrow::RecordBatch& batch, const RowSink& sink) {
  // Offsets and lengths of a damaged file may point outside its buffers.
  BUTTRESS_RETURN_IF_ERROR(FromArrow(batch.ValidateFull()));
  for (std::int64_t row = 0; row < batch.num_rows(); ++row) {
    auto object = ordered_json::object();
    for (int i = 0; i < batch.num_columns(); ++i) {
      BUTTRESS_ASSIGN_OR_RETURN(object[batch.column_name(i)], JsonAt(*batch.column(i), row));
    }
    BUTTRESS_RETURN_IF_ERROR(sink(object.dump()));
  }
  return OkStatus();
}

Status SendBatches(arrow::RecordBatchReader& reader, const RowSink& sink) {
  BUTTRESS_RETURN_IF_ERROR(CheckSchema(*reader.schema()));
  while (true) {
    BUTTRESS_ASSIGN_OR_RETURN(const auto batch, FromArrow(reader.Next()));
    if (batch == nullptr) return OkStatus();
    BUTTRESS_RETURN_IF_ERROR(SendRows(*batch, sink));
  }
}

using File = std::shared_ptr<arrow::io::ReadableFile>;

Status ReadParquet(const File& file, const RowSink& sink) {
  parquet::arrow::FileReaderBuilder builder;
  BUTTRESS_RETURN_IF_ERROR(FromArrow(builder.Open(file)));
  parquet::ArrowReaderProperties properties;
  properties.set_batch_size(kBatchRows);
  BUTTRESS_ASSIGN_OR_RETURN(const std::unique_ptr<parquet::arrow::FileReader> reader,
                            FromArrow(builder.properties(properties)->Build()));
  BUTTRESS_ASSIGN_OR_RETURN(const auto batches, FromArrow(reader->GetRecordBatchReader()));
  return SendBatches(*batches, sink);
}

Status ReadIpcFile(const File& file, const RowSink& sink) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto reader,
                            FromArrow(arrow::ipc::RecordBatchFileReader::Open(file)));
  BUTTRESS_RETURN_IF_ERROR(CheckSchema(*reader->schema()));
  for (int i = 0; i < reader->num_record_batches(); ++i) {
    BUTTRESS_ASSIGN_OR_RETURN(const auto batch, FromArrow(reader->ReadRecordBatch(i)));
    BUTTRESS_RETURN_IF_ERROR(SendRows(*batch, sink));
  }
  return OkStatus();
}

Status ReadIpcStream(const File& file, const RowSink& sink) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto reader,
                            FromArrow(arrow::ipc::RecordBatchStreamReader::Open(file)));
  return SendBatches(*reader, sink);
}

Status ReadRows(const std::string& path, const RowSink& sink) {
  BUTTRESS_ASSIGN_OR_RETURN(const File file, FromArrow(arrow::io::ReadableFile::Open(path)));
  BUTTRESS_ASSIGN_OR_RETURN(const auto head, FromArrow(file->ReadAt(0, 6)));
  BUTTRESS_RETURN_IF_ERROR(FromArrow(file->Seek(0)));
  const std::string_view magic(*head);
  if (magic.starts_with("PAR1")) return ReadParquet(file, sink);
  return magic == "ARROW1" ? ReadIpcFile(file, sink) : ReadIpcStream(file, sink);
}

}  // namespace
}  // namespace buttress

extern "C" __attribute__((visibility("default"))) buttress::Status ButtressArrowReadRows(
    const std::string& path, const buttress::RowSink& sink) {
  try {
    return buttress::ReadRows(path, sink);
  } catch (const std::exception& error) {  // of parquet::
    return buttress::InvalidArgument(error.what());
  }
}
