// SPDX-License-Identifier: Apache-2.0
// Begins a scan, and makes the answer of what its threads have read (scan_job.hpp).
#include "daemon/broker/scan/scan.hpp"

#include <mutex>
#include <string>
#include <utility>

#include "daemon/broker/scan/scan_job.hpp"
#include "daemon/broker/scan/scan_records.hpp"
#include "libcore/base/files.hpp"

namespace flight::broker {

Result<ProcessScan> ProcessScan::begin(const BlockingThreads& threads, const Manifest& manifest, ScanLimits limits,
                                       ScanReads reads, std::function<void()> wake, SymbolRecords symbols) {
  auto job = std::make_shared<Job>();
  auto memfd = open_memfd("flightd-processes");
  if (!memfd) return propagate(memfd.error());
  job->memfd = std::move(*memfd);
  if (!manifest.events.empty() && !manifest.events[0].ids.empty()) {
    job->trailer.id = manifest.events[0].ids[0].id;
    job->trailer.cpu = static_cast<std::uint32_t>(manifest.events[0].ids[0].cpu);
  }
  job->trailer.time_ns = monotonic_now();
  job->limits = limits;
  job->reads = std::move(reads);
  job->wake = wake ? std::move(wake) : threads.waker();
  job->thread_count = threads.count();
  const bool reads_symbols = symbols == nullptr;
  job->known_symbols = std::move(symbols);
  job->has_symbols = !reads_symbols;
  // The first task lists and names the processes; the others wait for that.
  const auto post = [&](void (Job::*part)()) { return threads.post([job, part] { job->run(part); }); };
  if (!post(&Job::list))
    return fail(std::errc::device_or_resource_busy,
                "all {} threads that read other processes hang: what runs now is not known", threads.count());
  if (reads_symbols && !post(&Job::read_symbols)) {
    const std::lock_guard lock(job->mutex);
    job->has_symbols = true;  // none: no thread is free
    if (job->listed && job->list_error) job->settle();
  }
  for (std::size_t i = 1; i < threads.count(); ++i) static_cast<void>(post(&Job::work));
  return ProcessScan(std::move(job));
}

bool ProcessScan::finished() const {
  const std::lock_guard lock(job_->mutex);
  return job_->done(Job::Clock::now());
}

void ProcessScan::wait() const {
  std::unique_lock lock(job_->mutex);
  while (!job_->done(Job::Clock::now())) job_->changed.wait_for(lock, kLookEvery);
}

Result<ScanAnswer> ProcessScan::take() {
  const std::lock_guard lock(job_->mutex);
  Job& job = *job_;
  job.taken = true;
  job.changed.notify_all();
  if (!job.listed) return fail(std::errc::timed_out, "/proc could not be listed in time");
  if (!job.list_error) return wrap(job.list_error.error(), "scan the running processes");
  ScanAnswer& out = job.answer;
  for (const Job::Entry& entry : job.entries) {
    if (entry.progress == Job::Progress::done) continue;
    const bool unread = entry.progress == Job::Progress::listed;
    job.write_process(entry, entry.threads, unread ? kScanUnread : kScanPartly);
    job.miss(entry, ScanMiss::late);
    job.misses.unread += unread ? 1 : 0;
  }
  // Not at the beginning: a flightd of another version can take the first record's time for the scan's.
  if (job.known_symbols) {
    job.write(*job.known_symbols);
    out.symbols = job.known_symbols;
  }
  Trailer end = job.trailer;
  end.reserved = kScanAllListed;
  RecordBuffer last;
  append_lost(last, {.id = job.processes_written, .lost = 0}, end);
  job.write(last);
  if (!job.written) return wrap(job.written.error(), "keep what runs now");
  if (auto sealed = seal_memfd(job.memfd.get()); !sealed) return propagate(sealed.error());
  auto records = Mapping::open_sealed(job.memfd.get(), job.memfd_bytes);
  if (!records) return propagate(records.error());
  out.records = std::move(*records);
  out.memfd = std::move(job.memfd);
  out.incomplete = job.misses.count();
  out.unread = job.misses.unread;
  out.warning = job.misses.warning(job.limits.bytes);
  const auto also = [&out](const std::string& warning) { out.warning += (out.warning.empty() ? "" : "; ") + warning; };
  if (job.cgroups_cut)
    also("there are more cgroups than can be listed (limit of memory.max reached), so some units are unknown");
  if (!job.cgroups_unread.empty()) also("cgroups unread: " + job.cgroups_unread + ", so some units are unknown");
  return std::move(out);
}

}  // namespace flight::broker
