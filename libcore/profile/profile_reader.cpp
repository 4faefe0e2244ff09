// SPDX-License-Identifier: Apache-2.0
#include "libcore/profile/profile_reader.hpp"

#include <fmt/format.h>
#include <fnmatch.h>
#include <linux/perf_event.h>

#include <algorithm>
#include <utility>

#include "libcore/base/text.hpp"
#include "libcore/profile/read_records.hpp"

namespace flight {
namespace {

constexpr std::size_t kKnownFrames = 1U << 17U;             // a power of two
constexpr std::size_t kMostSampledPids = 1U << 20U;         // of which the program can be known
constexpr std::uint64_t kKernelHalf = 1ULL << 63U;          // of the addresses
constexpr std::uint64_t kFirstContext = UINT64_MAX - 4094;  // PERF_CONTEXT_MAX (-4095): from there on, no address
constexpr std::uint64_t kUserDeferred = UINT64_MAX - 639;   // PERF_CONTEXT_USER_DEFERRED (-640) of newer kernels

bool fits(const std::string& pattern, const std::string& text) {
  return pattern.empty() || pattern == text || ::fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

bool fits_unit(const std::string& pattern, const CgroupName& name) {
  return fits(pattern, name.label) || fits(pattern, name.unit) || fits(pattern + ".service", name.unit);
}

// cpu-clock and task-clock: the period of a sample is its time.
bool is_cpu_time(const perf_event_attr& attr) {
  return attr.type == PERF_TYPE_SOFTWARE &&
         (attr.config == PERF_COUNT_SW_CPU_CLOCK || attr.config == PERF_COUNT_SW_TASK_CLOCK);
}

// Pid 0 is the idle tasks, or all outside of a container.
bool is_one_process(std::uint32_t pid) { return pid != 0 && pid != kKernelPid; }

bool is_between(EventTime time_ns, EventTime begin_ns, EventTime end_ns) {
  return begin_ns <= time_ns && time_ns < end_ns;
}

}  // namespace

ProfileReader::ProfileReader(const ProfileOrder& order)
    : order_(order),
      timeline_(out_.texts),
      names_(order.kallsyms, order.read_files, order.deadline),
      known_(kKnownFrames) {
  static_cast<void>(out_.texts.id_of(""));  // number 0
}

Result<void> ProfileReader::take_events(const std::vector<FileEvent>& events) {
  auto table = event_table_of(events);
  if (!table) return propagate(table.error());
  events_ = std::move(*table);
  bool any = false;
  for (const FileEvent& event : events) {
    sample_types_.push_back(event.attr.sample_type);
    periods_.push_back(event.attr.sample_period);
    wanted_events_.push_back(fits(order_.only.event, event.name));
    any = any || wanted_events_.back();
    out_.events.push_back({.name = event.name,
                           .frequency = event.attr.freq != 0 ? std::uint64_t{event.attr.sample_freq} : 0,
                           .is_clock = is_cpu_time(event.attr),
                           .root = out_.tree.add_root(),
                           .wanted = wanted_events_.back()});
  }
  if (!any) return fail(std::errc::invalid_argument, "the snapshot has no event '{}'", printable(order_.only.event));
  return {};
}

void ProfileReader::note(std::span<const std::byte> record) {
  const auto type = load<std::uint32_t>(record.data());
  if (type == PERF_RECORD_SAMPLE) {
    if (!needs_lives() || sampled_.size() >= kMostSampledPids) return;
    const auto key = record_key(record, events_);
    const auto sample = key ? sample_fields(record, events_.layout(key->event)) : std::nullopt;
    if (sample) sampled_.insert(sample->pid);
  } else if (const auto lost = lost_fields(record)) {
    out_.counts.lost += lost->lost;
  } else {
    timeline_.add(record);
  }
}

void ProfileReader::between() {
  timeline_.close();
  if (needs_lives()) lives_.emplace(timeline_.records(), sampled_, order_.own_pid_namespace);
}

bool ProfileReader::is_wanted(const RecordKey& key, const SampleFields& sample) const {
  const ProfileFilter& only = order_.only;
  return wanted_events_[key.event] && only.from_ns <= key.time_ns && key.time_ns <= only.until_ns &&
         (!only.cpu || *only.cpu == sample.cpu) && (!only.pid || *only.pid == sample.pid) &&
         (!only.tid || *only.tid == sample.tid);
}

// As in the sidecar's rows: see Contributions.
std::uint32_t ProfileReader::unit_of(const SampleFields& sample) {
  if (!is_one_process(sample.pid)) return lives_->unit_of_no_process(sample.pid);
  return lives_->unit_of(known_cgroup(sample));
}

// 0: its path is not known. There can be as many such numbers as samples, and none is kept.
std::uint64_t ProfileReader::known_cgroup(const SampleFields& sample) const {
  return lives_->path_of(sample.cgroup).empty() ? 0 : sample.cgroup;
}

bool ProfileReader::is_of_process(const SampleFields& sample, EventTime time_ns) {
  if (!lives_ || (order_.only.unit.empty() && order_.only.program.empty())) return true;
  if (!order_.only.unit.empty() && !fits_unit(order_.only.unit, lives_->unit(unit_of(sample)))) return false;
  const Lives::Life* life = lives_->find(sample.pid, lives_->number_at(sample.pid, time_ns));
  return fits(order_.only.program, lives_->program_text(life != nullptr ? life->program : 0));
}

StackValues ProfileReader::values_of(const RecordKey& key, const SampleCalls& calls) const {
  const StackValue one{.samples = 1, .weight = calls.period.value_or(periods_[key.event])};
  const SidecarCompared& compared = order_.compared;
  StackValues out;
  out.all = one;
  if (is_between(key.time_ns, compared.before_begin_ns, compared.now_begin_ns))
    out.before = one;
  else if (compared.now_end_ns != 0 && compared.now_begin_ns <= key.time_ns && key.time_ns <= compared.now_end_ns)
    out.now = one;
  return out;
}

void ProfileReader::count(std::span<const std::byte> record) {
  const auto header = load<perf_event_header>(record.data());
  if (header.type != PERF_RECORD_SAMPLE) return;
  ProfileCounts& counts = out_.counts;
  ++counts.samples;
  const auto key = record_key(record, events_);
  if (!key) {
    ++counts.unknown_ids;
    return;
  }
  const auto sample = sample_fields(record, events_.layout(key->event));
  const auto calls = sample_calls(record, sample_types_[key->event]);
  if (!sample || !calls) {
    ++counts.malformed;
    return;
  }
  if (!is_wanted(*key, *sample) || !is_of_process(*sample, key->time_ns)) return;
  const SidebandPosition position = timeline_.position_at(key->time_ns);
  const std::uint32_t comm = timeline_.tasks().at(sample->tid, position);
  if (!fits(order_.only.comm, out_.texts[comm])) return;
  ++counts.counted;
  find_path(*sample, header.misc, *calls, position);
  path_.push_back(frames_.number_of({.kind = StackFrameKind::task, .name = comm}));
  std::uint32_t node = out_.events[key->event].root;
  for (std::size_t i = path_.size(); i-- > 0;) node = out_.tree.child(node, path_[i]);
  if (out_.tree.is_others(node)) ++counts.others;
  const StackValues values = values_of(*key, *calls);
  out_.tree.add(node, values);
  if (order_.each) pass_on(*key, *sample, node, values.all.weight);
}

void ProfileReader::pass_on(const RecordKey& key, const SampleFields& sample, std::uint32_t node,
                            std::uint64_t weight) {
  const CgroupTexts cgroup = cgroup_texts(sample);
  order_.each({.event = key.event,
               .time_ns = key.time_ns,
               .cpu = sample.cpu,
               .pid = sample.pid,
               .tid = sample.tid,
               .node = node,
               .process = process_text(sample.pid, key.time_ns),
               .unit = cgroup.unit,
               .cgroup = cgroup.path,
               .weight = weight});
}

std::uint32_t ProfileReader::process_text(std::uint32_t pid, EventTime time_ns) {
  const std::uint32_t number = lives_->number_at(pid, time_ns);
  const Lives::Life* life = lives_->find(pid, number);
  if (life == nullptr) return 0;
  const auto [known, added] = process_texts_.try_emplace(std::uint64_t{pid} << 32U | number, 0);
  if (added) known->second = out_.texts.id_of(lives_->comm_text(pid, *life));
  return known->second;
}

ProfileReader::CgroupTexts ProfileReader::cgroup_texts(const SampleFields& sample) {
  const std::uint32_t unit = unit_of(sample);
  const std::uint64_t cgroup = is_one_process(sample.pid) ? known_cgroup(sample) : 0;
  const auto [known, added] = cgroup_texts_.try_emplace({cgroup, unit});
  if (added) {
    known->second.unit = out_.texts.id_of(lives_->unit(unit).label);
    known->second.path = cgroup == 0 ? 0 : out_.texts.id_of(lives_->path_of(cgroup));
  }
  return known->second;
}

void ProfileReader::find_path(const SampleFields& sample, std::uint16_t misc, const SampleCalls& calls,
                              SidebandPosition position) {
  AddressSpaces& spaces = timeline_.spaces();
  const std::uint32_t process = spaces.space_of(sample.pid, position);
  const Code kernel{.space = AddressSpaces::kKernel, .mapped = spaces.mapped(AddressSpaces::kKernel, position)};
  const Code user{.space = process, .mapped = spaces.mapped(process, position)};
  const auto mode = misc & PERF_RECORD_MISC_CPUMODE_MASK;
  const Code own = mode == PERF_RECORD_MISC_KERNEL ? kernel : mode == PERF_RECORD_MISC_USER ? user : Code();
  path_.clear();
  if (!append_chain(calls, kernel, user)) {
    ++out_.counts.bad_chains;
    path_.clear();
  }
  // The chain begins with the sample's own address. With a precise event that can be another one, in the same function
  // or not.
  const std::uint32_t innermost = frame_at(own, sample.ip);
  if (path_.empty() || path_.front() != innermost) path_.insert(path_.begin(), innermost);
}

bool ProfileReader::append_chain(const SampleCalls& calls, const Code& kernel, const Code& user) {
  Code now = user;
  for (std::size_t at = 0; at < calls.chain.size(); at += sizeof(std::uint64_t)) {
    const auto value = load<std::uint64_t>(calls.chain.data() + at);
    if (value >= kFirstContext) {
      if (value == static_cast<std::uint64_t>(PERF_CONTEXT_KERNEL))
        now = kernel;
      else if (value == static_cast<std::uint64_t>(PERF_CONTEXT_USER) || value == kUserDeferred)
        now = user;
      else if (value == static_cast<std::uint64_t>(PERF_CONTEXT_HV))
        now = Code();
      else
        return false;
    } else if (path_.size() == SnapshotProfile::kMostFrames) {
      ++out_.counts.cut_chains;
      return true;
    } else {
      path_.push_back(frame_at(now, value));
    }
  }
  return true;
}

std::uint32_t ProfileReader::frame_at(const Code& code, std::uint64_t address) {
  const std::uint64_t hash = (address ^ (std::uint64_t{code.space} << 40U) ^ code.mapped) * 0x9e3779b97f4a7c15U;
  Known& known = known_[static_cast<std::size_t>(hash >> 32U) & (kKnownFrames - 1)];
  if (known.frame == 0 || known.address != address || known.code.space != code.space ||
      known.code.mapped != code.mapped)
    known = {.code = code, .frame = new_frame(code, address), .address = address};
  return known.frame;
}

std::uint32_t ProfileReader::new_frame(const Code& code, std::uint64_t address) {
  AddressSpaces& spaces = timeline_.spaces();
  StackFrame frame{.kind = StackFrameKind::code};
  const auto at = spaces.find(code.space, code.mapped, address);
  if (!at) return frames_.number_of(frame);
  const CodeObject& object = spaces.objects()[at->object];
  // In a mapping of all memory, an offset would be an address.
  const bool is_address = object.kind == CodeKind::kernel && at->begin < kKernelHalf;
  if (const auto named = names_.find(object, *at, address)) {
    frame.name = out_.texts.id_of(named->name);
    frame.object = at->object;
    frame.offset = is_address ? 0 : named->offset;
  } else if (!is_address) {
    frame.object = at->object;
    frame.offset = at->offset;
  }
  return frames_.number_of(frame);
}

Result<SnapshotProfile> ProfileReader::finish() {
  if (names_.ran_out_of_time()) return fail(std::errc::timed_out, "reading the names of its functions took too long");
  out_.frames = frames_.all();
  out_.objects = timeline_.spaces().objects();
  out_.counts.given_up = timeline_.spaces().given_up();
  out_.counts.malformed_sideband = timeline_.malformed();
  out_.counts.left_out_sideband = timeline_.left_out();
  out_.counts.unnamed = names_.unnamed();
  out_.counts.knows_kernel = names_.knows_kernel();
  return std::move(out_);
}

}  // namespace flight
