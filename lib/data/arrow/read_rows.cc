// libbuttress_arrow.so: rows of Parquet files and of Arrow's IPC files as JSON.
#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>

#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "lib/data/arrow/arrow_api.h"
#include "lib/data/arrow/json_value.h"

namespace buttress {
namespace {

constexpr std::int64_t kBatchRows = 1024;

Status FromArrow(const arrow::Status& status) {
  return status.ok() ? OkStatus() : InvalidArgument(status.ToString());
}

template <class T>
Result<T> FromArrow(arrow::Result<T> result) {
  if (!result.ok()) return InvalidArgument(result.status().ToString());
  return std::move(result).ValueUnsafe();
}

Status CheckSchema(const arrow::Schema& schema) {
  for (const auto& field : schema.fields()) {
    BUTTRESS_RETURN_IF_ERROR(
        CheckHasJson(*field->type()).Annotate("column '" + field->name() + "'"));
  }
  return OkStatus();
}

Status SendRows(const arrow::RecordBatch& batch, const RowSink& sink) {
  // Offsets and lengths of a damaged file may point outside its buffers.
  BUTTRESS_RETURN_IF_ERROR(FromArrow(batch.ValidateFull()));
  for (std::int64_t row = 0; row < batch.num_rows(); ++row) {
    auto object = nlohmann::ordered_json::object();
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
