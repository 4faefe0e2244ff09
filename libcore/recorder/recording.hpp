// SPDX-License-Identifier: Apache-2.0
// The broker's side: opens every event of the configuration on every CPU, owns the fds and the first mapping of
// each ring. Per CPU and channel a dummy owns a write_backward ring and the channel's events write into it; per CPU a
// sideband dummy has a forward ring of its own, mapped read-write because the first mapper decides its mode.
//
//   channel "stacks", CPU 0:   cycles ──SET_OUTPUT──▶ owner (dummy) ── mmap R ── 2 MiB, overwritten
//   sideband,         CPU 0:   dummy with mmap2, comm, task … ──────── mmap RW ── 512 KiB, drained by flightd
//   trigger "oom",    CPU 0:   oom:mark_victim ──SET_OUTPUT──▶ dummy ── mmap RW ── 16 KiB, wakes flightd at each hit
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libcore/base/mapping.hpp"
#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/broker/protocol.hpp"
#include "libcore/config/config.hpp"
#include "libcore/perf/event_spec.hpp"
#include "libcore/perf/kernel_features.hpp"
#include "libcore/recorder/delivery.hpp"

namespace flight {

// 16 KiB, a hundred records or more; one page if that is larger.
[[nodiscard]] std::uint64_t trigger_ring_bytes();

// Whether events may have died although their CPU is online: a routine check, or a sign of a suspend or of a CPU that
// was offline for a moment.
enum class Probe { none, routine, suspected };

// Descriptors of events by their PERF_EVENT_IOC_ID, as stored while there was no broker.
using KeptEvents = std::map<std::uint64_t, UniqueFd>;

class Recording {
 public:
  // Opens, filters, maps, redirects and enables. Rings are halved, largest first, until rings and staging fit
  // config.memory_max; that, an event that the machine refuses (stand_in.hpp) and offline CPUs are warnings. An event
  // that no machine has, a bad filter or a missing privilege is an error that names the event and what to do.
  // `before_samples` is called when all is open, and only the sideband is recorded.
  [[nodiscard]] static Result<Recording> open(const Config& config, const EventSources& sources,
                                              const KernelFeatures& features,
                                              const std::function<void(const Manifest&)>& before_samples = {});
  // Adopts the recording of a broker that died, from its manifest and its events. Events that are still in the
  // configuration keep their rings. Changed channels are replaced as in reload(), CPU changes are followed. An error
  // (another boot or protocol, a missing event, rings whose memory was freed) gives the reason; then everything is
  // closed.
  [[nodiscard]] static Result<Recording> adopt(const Manifest& kept, KeptEvents events, const Config& config,
                                               const EventSources& sources, const KernelFeatures& features);
  // Whether open() would find every event, and the kernel accept every filter: opens them on one CPU and records
  // nothing. Returns the warnings and notes that the manifest would have.
  struct Checked {
    std::vector<std::string> warnings, notes;
  };
  [[nodiscard]] static Result<Checked> check(const Config& config, const EventSources& sources);
  Recording(Recording&&) noexcept;
  Recording& operator=(Recording&&) noexcept;
  ~Recording();

  // An invalid config changes nothing. Unchanged channels keep their rings and history, unchanged triggers their
  // rings; the others are opened again; the generation increases if anything changed.
  [[nodiscard]] Result<bool> reload(const Config& config, const EventSources& sources);

  // Closes events that died with their CPU, reopens them on the same ring when the CPU is back, and opens rings for
  // new CPUs. True if anything changed; then the generation increases. `good_ns`: when recording was last verified.
  // Failures are warnings of the manifest, and the next call tries again.
  [[nodiscard]] bool follow_cpus(const std::vector<int>& online, Probe probe, EventTime good_ns);

  // Judges whether the sampling events deliver; call it every 10 s. If a hardware event delivers
  // nothing on any busy CPU, cpu-clock takes its place in the same rings, until a reload; if only on some, that is a
  // warning. True if events or warnings changed; then the generation increases.
  [[nodiscard]] bool watch_delivery(const std::vector<CpuBusy>& busy, EventTime now_ns);

  [[nodiscard]] Delivery delivery() const;  // of the last watch_delivery()
  [[nodiscard]] const Manifest& manifest() const;
  // In the order of manifest().rings.
  [[nodiscard]] std::vector<int> owner_fds() const;
  // All events, with owners, by id: adopt() needs them and the manifest.
  [[nodiscard]] std::map<std::uint64_t, int> events() const;
  // The sideband's rings as mapped by this process, by their owners' ids; valid until the next call that is not const.
  [[nodiscard]] std::vector<std::pair<std::uint64_t, std::span<const std::byte>>> sideband_rings() const;
  // Adds a warning to the manifest, until unwarn().
  void warn(std::string warning);
  void unwarn(const std::string& warning);
  [[nodiscard]] Counts counts() const;  // without the broker's own usage
  void resume_all() const;              // PAUSE_OUTPUT 0 on every ring
  [[nodiscard]] Result<void> enable_all(bool on) const;

 private:
  struct State;
  explicit Recording(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace flight
