// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/recorder/fake_pmu.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdarg>

#include "libcore/recorder/delivery.hpp"
#include "libcore/recorder/ring_memory.hpp"

extern "C" long syscall(long number, ...) noexcept {
  using namespace flight::test;                  // NOLINT(google-build-using-namespace)
  constexpr std::uint64_t kCgroupSwitches = 11;  // PERF_COUNT_SW_CGROUP_SWITCHES, since 5.13
  static const auto real = reinterpret_cast<long (*)(long, ...)>(::dlsym(RTLD_NEXT, "syscall"));
  std::va_list list;
  va_start(list, number);
  std::array<long, 6> a{};
  for (long& argument : a) argument = va_arg(list, long);
  va_end(list);
  if (number == SYS_perf_event_open && pmu_kind != Pmu::real) {
    auto attr = *reinterpret_cast<const perf_event_attr*>(a[0]);
    if (old_kernel && attr.type == PERF_TYPE_SOFTWARE && attr.config == kCgroupSwitches) {
      errno = ENOENT;
      return -1;
    }
    const bool other = attr.type == kOtherPmu && other_pmu_exists;
    if (attr.type == PERF_TYPE_HARDWARE || attr.type == PERF_TYPE_RAW || other) {
      const bool refuses = pmu_kind == Pmu::refused || static_cast<int>(a[2]) == refusing_cpu;
      if (refuses || attr.precise_ip > most_precise) {
        errno = refuses ? refused_with.load() : EOPNOTSUPP;
        return -1;
      }
      const bool works = pmu_kind == Pmu::working || static_cast<int>(a[2]) == working_cpu;
      if (works && attr.freq != 0 && static_cast<int>(a[2]) != limited_cpu)
        attr.sample_freq = std::min<std::uint64_t>(attr.sample_freq, 99);
      attr.type = PERF_TYPE_SOFTWARE;
      attr.config = works ? PERF_COUNT_SW_CPU_CLOCK : PERF_COUNT_SW_EMULATION_FAULTS;
      attr.precise_ip = 0;
      return real(number, &attr, a[1], a[2], a[3], a[4], a[5]);
    }
  }
  return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

namespace flight::test {

FakePmu::FakePmu() {
  config_.channels = {{.name = "stacks", .ring_bytes = 128U << 10U, .events = {{.event = "cycles", .frequency = 99}}}};
}

void FakePmu::TearDown() {
  pmu_kind = Pmu::real, working_cpu = -1, refusing_cpu = -1, limited_cpu = -1;
  refused_with = EBUSY, most_precise = 3, other_pmu_exists = false, old_kernel = false;
  OnThisMachine::TearDown();
}

void FakePmu::open(Pmu kind) {
  pmu_kind = kind;
  auto opened = open_recording();
  ASSERT_TRUE(opened) << opened.error().what;
  recording_.emplace(std::move(*opened));
}

Result<Recording> FakePmu::adopt() {
  // Something in a sideband's ring: a ring in which nothing was drained is taken for new.
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  KeptEvents kept;
  for (const auto& [id, fd] : recording_->events()) kept[id] = UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  const std::vector<int> owners = recording_->owner_fds();
  manifest_ = recording_->manifest();
  for (std::size_t i = 0; i < owners.size(); ++i) {
    const int prot = manifest_.rings[i].kind == RingKind::channel ? PROT_READ : PROT_READ | PROT_WRITE;
    mappings_.push_back(std::move(map_ring(owners[i], manifest_.rings[i], prot).value()));
    if (prot == PROT_READ) continue;
    auto* control = reinterpret_cast<perf_event_mmap_page*>(mappings_.back().data());  // all is drained
    __atomic_store_n(&control->data_tail, ring_head(mappings_.back()), __ATOMIC_RELEASE);
  }
  recording_.reset();
  return Recording::adopt(manifest_, std::move(kept), config_, sources_, features_);
}

void FakePmu::sample_on(int cpu, const std::string& channel) {
  const std::vector<ManifestRing>& rings = recording_->manifest().rings;
  const auto ring = std::find_if(rings.begin(), rings.end(), [&](const ManifestRing& one) {
    return one.kind == RingKind::channel && one.channel == channel && one.cpu == cpu;
  });
  ASSERT_NE(ring, rings.end());
  const int owner = recording_->owner_fds()[static_cast<std::size_t>(ring - rings.begin())];
  const auto mapping = map_ring(owner, *ring, PROT_READ);
  ASSERT_TRUE(mapping) << mapping.error().what;
  const std::uint64_t old_head = ring_head(*mapping);
  const auto sampled = [&] {
    const auto data = mapping->bytes().subspan(page_bytes());
    return std::any_of(ring->live_ids.begin(), ring->live_ids.end(), [&](std::uint64_t id) {
      return find_sample(data, ring_head(*mapping), old_head, id) == Found::sample;
    });
  };
  const OnCpu there(cpu);
  const EventTime begin_ns = monotonic_now();
  while (!sampled() && monotonic_now() - begin_ns < 60 * kSecond) continue;
  ASSERT_TRUE(sampled()) << "CPU " << cpu;
}

}  // namespace flight::test
