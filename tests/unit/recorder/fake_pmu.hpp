// SPDX-License-Identifier: Apache-2.0
// A machine with a PMU. unit-recorder has its own syscall(2) (fake_pmu.cpp), which opens the kernel's event
// emulation-faults (it never occurs) or cpu-clock where a hardware event is asked for: so there is a PMU here, and each
// CPU's works or does not.
#pragma once

#include <atomic>
#include <cerrno>
#include <optional>
#include <string>
#include <vector>

#include "libcore/base/mapping.hpp"
#include "libcore/recorder/recording.hpp"
#include "tests/unit/recorder/on_this_machine.hpp"

namespace flight::test {

inline constexpr std::uint64_t kSecond = 1'000'000'000;
inline constexpr std::uint32_t kOtherPmu = 4000;  // the type of a PMU that is not the CPUs'

enum class Pmu { real, refused, working, silent };
inline std::atomic<Pmu> pmu_kind = Pmu::real;
inline std::atomic<int> working_cpu = -1;   // of a silent PMU
inline std::atomic<int> refusing_cpu = -1;  // of a working one: another user holds its counter
inline std::atomic<int> limited_cpu = -1;   // of a working one: the kernel's limit of the rate applies; on others there
                                            // is none
inline std::atomic<int> refused_with = EBUSY;       // by a refusing one
inline std::atomic<unsigned> most_precise = 3;      // of a working one: more is refused with EOPNOTSUPP
inline std::atomic<bool> other_pmu_exists = false;  // kOtherPmu works like a CPU's
inline std::atomic<bool> old_kernel = false;        // it does not have cgroup-switches

class FakePmu : public OnThisMachine {
 protected:
  FakePmu();
  void TearDown() override;

  void open(Pmu kind);
  // As systemd keeps the events, and flightd the rings.
  Result<Recording> adopt();
  [[nodiscard]] const ManifestEvent& event(std::size_t index = 1) const {
    return recording_->manifest().events.at(index);
  }
  // Runs on a CPU until a sample of it is there.
  void sample_on(int cpu, const std::string& channel = "stacks");

  std::optional<Recording> recording_;
  Manifest manifest_;  // that was adopted
  std::vector<Mapping> mappings_;
};

}  // namespace flight::test
