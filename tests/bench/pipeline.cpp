// SPDX-License-Identifier: Apache-2.0
// The cost of a machine with many CPUs: rings made in memory, through walk, merge, compression and writing.
//
//   pipeline RINGS RING_BYTES WORKERS FILE   prints one line of JSON: seconds, bytes, peak memory, CPU of each worker
//   pipeline … FILE steps                    with processes whose code is known, and all that a snapshot does with each
//                                            sample: "steps" has the seconds of each, and those of this thread's CPU
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <span>
#include <string_view>
#include <vector>

#include "libcore/snapshot/data_stream.hpp"
#include "libcore/snapshot/exits.hpp"
#include "libcore/snapshot/file_facts.hpp"
#include "libcore/snapshot/file_samples.hpp"
#include "libcore/snapshot/merge.hpp"
#include "libcore/snapshot/top.hpp"
#include "libcore/snapshot/unmapped_leaves.hpp"
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

flight::Result<std::uint64_t> write(const flight::MadeRecording& recording, const flight::Selection& selection,
                                    std::span<const std::byte> log, flight::FileSamples& samples,
                                    flight::WorkerPool& workers, int file) {
  auto writer = flight::FileWriter::create(file, flight::file_events(recording.manifest));
  if (!writer) return flight::propagate(writer.error());
  auto memory = flight::StreamMemory::create(workers.size(), 1).value();
  flight::DataStream stream(*writer, workers, memory, 1);
  auto merged = merge_records(selection, log, [&](auto record) { return stream.append(samples.file_record(record)); });
  if (merged) merged = stream.round();
  if (auto closed = stream.close(); !merged || !closed) return flight::propagate((merged ? closed : merged).error());
  flight::Features features;
  features.compressed = flight::CompressedFeature{.level = 1, .ratio = 2, .mmap_bytes = flight::kMaxExpandedBytes};
  if (auto finished = writer->finish(features); !finished) return flight::propagate(finished.error());
  return stream.raw_bytes();
}

flight::Result<std::uint64_t> write_rings(const flight::MadeRecording& recording, flight::WorkerPool& workers,
                                          int file) {
  const flight::Selection selection = recording.selection(workers);
  flight::FileSamples samples(recording.manifest, recording.events);
  return write(recording, selection, {}, samples, workers, file);
}

// Of this thread; it merges.
struct Step {
  const char* name;
  double seconds, cpu_seconds;
};

class Steps {
 public:
  void done(const char* name) {
    const auto now_ns = flight::monotonic_now();
    const double cpu = cpu_seconds(::pthread_self());
    all_.push_back({name, static_cast<double>(now_ns - since_ns_) / 1e9, cpu - cpu_});
    since_ns_ = now_ns;
    cpu_ = cpu;
  }
  void print() const {
    std::printf(", \"steps\": {");
    for (const Step& step : all_)
      std::printf("%s\"%s\": {\"seconds\": %.5f, \"cpu_seconds\": %.5f}", &step == all_.data() ? "" : ", ", step.name,
                  step.seconds, step.cpu_seconds);
    std::printf("}");
  }

 private:
  flight::EventTime since_ns_ = flight::monotonic_now();
  double cpu_ = cpu_seconds(::pthread_self());
  std::vector<Step> all_;
};

// In the order of write_snapshot().
flight::Result<std::uint64_t> write_in_steps(const flight::MadeRecording& recording, flight::WorkerPool& workers,
                                             int file, Steps& steps) {
  flight::Selection selection = recording.selection(workers);
  steps.done("select");
  const flight::EventTime middle_ns = selection.begin_ns + (selection.end_ns - selection.begin_ns) / 2;
  flight::TrackerExport sideband = flight::MadeRecording::processes(middle_ns);
  const auto log = exits_behind_samples(sideband.log, sideband.gaps, selection, workers);
  if (log) sideband.log = *log;
  steps.done("exits");
  flight::MappedCode code(sideband);
  doubt_unmapped_leaves(code, selection, workers);
  steps.done("leaves");
  flight::FileSamples samples(recording.manifest, recording.events, &code);
  auto raw_bytes = write(recording, selection, sideband.log, samples, workers, file);
  steps.done("merge");
  const auto ranking = rank(selection, recording.manifest, recording.channel_rings, sideband, false);
  steps.done("rank");
  // As where the file is too large.
  const flight::Selection newest = recording.again(selection, workers, {.begin_ns = middle_ns});
  steps.done("select_again");
  const flight::SidecarStacks& stacks = samples.stacks();
  if (!log || stacks.unchecked > 0 || stacks.garbage_frames == 0 || ranking.processes.empty() || newest.samples == 0)
    return flight::fail(std::errc::invalid_argument, "this recording does not show the cost of all steps");
  return raw_bytes;
}

}  // namespace

int main(int argc, char** argv) {
  const bool in_steps = argc == 6 && std::string_view(argv[5]) == "steps";
  if (argc != 5 && !in_steps) {
    std::fprintf(stderr, "usage: pipeline RINGS RING_BYTES WORKERS FILE [steps]\n");
    return 2;
  }
  const auto rings = std::strtoul(argv[1], nullptr, 10);
  const auto ring_bytes = std::strtoul(argv[2], nullptr, 10);
  using Stacks = flight::MadeRecording::Stacks;
  const flight::MadeRecording recording(rings, ring_bytes, in_steps ? Stacks::of_programs : Stacks::plain);
  const auto workers_made = flight::WorkerPool::start(plan(std::strtoul(argv[3], nullptr, 10), rings)).value();
  flight::WorkerPool& workers = *workers_made;
  const auto threads = handles(workers);
  const flight::UniqueFd file(::open(argv[4], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const auto begin_ns = flight::monotonic_now();
  const double made_by = cpu_seconds(::pthread_self());
  Steps steps;
  const auto raw_bytes =
      in_steps ? write_in_steps(recording, workers, file.get(), steps) : write_rings(recording, workers, file.get());
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
  std::printf("]");
  if (in_steps) steps.print();
  std::printf("}\n");
  return 0;
}
