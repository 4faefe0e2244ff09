// SPDX-License-Identifier: Apache-2.0
#include "libcore/perf/record_build.hpp"

#include <linux/perf_event.h>

#include <algorithm>
#include <cstring>

#include "libcore/perf/record.hpp"

namespace flight {
namespace {

constexpr std::size_t kMaxCommBytes = 32;  // with the NUL; twice the kernel's TASK_COMM_LEN, for flightd's own names
constexpr std::uint16_t kCpumodeMask = PERF_RECORD_MISC_CPUMODE_MASK;

// The fixed parts of the bodies, as in include/uapi/linux/perf_event.h; names follow.
struct CommBody {
  std::uint32_t pid, tid;
};
struct TaskBody {
  std::uint32_t pid, ppid, tid, ptid;
  std::uint64_t time_ns;
};
struct MmapBody {
  std::uint32_t pid, tid;
  std::uint64_t address, bytes, page_offset;
};
struct InodeForm {
  std::uint32_t major, minor;
  std::uint64_t inode, generation;
};
struct BuildIdForm {
  std::uint8_t size;
  std::array<std::uint8_t, 3> reserved;
  std::array<std::uint8_t, 20> bytes;
};
struct Mmap2Tail {
  std::uint32_t protection, flags;
};
struct KsymbolBody {
  std::uint64_t address;
  std::uint32_t bytes;
  std::uint16_t kind, flags;
};
struct CgroupBody {
  std::uint64_t id;
};
static_assert(sizeof(InodeForm) == 24 && sizeof(BuildIdForm) == 24);
static_assert(sizeof(TaskBody) == 24 && sizeof(MmapBody) == 32 && sizeof(KsymbolBody) == 16);

// Writes one record at the end of a buffer: the header first, its size when the record is complete.
class RecordWriter {
 public:
  RecordWriter(RecordBuffer& out, std::uint32_t type, std::uint16_t misc) : out_(out), begin_(out.size()) {
    put(perf_event_header{type, misc, 0});
  }

  template <typename T>
  void put(const T& value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }

  // NUL-terminated and padded with zeros to 8 bytes; `most` counts the NUL.
  void put_name(std::string_view name, std::size_t most) {
    name = name.substr(0, std::min(name.find('\0'), most - 1));
    const auto bytes = std::as_bytes(std::span(name.data(), name.size()));
    out_.insert(out_.end(), bytes.begin(), bytes.end());
    out_.resize(out_.size() + 8 - name.size() % 8);
  }

  void finish(const Trailer& trailer) {
    put(trailer);
    const auto size = static_cast<std::uint16_t>(out_.size() - begin_);
    std::memcpy(out_.data() + begin_ + offsetof(perf_event_header, size), &size, sizeof size);
  }

 private:
  RecordBuffer& out_;
  std::size_t begin_;
};

void append_task(RecordBuffer& out, std::uint32_t type, const TaskRecord& record, const Trailer& trailer) {
  const auto misc = static_cast<std::uint16_t>(record.exec ? PERF_RECORD_MISC_FORK_EXEC : 0);
  RecordWriter writer(out, type, misc);
  writer.put(TaskBody{record.pid, record.ppid, record.tid, record.ptid, record.time_ns});
  writer.finish(trailer);
}

// Parses a record from its beginning. A part that does not fit makes the record bad for good.
class RecordReader {
 public:
  explicit RecordReader(std::span<const std::byte> record) {
    const auto whole = next_record(record);
    if (whole.size() < kRecordHeaderBytes + sizeof(Trailer)) return;
    header_ = load<perf_event_header>(whole.data());
    rest_ = whole.subspan(kRecordHeaderBytes, whole.size() - kRecordHeaderBytes - sizeof(Trailer));
    trailer_ = whole.last(sizeof(Trailer));
    good_ = true;
  }

  [[nodiscard]] bool is(std::uint32_t type) const { return good_ && header_.type == type; }
  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] std::uint16_t misc() const { return header_.misc; }
  [[nodiscard]] Trailer trailer() const { return load<Trailer>(trailer_.data()); }

  template <typename T>
  T take() {
    if (rest_.size() < sizeof(T)) good_ = false;
    if (!good_) return T{};
    const T value = load<T>(rest_.data());
    rest_ = rest_.subspan(sizeof(T));
    return value;
  }

  // Takes the text up to its NUL, which must be present.
  std::string_view take_name() {
    const void* end = rest_.empty() ? nullptr : std::memchr(rest_.data(), 0, rest_.size());
    if (end == nullptr) good_ = false;
    if (!good_) return {};
    const void* begin = rest_.data();
    return {static_cast<const char*>(begin),
            static_cast<std::size_t>(static_cast<const std::byte*>(end) - rest_.data())};
  }

 private:
  perf_event_header header_{};
  std::span<const std::byte> rest_;
  std::span<const std::byte> trailer_;
  bool good_ = false;
};

}  // namespace

void append_comm(RecordBuffer& out, const CommRecord& record, const Trailer& trailer) {
  const auto misc = static_cast<std::uint16_t>(record.exec ? PERF_RECORD_MISC_COMM_EXEC : 0);
  RecordWriter writer(out, PERF_RECORD_COMM, misc);
  writer.put(CommBody{record.pid, record.tid});
  writer.put_name(record.name, kMaxCommBytes);
  Trailer marked = trailer;
  if (record.generated) marked.reserved = kGeneratedComm;
  if (record.lost) marked.reserved = kLostComm;
  writer.finish(marked);
}

void append_fork(RecordBuffer& out, const TaskRecord& record, const Trailer& trailer) {
  append_task(out, PERF_RECORD_FORK, record, trailer);
}

void append_exit(RecordBuffer& out, const TaskRecord& record, const Trailer& trailer) {
  append_task(out, PERF_RECORD_EXIT, record, trailer);
}

void append_lost(RecordBuffer& out, const LostRecord& record, const Trailer& trailer) {
  RecordWriter writer(out, PERF_RECORD_LOST, 0);
  writer.put(record);
  writer.finish(trailer);
}

void append_mmap2(RecordBuffer& out, const Mmap2Record& record, const Trailer& trailer) {
  const bool has_id = record.build_id.size > 0;
  const auto misc =
      static_cast<std::uint16_t>((record.cpumode & kCpumodeMask) | (has_id ? PERF_RECORD_MISC_MMAP_BUILD_ID : 0));
  RecordWriter writer(out, PERF_RECORD_MMAP2, misc);
  writer.put(MmapBody{record.pid, record.tid, record.address, record.bytes, record.page_offset});
  if (has_id) {
    const auto size = std::min<std::uint8_t>(record.build_id.size, std::tuple_size_v<decltype(BuildId::bytes)>);
    writer.put(BuildIdForm{size, {}, record.build_id.bytes});
  } else {
    writer.put(InodeForm{record.major, record.minor, record.inode, record.inode_generation});
  }
  writer.put(Mmap2Tail{record.protection, record.flags});
  writer.put_name(record.name, kMaxNameBytes);
  Trailer marked = trailer;
  if (record.is_program) marked.reserved = kProgramMap;
  writer.finish(marked);
}

void append_kernel_mmap(RecordBuffer& out, std::uint64_t address, std::uint64_t bytes, std::uint64_t page_offset,
                        std::string_view name, const Trailer& trailer) {
  RecordWriter writer(out, PERF_RECORD_MMAP, PERF_RECORD_MISC_KERNEL);
  writer.put(MmapBody{kKernelPid, 0, address, bytes, page_offset});
  writer.put_name(name, kMaxNameBytes);
  writer.finish(trailer);
}

void append_ksymbol(RecordBuffer& out, const KsymbolRecord& record, const Trailer& trailer) {
  RecordWriter writer(out, PERF_RECORD_KSYMBOL, 0);
  writer.put(KsymbolBody{record.address, record.bytes, record.kind, record.flags});
  writer.put_name(record.name, kMaxNameBytes);
  writer.finish(trailer);
}

void append_cgroup(RecordBuffer& out, const CgroupRecord& record, const Trailer& trailer) {
  RecordWriter writer(out, PERF_RECORD_CGROUP, 0);
  writer.put(CgroupBody{record.id});
  writer.put_name(record.path, kMaxNameBytes);
  writer.finish(trailer);
}

std::optional<CommRecord> parse_comm(std::span<const std::byte> record) {
  RecordReader reader(record);
  if (!reader.is(PERF_RECORD_COMM)) return std::nullopt;
  const auto body = reader.take<CommBody>();
  CommRecord comm{body.pid, body.tid, reader.take_name(), (reader.misc() & PERF_RECORD_MISC_COMM_EXEC) != 0};
  if (!reader.good()) return std::nullopt;
  comm.lost = reader.trailer().reserved == kLostComm;
  comm.generated = comm.lost || reader.trailer().reserved == kGeneratedComm;
  return comm;
}

std::optional<TaskRecord> parse_task(std::span<const std::byte> record) {
  RecordReader reader(record);
  if (!reader.is(PERF_RECORD_FORK) && !reader.is(PERF_RECORD_EXIT)) return std::nullopt;
  const auto body = reader.take<TaskBody>();
  TaskRecord task{body.pid,  body.ppid,    body.tid,
                  body.ptid, body.time_ns, (reader.misc() & PERF_RECORD_MISC_FORK_EXEC) != 0};
  return reader.good() ? std::optional(task) : std::nullopt;
}

std::optional<Mmap2Record> parse_mmap2(std::span<const std::byte> record) {
  RecordReader reader(record);
  if (!reader.is(PERF_RECORD_MMAP2)) return std::nullopt;
  const auto body = reader.take<MmapBody>();
  Mmap2Record map{body.pid, body.tid, body.address, body.bytes, body.page_offset};
  if ((reader.misc() & PERF_RECORD_MISC_MMAP_BUILD_ID) != 0) {
    const auto form = reader.take<BuildIdForm>();
    if (form.size > form.bytes.size()) return std::nullopt;
    map.build_id = {form.bytes, form.size};
    std::fill(map.build_id.bytes.begin() + form.size, map.build_id.bytes.end(), std::uint8_t{0});
  } else {
    const auto form = reader.take<InodeForm>();
    map.major = form.major;
    map.minor = form.minor;
    map.inode = form.inode;
    map.inode_generation = form.generation;
  }
  const auto tail = reader.take<Mmap2Tail>();
  map.protection = tail.protection;
  map.flags = tail.flags;
  map.cpumode = reader.misc() & kCpumodeMask;
  map.name = reader.take_name();
  map.is_program = reader.good() && reader.trailer().reserved == kProgramMap;
  return reader.good() ? std::optional(map) : std::nullopt;
}

std::optional<Mmap2Record> parse_mmap(std::span<const std::byte> record) {
  RecordReader reader(record);
  if (!reader.is(PERF_RECORD_MMAP)) return std::nullopt;
  const auto body = reader.take<MmapBody>();
  Mmap2Record map{body.pid, body.tid, body.address, body.bytes, body.page_offset};
  map.cpumode = reader.misc() & kCpumodeMask;
  map.name = reader.take_name();
  return reader.good() ? std::optional(map) : std::nullopt;
}

std::optional<KsymbolRecord> parse_ksymbol(std::span<const std::byte> record) {
  RecordReader reader(record);
  if (!reader.is(PERF_RECORD_KSYMBOL)) return std::nullopt;
  const auto body = reader.take<KsymbolBody>();
  KsymbolRecord symbol{body.address, body.bytes, body.kind, body.flags, reader.take_name()};
  return reader.good() ? std::optional(symbol) : std::nullopt;
}

std::optional<CgroupRecord> parse_cgroup(std::span<const std::byte> record) {
  RecordReader reader(record);
  if (!reader.is(PERF_RECORD_CGROUP)) return std::nullopt;
  const auto body = reader.take<CgroupBody>();
  CgroupRecord cgroup{body.id, reader.take_name()};
  return reader.good() ? std::optional(cgroup) : std::nullopt;
}

std::optional<Trailer> parse_trailer(std::span<const std::byte> record) {
  const RecordReader reader(record);
  return reader.good() ? std::optional(reader.trailer()) : std::nullopt;
}

std::span<const std::byte> next_record(std::span<const std::byte> bytes) {
  if (bytes.size() < kRecordHeaderBytes) return {};
  const auto size = load<perf_event_header>(bytes.data()).size;
  if (size < kRecordHeaderBytes || size % 8 != 0 || size > bytes.size()) return {};
  return bytes.first(size);
}

}  // namespace flight
