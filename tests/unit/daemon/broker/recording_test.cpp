// SPDX-License-Identifier: Apache-2.0
// The recording and the replies of the real flightd-broker, from flightd's end of the broker protocol.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <csignal>
#include <set>

#include "libcore/perf/record_build.hpp"
#include "libcore/perf/ring_walk.hpp"
#include "libcore/recorder/trigger_rings.hpp"
#include "tests/unit/bpf_program.hpp"
#include "tests/unit/daemon/broker/broker_process.hpp"

namespace flight {
namespace {

using test::call_on;
using test::calls_config;
using test::heads;
using test::load_bpf_program;
using test::map_rings;
using testing::HasSubstr;

class Broker : public test::BrokerProcess {};

std::uint64_t lost_of(const Counts& counts, std::uint64_t id) {
  for (const EventCount& event : counts.events)
    if (event.id == id) return event.lost;
  ADD_FAILURE() << "no count of id " << id;
  return 0;
}

std::uint64_t value_of(const Counts& counts, std::uint64_t id) {
  for (const EventCount& event : counts.events)
    if (event.id == id) return event.value;
  ADD_FAILURE() << "no count of id " << id;
  return 0;
}

// kallsyms is sent once for each client, because it has 10 MB.
TEST_F(Broker, TheKernelIsReadForEachRequestAndItsSymbolsAreSentOnce) {
  start(calls_config(""));
  const EventTime begun_ns = monotonic_now();
  const auto first = client_->kernel();
  ASSERT_TRUE(first) << first.error().what << errors();
  EXPECT_EQ(first->names.kallsyms, Kallsyms::sent);
  const auto text = first->kallsyms.bytes();
  EXPECT_THAT(std::string(reinterpret_cast<const char*>(text.data()), text.size()), HasSubstr("_text"));
  ASSERT_FALSE(first->names.maps.empty());
  EXPECT_NE(first->names.maps[0].address, 0U);
  EXPECT_GT(first->names.looked_ns, begun_ns);
  const auto second = client_->kernel();
  ASSERT_TRUE(second) << second.error().what;
  EXPECT_EQ(second->names.kallsyms, Kallsyms::unchanged);
  EXPECT_EQ(second->names.digest, first->names.digest);
  EXPECT_GT(second->names.looked_ns, first->names.looked_ns);
}

TEST_F(Broker, RecordsWhatItsConfigurationSays) {
  start(
      calls_config(R"(, "stacks": {"ring": "128K", "events": [{"event": "cpu-clock", "frequency": 997, "stack": "fp"}]},
                         "sched": {"ring": "64K", "events": [{"event": "sched:sched_switch", "filter": "prev_pid > 0"}]})"));
  auto attachment = client_->attach();
  ASSERT_TRUE(attachment) << attachment.error().what << errors();
  const Manifest manifest = attachment->manifest;
  ASSERT_EQ(manifest.events.size(), 4U);
  EXPECT_EQ(manifest.events[1].name, "raw_syscalls:sys_enter");
  EXPECT_EQ(manifest.events[3].filter, "prev_pid > 0");
  EXPECT_EQ(manifest.rings.size(), 4 * manifest.events[0].ids.size());
  EXPECT_THAT(manifest.tracepoint_formats.at("sched:sched_switch"), HasSubstr("next_comm"));
  EXPECT_THAT(manifest.header_page, HasSubstr("timestamp"));
  EXPECT_THAT(manifest.header_event, HasSubstr("type_len"));

  auto calls = map_rings(*attachment, "calls");
  ASSERT_FALSE(calls.empty());
  EventTable table;
  for (const ManifestEvent& event : manifest.events) {
    const std::size_t index = table.add_event(event.attr.sample_type);
    for (const ManifestId& id : event.ids) table.add_id(id.id, index);
  }
  const EventTime before = monotonic_now();
  for (const Ring& ring : calls) {
    const std::uint64_t head = ring.head();
    call_on(ring.info().cpu, 100);
    EXPECT_LT(static_cast<std::int64_t>(ring.head() - head), 0) << "a backward ring's head goes down";
    EXPECT_LT(ring.info().enabled_ns, before);
    ASSERT_EQ(ring.pause(), 0);
    const WalkResult walk = walk_ring({ring.bytes(), ring.head(), ring.bytes().size()}, table);
    EXPECT_EQ(walk.samples, 100U) << "the filter lets exactly these through";
    EXPECT_EQ(walk.unknown_ids, 0U);
    for (const RecordRef& record : walk.records) EXPECT_GE(record.time_ns, before);
    ASSERT_EQ(ring.resume(), 0);
  }
  auto sched = map_rings(*attachment, "sched");
  const auto old = heads(sched);
  for (int i = 0; i < 20; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_NE(heads(sched), old);
}

TEST_F(Broker, CountsWhatAPauseLost) {
  start(calls_config());
  auto attachment = client_->attach();
  ASSERT_TRUE(attachment) << attachment.error().what << errors();
  ASSERT_TRUE(attachment->manifest.lost_exact);
  const auto ids = attachment->manifest.events[1].ids;
  const auto rings = map_rings(*attachment, "calls");
  ASSERT_EQ(rings.size(), ids.size());
  const auto before = client_->counts();
  ASSERT_TRUE(before) << before.error().what;
  call_on(ids[0].cpu, 50);
  ASSERT_EQ(rings[0].pause(), 0);
  call_on(ids[0].cpu, 30);
  ASSERT_EQ(rings[0].resume(), 0);
  const auto after = client_->counts();
  ASSERT_TRUE(after);
  EXPECT_EQ(value_of(*after, ids[0].id) - value_of(*before, ids[0].id), 80U);
  EXPECT_EQ(lost_of(*after, ids[0].id) - lost_of(*before, ids[0].id), 30U);
  EXPECT_EQ(after->broker_pid, pid_);
  EXPECT_GT(after->broker_rss_bytes, 1U << 20U);
  EXPECT_GT(after->broker_uptime_seconds, 0);
  EXPECT_LT(after->broker_rss_bytes, 1U << 30U);
  EXPECT_GT(after->time_ns, before->time_ns);
}

TEST_F(Broker, DisableAndEnableStopAndStartAllEvents) {
  start(calls_config());
  auto attachment = client_->attach();
  ASSERT_TRUE(attachment) << attachment.error().what;
  const auto rings = map_rings(*attachment, "calls");
  ASSERT_TRUE(client_->disable());
  const auto off = heads(rings);
  call_on(rings[0].info().cpu, 10);
  EXPECT_EQ(heads(rings), off);
  ASSERT_TRUE(client_->enable());
  call_on(rings[0].info().cpu, 10);
  EXPECT_NE(heads(rings), off);
}

// When the list of symbols in an answer was right; 0: it has none.
EventTime symbols_listed_ns(const Mapping& answer) {
  auto rest = std::as_bytes(std::span(answer.data(), answer.size()));
  for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
    rest = rest.subspan(record.size());
    const auto at = parse_trailer(record);
    if (at && at->reserved == kScanSymbolsListed) return at->time_ns;
  }
  return 0;
}

TEST_F(Broker, ReportsTheRunningProcesses) {
  start(calls_config());
  const auto attachment = client_->attach();
  ASSERT_TRUE(attachment) << errors();
  // The first reply is from the moment before the first sample. Forks are recorded while it is made.
  const auto first = client_->processes();
  ASSERT_TRUE(first) << first.error().what;
  const auto trailer = parse_trailer(next_record(std::as_bytes(std::span(first->data(), first->size()))));
  ASSERT_TRUE(trailer);
  EXPECT_GT(trailer->time_ns, 0U);
  for (const ManifestRing& ring : attachment->manifest.rings) {
    if (ring.kind == RingKind::sideband)
      EXPECT_GE(trailer->time_ns, ring.enabled_ns);
    else
      EXPECT_LE(trailer->time_ns, ring.enabled_ns);
  }
  std::array<char, 16> comm{};
  ASSERT_EQ(::prctl(PR_GET_NAME, comm.data()), 0);
  const EventTime before = monotonic_now();
  const auto text = client_->processes();
  ASSERT_TRUE(text) << text.error().what;
  const auto self = static_cast<std::uint32_t>(::getpid());
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  bool forked = false;
  bool named = false;
  bool mapped = false;
  std::set<std::uint32_t> pids;
  const EventTime listed_first = symbols_listed_ns(*first);
  std::span<const std::byte> rest = std::as_bytes(std::span(text->data(), text->size()));
  for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
    rest = rest.subspan(record.size());
    const auto at = parse_trailer(record);
    ASSERT_TRUE(at);
    // The symbols of the first list are sent again while that is right; its end says until when it was.
    if (!parse_ksymbol(record) || at->time_ns != listed_first) {
      EXPECT_GE(at->time_ns, before);
    }
    if (const auto task = parse_task(record)) {
      pids.insert(task->pid);
      if (task->pid == self && task->tid == self) {
        EXPECT_EQ(task->ppid, static_cast<std::uint32_t>(::getppid()));
        EXPECT_TRUE(task->exec);
        EXPECT_GT(task->time_ns, 0U);
        EXPECT_LT(task->time_ns, before);
        forked = true;
      }
    }
    if (const auto name = parse_comm(record); name && name->pid == self && name->tid == self)
      named = name->name == comm.data();
    if (const auto map = parse_mmap2(record); map && map->pid == self && map->name == program) {
      EXPECT_NE(map->inode, 0U);
      mapped = true;
    }
  }
  EXPECT_TRUE(rest.empty());
  EXPECT_TRUE(forked);
  EXPECT_TRUE(named);
  EXPECT_TRUE(mapped) << program;
  EXPECT_TRUE(pids.contains(1)) << "other users' processes, too";
}

// The kernel's list is read again only if a symbol may have come or gone.
TEST_F(Broker, ListsGeneratedCodeAndReadsItOnlyIfItMayHaveChanged) {
  const UniqueFd before = load_bpf_program("flight_before");
  start(calls_config());
  ASSERT_TRUE(client_->attach()) << errors();
  struct Listed {
    EventTime read_ns = 0;
    std::set<std::string> names;
    std::uint64_t bits = 0;
  };
  const auto ask = [&] {
    Listed out;
    const auto scan = client_->processes();
    EXPECT_TRUE(scan) << scan.error().what;
    std::span<const std::byte> rest = scan ? scan->bytes() : std::span<const std::byte>();
    for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
      rest = rest.subspan(record.size());
      if (const auto symbol = parse_ksymbol(record)) out.names.emplace(symbol->name);
      const auto trailer = parse_trailer(record);
      if (trailer->reserved != kScanSymbolsListed) continue;
      out.read_ns = trailer->time_ns;
      out.bits = lost_fields(record)->lost;
    }
    return out;
  };
  const auto has = [](const Listed& listed, std::string_view name) {
    return std::any_of(listed.names.begin(), listed.names.end(), [&](const auto& one) { return one.ends_with(name); });
  };
  const Listed first = ask();
  ASSERT_NE(first.read_ns, 0U) << "root sees the addresses";
  // The kernel may not compile them, or hide them. Only the first network namespace shows whether it compiles.
  const auto jit = read_line("/proc/sys/net/core/bpf_jit_enable");
  const bool compiled = jit ? *jit != "0" : has(first, "_flight_before");
  const bool listed = before && compiled && (first.bits & kScanSymbolsNoBpf) == 0;
  EXPECT_EQ(has(first, "_flight_before"), listed);
  Listed second = ask();
  EXPECT_GT(second.read_ns, first.read_ns) << "between the first scan and the recording something may have come";
  // Other tests of this machine may load programs: try until none came.
  Listed third;
  for (int i = 0; i < 20 && third.read_ns != second.read_ns; ++i) {
    if (i > 0) second = third;
    third = ask();
  }
  EXPECT_EQ(third.read_ns, second.read_ns) << "nothing came, so the list is the same";
  EXPECT_EQ(third.names, second.names);
  ASSERT_TRUE(client_->disable());
  ASSERT_TRUE(client_->enable());
  const Listed paused = ask();
  EXPECT_GT(paused.read_ns, third.read_ns) << "a load in the pause has no record";
  const UniqueFd live = load_bpf_program("flight_live");
  const Listed last = ask();
  if (listed) {
    EXPECT_GT(last.read_ns, paused.read_ns) << "a record came";
  }
  EXPECT_EQ(has(last, "_flight_live"), listed);
}

// The broker reads the build-ids itself, both of programs that ran before it and of files that are mapped later.
TEST_F(Broker, ReportsTheBuildIdsOfMappedFiles) {
  start(calls_config());
  ASSERT_TRUE(client_->attach()) << errors();
  const std::string copy = folder_ / "late-program";
  std::filesystem::copy_file("/bin/sleep", copy);
  struct stat own {
  }, late{};
  ASSERT_EQ(::stat("/proc/self/exe", &own), 0);
  ASSERT_EQ(::stat(copy.c_str(), &late), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl(copy.c_str(), "sleep", "100", nullptr);
    ::_exit(1);
  }
  const auto found = [&](const struct stat& file) {
    const auto known = client_->build_ids();
    EXPECT_TRUE(known) << known.error().what;
    return known && std::any_of(known->files.begin(), known->files.end(), [&](const KnownFile& one) {
             return one.file.inode == file.st_ino && one.build_id.size() == 20;
           });
  };
  bool own_found = false, late_found = false;
  for (int i = 0; i < 500 && !(own_found && late_found); ++i) {
    own_found = found(own);
    late_found = found(late);
    ::usleep(20'000);
  }
  EXPECT_TRUE(own_found);
  EXPECT_TRUE(late_found);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_F(Broker, MakesFilesThatAreRoots) {
  start(calls_config());
  const auto file = client_->file();
  ASSERT_TRUE(file) << file.error().what << errors();
  struct stat status {};
  ASSERT_EQ(::fstat(file->fd.get(), &status), 0);
  EXPECT_EQ(status.st_uid, 0U);
  EXPECT_EQ(status.st_gid, test::kGroup);
  EXPECT_EQ(status.st_mode, S_IFREG | 0640U);
  EXPECT_EQ(status.st_size, 0);
  ASSERT_TRUE(write_all(file->fd.get(), "PERFILE2"));
  EXPECT_EQ(read_file(snapshots() + "/" + file->name).value(), "PERFILE2");
  EXPECT_THAT(file->name, testing::MatchesRegex("\\.flightd-[0-9a-f]+\\.partial"));

  for (int i = 1; i < 16; ++i) {
    const auto more = client_->file();
    ASSERT_TRUE(more) << i << ": " << more.error().what;
  }
  const auto refused = client_->file();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().errno_value(), EBUSY);
  EXPECT_THAT(refused.error().what, HasSubstr("16 unfinished files"));
  std::filesystem::rename(snapshots() + "/" + file->name, snapshots() + "/flight-x.perf.data");
  EXPECT_TRUE(client_->file());
}

// Otherwise a snapshot would be refused while parts wait for space on the disk.
TEST_F(Broker, PartsOfRecordingsAreNotCountedAsUnfinishedFiles) {
  start(calls_config());
  for (int part = 1; part <= 8; ++part)
    for (const char* kind : {"part", "side", "rec"}) {
      const auto file = client_->file();
      ASSERT_TRUE(file) << part << ": " << file.error().what;
      std::filesystem::rename(snapshots() + "/" + file->name,
                              snapshots() + fmt::format("/.flightd-{}-{}.partial", kind, part));
    }
  EXPECT_TRUE(client_->file());
}

TEST_F(Broker, SaysSoWhereItCannotMakeAFile) {
  start(calls_config());
  std::filesystem::remove(snapshots());
  EXPECT_THAT(client_->file().error().what, HasSubstr("snapshots: No such file"));
  std::filesystem::create_directory_symlink("/etc", snapshots());
  EXPECT_FALSE(client_->file()) << "flightd's folder is not followed elsewhere";
  EXPECT_TRUE(client_->attach()) << "and all else goes on";
}

TEST_F(Broker, ReloadKeepsEqualChannels) {
  start(calls_config());
  auto first = client_->attach();
  ASSERT_TRUE(first) << errors();
  const auto rings = map_rings(*first, "calls");
  const auto ids = first->manifest.events[1].ids;
  call_on(rings[0].info().cpu, 10);
  const auto old = heads(rings);

  ASSERT_TRUE(client_->reload());
  EXPECT_FALSE(client_->take_changed().value()) << "nothing has changed";
  EXPECT_EQ(client_->attach()->manifest.generation, 1U);

  write_config(calls_config(R"(, "sched": {"ring": "64K", "events": ["sched:sched_switch"]})"));
  ASSERT_TRUE(client_->reload());
  EXPECT_TRUE(client_->take_changed().value());
  auto second = client_->attach();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->manifest.generation, 2U);
  ASSERT_EQ(second->manifest.events.size(), 3U);
  EXPECT_EQ(second->manifest.events[1].ids[0].id, ids[0].id);
  EXPECT_EQ(second->manifest.rings[ids[0].ring].enabled_ns, first->manifest.rings[ids[0].ring].enabled_ns);
  EXPECT_EQ(heads(rings), old) << "its history is kept";
  call_on(rings[0].info().cpu, 10);
  EXPECT_NE(heads(rings), old) << "and it still records";

  write_config(calls_config().replace(calls_config().find("256K"), 4, "128K"));
  ASSERT_TRUE(client_->reload());
  auto third = client_->attach();
  ASSERT_TRUE(third);
  EXPECT_EQ(third->manifest.generation, 3U);
  ASSERT_EQ(third->manifest.events.size(), 2U);
  EXPECT_NE(third->manifest.events[1].ids[0].id, ids[0].id);
  EXPECT_EQ(third->manifest.rings[ids[0].ring].ring_bytes, 128U << 10U);
}

TEST_F(Broker, ABadConfigurationChangesNothing) {
  start(calls_config());
  auto attachment = client_->attach();
  ASSERT_TRUE(attachment) << errors();
  const auto rings = map_rings(*attachment, "calls");
  const std::array<std::pair<const char*, const char*>, 3> bad{
      {{"{\"channels\": {},}", "flightd.json"},
       {R"({"channels": {"x": {"ring": "64K", "events": ["sched:sched_swich"]}}})", "sched:sched_switch"},
       {R"({"channels": {"x": {"ring": "64K", "events": [{"event": "sched:sched_switch", "filter": "prio < 3"}]}}})",
        "prev_prio"}}};
  for (const auto& [text, word] : bad) {
    write_config(text);
    const auto reloaded = client_->reload();
    ASSERT_FALSE(reloaded) << text;
    EXPECT_THAT(reloaded.error().what, HasSubstr(word));
    EXPECT_FALSE(client_->take_changed().value());
    const auto old = heads(rings);
    call_on(rings[0].info().cpu, 10);
    EXPECT_NE(heads(rings), old);
  }
  EXPECT_EQ(client_->attach()->manifest.generation, 1U);
}

// The holder of a sampling event's descriptor could slow a CPU down 15 times, disable the event or remove its filter.
TEST_F(Broker, OnlyDummiesAreSentToFlightd) {
  start(calls_config(R"(, "stacks": {"ring": "64K", "events": [{"event": "cpu-clock", "frequency": 99}]})"));
  auto attachment = client_->attach();
  ASSERT_TRUE(attachment) << errors();
  const std::set<std::uint64_t> sampling = [&] {
    std::set<std::uint64_t> ids;
    for (std::size_t i = 1; i < attachment->manifest.events.size(); ++i)
      for (const ManifestId& id : attachment->manifest.events[i].ids) ids.insert(id.id);
    return ids;
  }();
  ASSERT_GE(attachment->owners.size(), 3U);
  for (const UniqueFd& owner : attachment->owners) {
    std::uint64_t period = 1;
    EXPECT_EQ(::ioctl(owner.get(), PERF_EVENT_IOC_PERIOD, &period), -1);
    EXPECT_EQ(::ioctl(owner.get(), PERF_EVENT_IOC_SET_FILTER, "1"), -1);
    EXPECT_EQ(::ioctl(owner.get(), PERF_EVENT_IOC_REFRESH, 1), -1);
    std::uint64_t id = 0;
    ASSERT_EQ(::ioctl(owner.get(), PERF_EVENT_IOC_ID, &id), 0);
    EXPECT_FALSE(sampling.contains(id));
    const auto ring = static_cast<std::size_t>(&owner - attachment->owners.data());
    if (attachment->manifest.rings[ring].kind == RingKind::channel) {
      EXPECT_EQ(::ioctl(owner.get(), PERF_EVENT_IOC_DISABLE, 0), 0);
    }
  }
  const auto rings = map_rings(*attachment, "calls");
  const auto old = heads(rings);
  call_on(rings[0].info().cpu, 10);
  EXPECT_NE(heads(rings), old) << "a disabled owner does not stop what writes into its ring";
}

// A trigger, attached as flightd does it: it records the signals that this process sends itself.
TEST_F(Broker, KernelEventsAsTriggersAreSentToFlightd) {
  std::string text = calls_config();
  text.insert(text.rfind('}'), fmt::format(R"(, "triggers": {{"winch": {{"event": {{"event": "signal:signal_generate",
                                            "filter": "sig == {} && pid == {}"}}}}}})",
                                           SIGWINCH, ::getpid()));
  start(text);
  auto attachment = client_->attach();
  ASSERT_TRUE(attachment) << attachment.error().what << errors();
  std::vector<SharedForwardRing> rings;
  for (std::size_t i = 0; i < attachment->owners.size(); ++i) {
    if (attachment->manifest.rings[i].kind != RingKind::trigger) continue;
    std::uint64_t period = 1;
    EXPECT_EQ(::ioctl(attachment->owners[i].get(), PERF_EVENT_IOC_PERIOD, &period), -1) << "a dummy";
    EXPECT_EQ(::ioctl(attachment->owners[i].get(), PERF_EVENT_IOC_SET_FILTER, "1"), -1);
    auto ring = ForwardRing::open(std::move(attachment->owners[i]), attachment->manifest.rings[i]);
    ASSERT_TRUE(ring) << ring.error().what;
    rings.push_back(std::make_shared<ForwardRing>(std::move(*ring)));
  }
  ASSERT_EQ(rings.size(), attachment->manifest.events[0].ids.size()) << "one for each CPU";
  TriggerRings triggers;
  triggers.follow(rings, attachment->manifest.triggers);
  std::signal(SIGWINCH, SIG_IGN);
  std::vector<pollfd> polled;
  for (const int fd : triggers.fds()) polled.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  ::kill(::getpid(), SIGWINCH);
  constexpr int kDeadlineMs = 60'000;
  EXPECT_EQ(::poll(polled.data(), polled.size(), kDeadlineMs), 1);
  auto events = triggers.drain();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].trigger, "winch");
  EXPECT_THAT(events[0].detail, HasSubstr(fmt::format("pid={}", ::getpid())));
  ASSERT_TRUE(client_->disable());
  ::kill(::getpid(), SIGWINCH);
  EXPECT_TRUE(triggers.drain().empty());
  ASSERT_TRUE(client_->enable());
  ::kill(::getpid(), SIGWINCH);
  EXPECT_EQ(triggers.drain().size(), 1U);
}

TEST_F(Broker, ATooSmallDescriptorLimitIsSaid) {
  start(calls_config());
  ASSERT_TRUE(client_->counts()) << errors();
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
  rlimit small = old;
  small.rlim_cur = static_cast<rlim_t>(client_->fd()) + 4;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &small), 0);
  const auto attachment = client_->attach();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &old), 0);
  ASSERT_FALSE(attachment);
  EXPECT_EQ(attachment.error().errno_value(), EMFILE);
  EXPECT_THAT(attachment.error().what, HasSubstr("RLIMIT_NOFILE is"));
}

}  // namespace
}  // namespace flight
