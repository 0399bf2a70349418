#include "lib/ledger/checked_log.h"

#include <fmt/core.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "lib/ledger/checked_files.h"

namespace buttress {
namespace {

static_assert(std::endian::native == std::endian::little,
              "SQLite sums the log up in the byte order of the machine");

// Sizes and places in the log.
constexpr int kLogHeader = 32;
constexpr int kFrameHeader = 24;
constexpr int kFrame = kFrameHeader + kPageBytes;
constexpr int kSum = 8;         // the last bytes of either header
constexpr int kSummed = 8;      // the first bytes of a frame's header
constexpr int kLogSalts = 16;   // in the log's header
constexpr int kFrameSalts = 8;  // in a frame's
constexpr int kCommit = 4;      // in a frame's: 0 unless it ends a transaction

// The running sum of the log: each frame's goes on from the one before.
struct LogSum {
  std::array<std::uint32_t, 2> sums{};

  void Add(const char* bytes, int size) {
    for (int i = 0; i < size; i += 8) {
      std::array<std::uint32_t, 2> words;
      std::memcpy(words.data(), bytes + i, sizeof words);
      sums[0] += words[0] + sums[1];
      sums[1] += words[1] + sums[0];
    }
  }

  // As it is stored, with the high byte first.
  void Load(const char* stored) {
    std::memcpy(sums.data(), stored, sizeof sums);
    for (std::uint32_t& sum : sums) sum = __builtin_bswap32(sum);
  }

  bool operator==(const LogSum&) const = default;
};

std::uint64_t SaltsAt(const char* bytes) {
  std::uint64_t salts = 0;
  std::memcpy(&salts, bytes, sizeof salts);
  return __builtin_bswap64(salts);
}

bool Commits(const char* header) {
  std::uint32_t pages = 0;
  std::memcpy(&pages, header + kCommit, sizeof pages);
  return pages != 0;
}

bool IsFrame(sqlite3_int64 offset) {
  return offset >= kLogHeader && (offset - kLogHeader) % kFrame == 0;
}

// Frames count from 1.
std::uint32_t FrameAt(sqlite3_int64 offset) {
  return static_cast<std::uint32_t>((offset - kLogHeader) / kFrame + 1);
}

sqlite3_int64 PlaceOf(std::uint32_t frame) {
  return kLogHeader + (sqlite3_int64{frame} - 1) * kFrame;
}

class LogFile : public ForwardingFile {
 public:
  LogFile(OpenSqliteFile real, const std::string& path)
      : ForwardingFile(std::move(real)), path_(path), ledger_(path.substr(0, path.rfind("-wal"))) {}

  // SQLite reads the header and then whole frames when it recovers the log.
  int Read(void* to, int size, sqlite3_int64 offset) override {
    const int code = ForwardingFile::Read(to, size, offset);
    if (code != SQLITE_OK) return code;
    const char* const bytes = static_cast<const char*>(to);
    if (size == kLogHeader && offset == 0) return CheckHeader(bytes);
    if (size == kFrame && IsFrame(offset)) return CheckFrame(bytes, FrameAt(offset));
    if (size == kPageBytes && IsFrame(offset - kFrameHeader))
      return CheckPage(bytes, FrameAt(offset - kFrameHeader));
    return SQLITE_OK;
  }

  // A frame is written as its header and its page, either perhaps in two parts with a sync between
  // them.
  int Write(const void* from, int size, sqlite3_int64 offset) override {
    const int code = ForwardingFile::Write(from, size, offset);
    if (code != SQLITE_OK) return Forget(code);
    const char* const bytes = static_cast<const char*>(from);
    written_ = true;
    if (size == kLogHeader && offset == 0) {
      end_ = LogEnd{SaltsAt(bytes + kLogSalts), 0};
    } else if (size == kFrameHeader && IsFrame(offset)) {
      begun_ = {SaltsAt(bytes + kFrameSalts), FrameAt(offset)};
      commits_ = Commits(bytes);
    } else if (commits_ && offset + size == PlaceOf(begun_.frames + 1)) {
      end_ = begun_;
    }
    return SQLITE_OK;
  }

  // A sync of nothing new comes before SQLite copies pages of the log into the database.
  int Sync(int flags) override {
    const int code = ForwardingFile::Sync(flags);
    if (code != SQLITE_OK) return Forget(code);
    const bool copies = !std::exchange(written_, false);
    if (end_) RememberLogEnd(ledger_, *end_, copies ? Lasts::kBeyondPower : Lasts::kBeyondProcess);
    return SQLITE_OK;
  }

 private:
  int CheckHeader(const char* header) {
    const LogEnd synced = RememberedLogEnd(ledger_).value_or(LogEnd());
    synced_frames_ = 0;
    end_.reset();
    LogSum sum, stored;
    sum.Add(header, kLogHeader - kSum);
    stored.Load(header + kLogHeader - kSum);
    if (sum != stored) return Has(synced) ? WrongChecksum(path_, "its header") : SQLITE_OK;
    end_ = LogEnd{SaltsAt(header + kLogSalts), 0};
    // A log that was begun later: all before is in the database.
    if (end_->salts != synced.salts) return SQLITE_OK;
    synced_frames_ = synced.frames;
    sqlite3_int64 size = 0;
    if (FileSize(&size) != SQLITE_OK) return SQLITE_IOERR_READ;
    if (size >= PlaceOf(synced.frames + 1)) return SQLITE_OK;
    return Damage(path_, fmt::format("it has less than {} frames", synced.frames));
  }

  // Returns whether the log's last frame is still there.
  bool Has(const LogEnd& end) {
    std::array<char, kFrameHeader> header;
    return end.frames > 0 &&
           ForwardingFile::Read(header.data(), kFrameHeader, PlaceOf(end.frames)) == SQLITE_OK &&
           SaltsAt(header.data() + kFrameSalts) == end.salts;
  }

  // REQUIRES: CheckHeader, and this for all frames before.
  int CheckFrame(const char* bytes, std::uint32_t frame) {
    if (!end_) return SQLITE_OK;
    bool right = SaltsAt(bytes + kFrameSalts) == end_->salts;
    if (right && !Compare(bytes, bytes + kFrameHeader, frame, right)) return SQLITE_IOERR_READ;
    if (right && Commits(bytes)) end_->frames = frame;
    return right || frame > synced_frames_ ? SQLITE_OK : WrongFrame(frame);
  }

  int CheckPage(const char* page, std::uint32_t frame) {
    std::array<char, kFrameHeader> header;
    bool right = false;
    if (ForwardingFile::Read(header.data(), kFrameHeader, PlaceOf(frame)) != SQLITE_OK ||
        !Compare(header.data(), page, frame, right))
      return SQLITE_IOERR_READ;
    return right ? SQLITE_OK : WrongFrame(frame);
  }

  // Sets `right` to whether the frame has its checksum; returns false if that cannot be read.
  bool Compare(const char* header, const char* page, std::uint32_t frame, bool& right) {
    std::array<char, kSum> before;
    const sqlite3_int64 end_of_header_before =
        frame == 1 ? kLogHeader : PlaceOf(frame - 1) + kFrameHeader;
    if (ForwardingFile::Read(before.data(), kSum, end_of_header_before - kSum) != SQLITE_OK)
      return false;
    LogSum sum, stored;
    sum.Load(before.data());
    sum.Add(header, kSummed);
    sum.Add(page, kPageBytes);
    stored.Load(header + kFrameHeader - kSum);
    right = sum == stored;
    return true;
  }

  int WrongFrame(std::uint32_t frame) {
    return WrongChecksum(path_, fmt::format("frame {}", frame));
  }

  // What the log has is unknown until the next commit.
  int Forget(int code) {
    end_.reset();
    return code;
  }

  const std::string path_;
  const std::string ledger_;
  std::optional<LogEnd> end_;        // of what was recovered or written
  LogEnd begun_;                     // at the frame whose header was written last
  bool commits_ = false;             // that frame
  bool written_ = false;             // since the last sync
  std::uint32_t synced_frames_ = 0;  // of the log that is recovered
};

}  // namespace

std::unique_ptr<SqliteFile> CheckedLog(OpenSqliteFile real, const std::string& path) {
  return std::make_unique<LogFile>(std::move(real), path);
}

}  // namespace buttress
