// SPDX-License-Identifier: Apache-2.0
// The cost of a machine with many CPUs: rings made in memory, through walk, merge, compression and writing.
//
//   pipeline RINGS RING_BYTES WORKERS FILE   prints one line of JSON: seconds, bytes, peak memory, CPU of each worker
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "libcore/snapshot/data_stream.hpp"
#include "libcore/snapshot/file_facts.hpp"
#include "libcore/snapshot/merge.hpp"
#include "tests/unit/snapshot/made_recording.hpp"

namespace {

double cpu_seconds(pthread_t thread) {
  clockid_t clock{};
  timespec time{};
  if (::pthread_getcpuclockid(thread, &clock) != 0 || ::clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

// The handle of each worker, in their order: a ring of CPU n is worker n's.
std::vector<pthread_t> handles(flight::WorkerPool& workers) {
  std::vector<int> cpus(workers.size());
  std::iota(cpus.begin(), cpus.end(), 0);
  std::vector<pthread_t> out(workers.size());
  workers.for_each_ring(cpus, [&](std::size_t i) { out[i] = ::pthread_self(); });
  return out;
}

// Ring n is worker n's, modulo their number.
std::vector<flight::PlannedWorker> plan(std::size_t workers, std::size_t rings) {
  std::vector<flight::PlannedWorker> out(workers);
  for (std::size_t ring = 0; ring < std::max(rings, workers); ++ring)
    out[ring % workers].serves.push_back(static_cast<int>(ring));
  return out;
}

flight::Result<std::uint64_t> write(const flight::MadeRecording& recording, flight::WorkerPool& workers, int file) {
  const flight::Selection selection = recording.selection(workers);
  auto writer = flight::FileWriter::create(file, flight::file_events(recording.manifest));
  if (!writer) return flight::propagate(writer.error());
  auto memory = flight::StreamMemory::create(workers.size(), 1).value();
  flight::DataStream stream(*writer, workers, memory, 1);
  auto merged = merge_records(selection, {}, [&](auto record) { return stream.append(record); });
  if (merged) merged = stream.round();
  if (auto closed = stream.close(); !merged || !closed) return flight::propagate((merged ? closed : merged).error());
  flight::Features features;
  features.compressed = flight::CompressedFeature{.level = 1, .ratio = 2, .mmap_bytes = flight::kMaxExpandedBytes};
  if (auto finished = writer->finish(features); !finished) return flight::propagate(finished.error());
  return stream.raw_bytes();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: pipeline RINGS RING_BYTES WORKERS FILE\n");
    return 2;
  }
  const auto rings = std::strtoul(argv[1], nullptr, 10);
  const auto ring_bytes = std::strtoul(argv[2], nullptr, 10);
  const flight::MadeRecording recording(rings, ring_bytes);
  const auto workers_made = flight::WorkerPool::start(plan(std::strtoul(argv[3], nullptr, 10), rings)).value();
  flight::WorkerPool& workers = *workers_made;
  const auto threads = handles(workers);
  const flight::UniqueFd file(::open(argv[4], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const auto begin_ns = flight::monotonic_now();
  const double made_by = cpu_seconds(::pthread_self());
  const auto raw_bytes = write(recording, workers, file.get());
  if (!raw_bytes) {
    std::fprintf(stderr, "pipeline: %s\n", raw_bytes.error().what.c_str());
    return 1;
  }
  const double seconds = static_cast<double>(flight::monotonic_now() - begin_ns) / 1e9;
  const double merged_by = cpu_seconds(::pthread_self()) - made_by;
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  std::printf("{\"seconds\": %.4f, \"ring_bytes\": %lu, \"raw_bytes\": %lu, \"file_bytes\": %ld, \"peak_bytes\": %ld",
              seconds, rings * ring_bytes, *raw_bytes, static_cast<long>(::lseek(file.get(), 0, SEEK_END)),
              usage.ru_maxrss * 1024);
  std::printf(", \"merge_cpu_seconds\": %.4f", merged_by);
  std::printf(", \"worker_cpu_seconds\": [");
  for (std::size_t i = 0; i < threads.size(); ++i) std::printf("%s%.4f", i > 0 ? ", " : "", cpu_seconds(threads[i]));
  std::printf("]}\n");
  return 0;
}
