// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/write_data.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "libcore/base/data_folder.hpp"
#include "libcore/base/file_calls.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/steps.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/perfdata/user_records.hpp"
#include "libcore/perfdata/writer.hpp"
#include "libcore/snapshot/data_stream.hpp"
#include "libcore/snapshot/file_samples.hpp"
#include "libcore/snapshot/fit.hpp"
#include "libcore/snapshot/merge.hpp"
#include "libcore/snapshot/needed_forks.hpp"
#include "libcore/snapshot/unmapped_leaves.hpp"

namespace flight {
namespace {

constexpr std::uint32_t kMaxRatio = 1'000'000;

// Calls `visit` with each record and what is behind it; the first error ends it.
template <typename Visit>
Result<void> for_each_record(std::span<const std::byte> records, Visit&& visit) {
  for (auto record = next_record(records); !record.empty(); record = next_record(records)) {
    records = records.subspan(record.size());
    if (Result<void> visited = visit(record, records); !visited) return visited;
  }
  return {};
}

Result<void> stream_all(DataStream& stream, std::span<const std::byte> records) {
  return for_each_record(records, [&](std::span<const std::byte> record, std::span<const std::byte> /*rest*/) {
    return stream.append(record);
  });
}

// What perf must know before the first sample.
Result<void> stream_state(DataStream& stream, const DataToWrite& what) {
  RecordBuffer kernel;
  append_kernel_maps(kernel, what.kernel_maps);
  if (auto appended = stream_all(stream, kernel); !appended) return appended;
  const NeededForks forks(what.sideband.prologue);
  const auto append_needed = [&](std::span<const std::byte> record, std::span<const std::byte> rest) -> Result<void> {
    return forks.has(record, rest) ? stream.append(record) : Result<void>();
  };
  if (auto appended = for_each_record(what.sideband.prologue, append_needed); !appended) return appended;
  std::vector<std::byte> init;
  append_finished_init(init);
  return stream.marker(init);
}

// The records of the rings, with those of `log` between them.
Result<void> stream_rings(DataStream& stream, const Selection& selection, std::span<const std::byte> log,
                          FileSamples& samples, const OnProgress& progress) {
  std::uint64_t total = 1;
  for (const RingSelection& ring : selection.rings) total += ring.last - ring.first;
  const std::uint64_t step = std::max<std::uint64_t>(total / 20, 50'000);
  std::uint64_t done = 0, next = step;
  auto merged = merge_records(selection, log, [&](std::span<const std::byte> record) -> Result<void> {
    if (++done == next) {
      next += step;
      progress("writing", static_cast<unsigned>(std::min<std::uint64_t>(done * 100 / total, 99)));
    }
    const auto kept = samples.file_record(record);
    return kept.empty() ? Result<void>() : stream.append(kept);
  });
  if (!merged) return merged;
  return stream.round();
}

// Ends the stream, and adds what became of it.
Result<void> end_stream(WrittenData& out, DataStream& stream, const Result<void>& streamed) {
  auto closed = stream.close();
  out.raw_bytes += stream.raw_bytes();
  out.compressed = stream.compresses();
  if (out.zstd_refused.empty()) out.zstd_refused = stream.refused();
  out.plain_chunks += stream.plain_chunks();
  return streamed ? closed : streamed;
}

// Where the bytes go, and how many there are.
struct Target {
  FileWriter& writer;
  const SnapshotOutput& output;
  std::uint64_t max_bytes = 0;   // 0: no limit
  std::uint64_t bare_bytes = 0;  // in the files beside `data`

  [[nodiscard]] std::uint64_t data_bytes() const { return writer.data_bytes() + bare_bytes; }
  [[nodiscard]] Result<void> append_bare(std::span<const std::byte> bytes, std::uint64_t chunk) {
    if (max_bytes != 0 && writer.file_bytes() + bare_bytes + bytes.size() > max_bytes)
      return fail(std::errc::file_too_large, "the files would have more than {} bytes", max_bytes);
    const std::size_t number = chunk % output.more.size();
    if (auto written = write_all(output.more[number].get(), bytes); !written)
      return wrap(written.error(), "{}", bare_data_file(number));
    bare_bytes += bytes.size();
    return {};
  }
};

Result<void> stream_file(WrittenData& out, const DataToWrite& what, Target& target, WorkerPool& workers,
                         StreamMemory& memory, int level, FileSamples& samples, const OnProgress& progress) {
  DataStream stream(target.writer, workers, memory, level);
  auto streamed = stream_state(stream, what);
  if (streamed) streamed = stream_rings(stream, what.selection, what.sideband.log, samples, progress);
  return end_stream(out, stream, streamed);
}

// One stream after the other: they use the same memory.
Result<void> stream_folder(WrittenData& out, const DataToWrite& what, Target& target, WorkerPool& workers,
                           StreamMemory& memory, int level, FileSamples& samples, const OnProgress& progress) {
  {
    const DataStream::Sink to_data = [&](std::span<const std::byte> bytes, std::uint64_t /*chunk*/) {
      return target.writer.append(bytes);
    };
    DataStream stream(to_data, workers, memory, level);
    auto streamed = stream_state(stream, what);
    if (streamed) streamed = stream_all(stream, what.sideband.log);
    if (auto ended = end_stream(out, stream, streamed); !ended) return ended;
  }
  const DataStream::Sink to_bare = [&](std::span<const std::byte> bytes, std::uint64_t chunk) {
    return target.append_bare(bytes, chunk);
  };
  DataStream stream(to_bare, workers, memory, level);
  return end_stream(out, stream, stream_rings(stream, what.selection, {}, samples, progress));
}

Features features_of(const DataToWrite& what, const WrittenData& out, int level, std::uint64_t data_bytes) {
  const Selection& selection = what.selection;
  Features features = file_features(what.recording.host, what.recording.manifest, what.kernel_maps,
                                    what.sideband.build_ids, what.capture.clock.pair_at(selection.end_ns));
  features.sample_time = selection.samples > 0 ? std::pair(selection.first_sample_ns, selection.last_sample_ns)
                                               : std::pair(what.capture.frozen_ns, what.capture.frozen_ns);
  if (!out.compressed) return features;
  const std::uint64_t ratio = out.raw_bytes / std::max<std::uint64_t>(data_bytes, 1);
  features.compressed =
      CompressedFeature{.level = static_cast<std::uint32_t>(level),
                        .ratio = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(ratio, 1, kMaxRatio)),
                        .mmap_bytes = static_cast<std::uint32_t>(kMaxExpandedBytes)};
  return features;
}

// Here, because NFS reports a full disk or quota only now.
Result<bool> sync_data(const SnapshotOutput& output) {
  bool all = true;
  for (const UniqueFd& file : output.more) {
    const auto synced = sync_data_now(file.get());
    if (!synced) return synced;
    all = all && *synced;
  }
  const auto synced = sync_data_now(output.data.get());
  if (!synced) return synced;
  return all && *synced;
}

Result<void> write_once(WrittenData& out, const DataToWrite& what, const SnapshotOrder& order,
                        const SnapshotOutput& output, WorkerPool& workers, StreamMemory& memory,
                        const OnProgress& progress) {
  out = WrittenData();
  MappedCode code(what.sideband);
  doubt_unmapped_leaves(code, what.selection, workers);
  FileSamples samples(what.recording.manifest, what.recording.events, &code);
  std::vector<FileEvent> events = file_events(what.recording.manifest);
  samples.mark(events);
  sort_for_readers(events);
  auto writer = FileWriter::create(output.data.get(), std::move(events));
  if (!writer) return propagate(writer.error());
  writer->limit(order.max_bytes);
  const int level = order.compression == "none" ? 0 : order.compression_level;
  Target target{.writer = *writer, .output = output, .max_bytes = order.max_bytes};
  progress("writing", 0);
  const bool folder = !output.more.empty();
  auto streamed = folder ? stream_folder(out, what, target, workers, memory, level, samples, progress)
                         : stream_file(out, what, target, workers, memory, level, samples, progress);
  if (!streamed) return streamed;
  out.stacks = samples.stacks();
  after_step(Step::streamed);
  out.write_begin_ns = monotonic_now();
  Features features = features_of(what, out, level, target.data_bytes());
  features.directory = folder;
  progress("syncing", 99);
  if (auto finished = writer->finish(features); !finished) return finished;
  out.file_bytes = writer->file_bytes() + target.bare_bytes;
  if (order.max_bytes != 0 && out.file_bytes > order.max_bytes)
    return fail(std::errc::file_too_large, "the file has {} bytes", out.file_bytes);
  after_step(Step::finished);
  const auto synced = sync_data(output);
  if (!synced) return propagate(synced.error());
  out.synced = *synced;
  after_step(Step::data_synced);
  return {};
}

std::uint64_t bytes_so_far(const SnapshotOutput& output) {
  std::uint64_t sum = 0;
  const auto add = [&sum](const UniqueFd& file) {
    struct stat info {};
    if (::fstat(file.get(), &info) == 0) sum += static_cast<std::uint64_t>(info.st_size);
  };
  add(output.data);
  for (const UniqueFd& file : output.more) add(file);
  return sum;
}

// What it needs beside the space that its own `bytes` leave: as much again, or what is missing of the whole file by the
// ratio of what was written, and a quarter of the file more, as some records compress less. The first file after larger
// rings can be several times the size of those before.
std::uint64_t bytes_still_needed(const WrittenData& out, const DataToWrite& what, const SnapshotOrder& order,
                                 std::uint64_t bytes) {
  constexpr std::uint64_t kEnough = 1U << 20U;  // less shows no ratio: attributes come first, and some chunks wait
  const std::uint64_t all_raw_bytes =
      what.sideband.prologue.size() + what.sideband.log.size() + record_bytes(what.selection);
  if (bytes < kEnough || out.raw_bytes >= all_raw_bytes) return bytes;
  auto whole = static_cast<std::uint64_t>(1.25 * static_cast<double>(bytes) * static_cast<double>(all_raw_bytes) /
                                          static_cast<double>(out.raw_bytes));
  if (order.max_bytes != 0) whole = std::min(whole, order.max_bytes);
  return std::max(bytes, whole - std::min(whole, bytes));
}

}  // namespace

Result<void> empty_data(const SnapshotOutput& output) {
  // FileWriter writes at offsets, the others are appended to.
  if (::ftruncate(output.data.get(), 0) != 0) return sys_error(errno, "cut {}", kMainDataFile);
  for (std::size_t i = 0; i < output.more.size(); ++i)
    if (const int file = output.more[i].get(); ::ftruncate(file, 0) != 0 || ::lseek(file, 0, SEEK_SET) != 0)
      return sys_error(errno, "cut {}", bare_data_file(i));
  return {};
}

Result<void> write_data(WrittenData& out, const DataToWrite& what, const SnapshotOrder& order,
                        const SnapshotOutput& output, WorkerPool& workers, StreamMemory& memory,
                        const OnProgress& progress) {
  auto written = write_once(out, what, order, output, workers, memory, progress);
  if (written || !order.make_room || !is_full(written.error().errno_value())) return written;
  const std::uint64_t needed = bytes_still_needed(out, what, order, bytes_so_far(output));
  if (!empty_data(output) || !order.make_room(needed)) return written;
  return write_once(out, what, order, output, workers, memory, progress);
}

}  // namespace flight
