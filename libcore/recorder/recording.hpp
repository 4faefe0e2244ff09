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
#include <string>
#include <vector>

#include "libcore/base/mapping.hpp"
#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/broker/protocol.hpp"
#include "libcore/config/config.hpp"
#include "libcore/perf/event_spec.hpp"
#include "libcore/perf/kernel_features.hpp"

namespace flight {

inline constexpr std::uint64_t kSidebandRingBytes = 512U << 10U;
// 16 KiB, a hundred records or more; a page where that is larger.
[[nodiscard]] std::uint64_t trigger_ring_bytes();

// Whether events may have died although their CPU is online: perhaps, as ever; or there is a sign of a suspend or of a
// CPU that was offline for a moment.
enum class Probe { none, routine, suspected };

// Descriptors of events by their PERF_EVENT_IOC_ID, handed on by whoever kept them while there was no broker.
using KeptEvents = std::map<std::uint64_t, UniqueFd>;

class Recording {
 public:
  // Opens, filters, maps, redirects and enables. Rings are halved, largest first, until rings and staging fit
  // config.memory_max; that, an event that fell back (cycles -> cpu-clock) and CPUs that are offline are warnings. An
  // event that does not exist, a bad filter or a missing privilege is an error that names the event and what to do.
  // `before_enabling` is called when all is open and nothing is recorded yet.
  [[nodiscard]] static Result<Recording> open(const Config& config, const EventSources& sources,
                                              const KernelFeatures& features,
                                              const std::function<void(const Manifest&)>& before_enabling = {});
  // The recording of a broker that died, by its manifest and its events, which have gone on since: none of them is
  // closed and opened that the configuration has still, and their rings go on. Channels that are others now are
  // exchanged as reload() does it, CPUs that came or went are followed. An error (another boot or protocol, an event
  // that is missing, rings that nobody mapped meanwhile, so that they are gone) says why it cannot be used: all of it
  // is closed then.
  [[nodiscard]] static Result<Recording> take_back(const Manifest& kept, KeptEvents events, const Config& config,
                                                   const EventSources& sources, const KernelFeatures& features);
  // Whether open() would find every event, and the kernel take every filter: opens them on one CPU and records nothing.
  // The warnings that open() would have.
  [[nodiscard]] static Result<std::vector<std::string>> check(const Config& config, const EventSources& sources);
  Recording(Recording&&) noexcept;
  Recording& operator=(Recording&&) noexcept;
  ~Recording();

  // A bad config changes nothing. Channels that are equal keep their rings and history, triggers that are equal their
  // rings; the others are opened anew; the generation goes up where anything changed.
  [[nodiscard]] Result<bool> reload(const Config& config, const EventSources& sources);

  // What died with its CPU is closed, what is online again goes on in the same ring, a CPU that is online for the first
  // time gets rings. True where anything changed; the generation goes up then. `good_ns`: when all was last known to be
  // well. What cannot be opened is a warning of the manifest and tried again at the next call.
  [[nodiscard]] bool follow_cpus(const std::vector<int>& online, Probe probe, EventTime good_ns);

  [[nodiscard]] const Manifest& manifest() const;
  // In the order of manifest().rings.
  [[nodiscard]] std::vector<int> owner_fds() const;
  // All of them, owners too, by id: what take_back() needs beside the manifest.
  [[nodiscard]] std::map<std::uint64_t, int> events() const;
  // One more warning of the manifest, for as long as this lives.
  void warn(std::string warning);
  [[nodiscard]] Counts counts() const;  // without the broker's own usage
  void resume_all() const;              // PAUSE_OUTPUT 0 on every ring
  [[nodiscard]] Result<void> enable_all(bool on) const;

 private:
  struct State;
  explicit Recording(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace flight
