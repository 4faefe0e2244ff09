// SPDX-License-Identifier: Apache-2.0
// What the tests of a running recording share: samples with numbers, rings in memory, rounds that were delivered, and
// stock perf.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "libcore/base/data_folder.hpp"
#include "libcore/base/files.hpp"
#include "libcore/compress/zstd.hpp"
#include "libcore/perf/attr.hpp"
#include "libcore/perf/record.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/perfdata/chunk_size.hpp"
#include "libcore/perfdata/reader.hpp"
#include "libcore/perfdata/user_records.hpp"
#include "libcore/perfdata/writer.hpp"
#include "libcore/stream/part_file.hpp"
#include "libcore/stream/ring_intake.hpp"
#include "libcore/stream/round.hpp"
#include "libcore/stream/round_builder.hpp"
#include "libcore/stream/stream_workers.hpp"

namespace flight::test {

inline constexpr std::uint64_t kMadeType = kSidebandSampleType | PERF_SAMPLE_PERIOD;
inline constexpr std::uint64_t kMadeId = 7;
inline constexpr std::chrono::seconds kPatience{60};  // for what another thread does

// A sample of kMadeType; its period is its number.
struct MadeSample {
  perf_event_header header{.type = PERF_RECORD_SAMPLE, .misc = PERF_RECORD_MISC_USER, .size = 48};
  std::uint64_t id = kMadeId;
  std::uint32_t pid = 1, tid = 1;
  std::uint64_t time_ns = 0;
  std::uint32_t cpu = 0, reserved = 0;
  std::uint64_t number = 0;
};
static_assert(sizeof(MadeSample) == 48);

// `padding`: so many bytes behind its fields that cannot be compressed; a multiple of 8.
inline RecordBuffer made_sample(EventTime time_ns, std::uint64_t number, std::size_t padding = 0,
                                std::uint64_t id = kMadeId) {
  MadeSample sample;
  sample.header.size = static_cast<std::uint16_t>(sizeof sample + padding);
  sample.id = id;
  sample.time_ns = time_ns;
  sample.number = number;
  RecordBuffer out(sizeof sample + padding);
  std::memcpy(out.data(), &sample, sizeof sample);
  std::mt19937_64 random(number);
  for (std::size_t at = sizeof sample; at < out.size(); at += 8) {
    const std::uint64_t noise = random();
    std::memcpy(&out[at], &noise, 8);
  }
  return out;
}

inline EventTable made_table() {
  EventTable events;
  events.add_id(kMadeId, events.add_event(kMadeType));
  return events;
}

inline std::vector<FileEvent> made_events() {
  FileEvent event;
  event.attr.type = PERF_TYPE_SOFTWARE;
  event.attr.size = kStoredAttrBytes;
  event.attr.config = PERF_COUNT_SW_CPU_CLOCK;
  event.attr.sample_type = kMadeType;
  event.attr.sample_period = 1;
  event.attr.sample_id_all = 1;
  event.attr.exclude_guest = 1;
  event.name = "cpu-clock";
  event.ids = {kMadeId};
  return {event};
}

// What a file of made_events() needs for perf to say nothing about it.
inline Features made_features() {
  Features features;
  features.hostname = "stream";
  features.os_release = "6.1.0";
  features.version = "0.1";
  features.arch = "x86_64";
  features.cpus_available = features.cpus_online = 4;
  return features;
}

// A backward ring that the test writes, while no worker looks at it.
class MadeRing {
 public:
  MadeRing(int cpu, std::size_t bytes) : cpu_(cpu), data_(bytes) {}

  void write(const RecordBuffer& record) {
    head_ -= record.size();
    for (std::size_t i = 0; i < record.size(); ++i) data_[(head_ + i) & (data_.size() - 1)] = record[i];
  }
  // The next numbers, at `begin_ns` and the nanoseconds after it.
  void write_some(EventTime begin_ns, std::size_t count, std::uint64_t id = kMadeId) {
    for (std::size_t i = 0; i < count; ++i) write(made_sample(begin_ns + i, ++number_, 0, id));
  }
  [[nodiscard]] StreamRing ring() {
    return {.cpu = cpu_, .data = data_, .head = [this] { return head_; }};
  }
  [[nodiscard]] std::uint64_t number() const { return number_; }

 private:
  int cpu_;
  std::vector<std::byte> data_;
  std::uint64_t head_ = 0;
  std::uint64_t number_ = 0;
};

// Receives rounds.
class Delivered {
 public:
  [[nodiscard]] StreamWorkers::Deliver receive() {
    return [this](Round round) {
      const std::lock_guard lock(mutex_);
      rounds_.push_back(std::move(round));
      threads_.insert(std::this_thread::get_id());
      changed_.notify_all();
    };
  }
  // Waits until so many have come that were not taken.
  [[nodiscard]] bool wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return rounds_.size() >= count; });
  }
  [[nodiscard]] std::vector<Round> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(rounds_, {});
  }
  // Any round.
  [[nodiscard]] bool came_from_this_thread() {
    const std::lock_guard lock(mutex_);
    return threads_.count(std::this_thread::get_id()) != 0;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  // Under mutex_:
  std::vector<Round> rounds_;
  std::set<std::thread::id> threads_;
};

// tick() does nothing if a worker holds the lock: until it begins a round.
inline testing::AssertionResult begin_round(StreamWorkers& workers, EventTime now_ns) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!workers.tick(now_ns)) {
    if (std::chrono::steady_clock::now() > end) return testing::AssertionFailure() << "no round began at " << now_ns;
    std::this_thread::yield();
  }
  return testing::AssertionSuccess();
}

// The records of a block, expanded.
inline std::vector<std::byte> expanded(const Block& block) {
  std::vector<std::byte> bytes;
  block.bytes.append_to(bytes);
  if (load<perf_event_header>(bytes.data()).type != kRecordCompressed) return bytes;
  auto records = expand(std::span(bytes).subspan(sizeof(perf_event_header)), kMaxExpandedBytes);
  EXPECT_TRUE(records) << records.error().what;
  return records ? std::move(*records) : std::vector<std::byte>();
}

inline std::vector<std::uint64_t> numbers_of(std::span<const std::byte> records) {
  std::vector<std::uint64_t> out;
  for (auto record = next_record(records); !record.empty(); record = next_record(records)) {
    if (load<perf_event_header>(record.data()).type == PERF_RECORD_SAMPLE)
      out.push_back(load<std::uint64_t>(record.data() + offsetof(MadeSample, number)));
    records = records.subspan(record.size());
  }
  return out;
}

inline std::vector<std::uint64_t> numbers_of(const RingRound& ring) {
  std::vector<std::uint64_t> out;
  for (const Block& block : ring.blocks) {
    const auto some = numbers_of(expanded(block));
    EXPECT_EQ(some.size(), block.events);
    out.insert(out.end(), some.begin(), some.end());
  }
  return out;
}

// 1, 2, … of each CPU, as they came.
inline std::map<int, std::vector<std::uint64_t>> numbers_of(const std::vector<Round>& rounds) {
  std::map<int, std::vector<std::uint64_t>> out;
  for (const Round& round : rounds)
    for (const RingRound& ring : round.rings) {
      const auto some = numbers_of(ring);
      auto& all = out[ring.cpu];
      all.insert(all.end(), some.begin(), some.end());
    }
  return out;
}

inline std::vector<std::uint64_t> counted_from(std::uint64_t first, std::uint64_t last) {
  std::vector<std::uint64_t> out;
  for (std::uint64_t number = first; number <= last; ++number) out.push_back(number);
  return out;
}

// Rounds of two rings, as two workers make them. Numbers of the second ring begin at 1,000,001.
class MadeRounds {
 public:
  static constexpr std::uint64_t kSecondRing = 1'000'000;

  explicit MadeRounds(int level = 1) : chunks_(Chunks::create(level).value()) { chunks_.begin(); }

  // One second later, `count` numbers of each ring.
  [[nodiscard]] Round next(std::size_t count, std::size_t padding = 0) {
    begin_ns_ += 1'000'000'000;
    for (const std::size_t ring : {0U, 1U}) {
      RecordBuffer records;
      for (std::size_t i = 0; i < count; ++i) {
        const RecordBuffer record = made_sample(begin_ns_ + 2'000 * i + 1'000 * ring, ++numbers_.at(ring), padding);
        records.insert(records.end(), record.begin(), record.end());
      }
      intakes_.at(ring).records(records);
      const auto counts = intakes_.at(ring).take_counts();
      builder_.count(ring, counts.events, counts.bytes, counts.foreign);
    }
    builder_.end_of_round();
    return {.number = number_++,
            .rings = builder_.take(),
            .newest_ns = begin_ns_ + 2'000 * (std::max<std::size_t>(count, 1) - 1) + 1'000};
  }
  [[nodiscard]] std::uint64_t number() const { return numbers_[0]; }
  [[nodiscard]] BlockPool& pool() { return *pool_; }

 private:
  std::unique_ptr<BlockPool> pool_ = BlockPool::create(32U << 20U).value();
  Chunks chunks_;
  EventTable events_ = made_table();
  RoundBuilder builder_{chunks_, *pool_, {{.ring = 0, .cpu = 0, .worker = 0}, {.ring = 1, .cpu = 1, .worker = 1}}};
  std::array<RingIntake, 2> intakes_{RingIntake(0, events_, builder_, 0, 0), RingIntake(1, events_, builder_, 0, 0)};
  std::array<std::uint64_t, 2> numbers_{0, kSecondRing};
  EventTime begin_ns_ = 1'000'000'000'000;
  std::uint64_t number_ = 0;
};

// What a file has, in its order.
struct ReadBack {
  std::vector<std::uint64_t> first, second;  // the numbers of each ring
  std::size_t samples = 0, comms = 0, rounds = 0, compressed = 0;
  bool in_order = true;  // as perf demands (round.hpp)
};

// A file of made_events(), or of others whose samples begin as MadeSample does; in these `number` is not one.
inline ReadBack read_back(const std::string& path) {
  ReadBack out;
  const auto reader = FileReader::open(path);
  EXPECT_TRUE(reader) << reader.error().what;
  if (!reader) return out;
  EventTime newest_ns = 0, last_mark_ns = 0, mark_before_ns = 0;  // marks: the newest at a FINISHED_ROUND
  const auto visit = [&](std::span<const std::byte> record) -> Result<void> {
    const auto type = load<perf_event_header>(record.data()).type;
    if (type == kRecordFinishedRound) {
      ++out.rounds;
      mark_before_ns = std::exchange(last_mark_ns, newest_ns);
      return {};
    }
    EventTime time_ns = 0;
    if (type == PERF_RECORD_SAMPLE) {
      ++out.samples;
      time_ns = load<EventTime>(record.data() + offsetof(MadeSample, time_ns));
      const auto number = load<std::uint64_t>(record.data() + offsetof(MadeSample, number));
      (number > MadeRounds::kSecondRing ? out.second : out.first).push_back(number);
    } else if (const auto trailer = parse_trailer(record); trailer) {
      out.comms += type == PERF_RECORD_COMM ? 1 : 0;
      time_ns = trailer->time_ns;
    }
    if (time_ns != 0) out.in_order = out.in_order && time_ns >= mark_before_ns;
    newest_ns = std::max(newest_ns, time_ns);
    return {};
  };
  const auto read = reader->for_each_record(visit, [&](std::span<const std::byte> frame, std::size_t most) {
    ++out.compressed;
    return expand(frame, most);
  });
  EXPECT_TRUE(read) << read.error().what;
  return out;
}

// A new file.
inline UniqueFd create_file(const std::string& path) {
  auto file = open_file(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  EXPECT_TRUE(file) << file.error().what;
  return file ? std::move(*file) : UniqueFd();
}

inline RecordBuffer comm_of(std::uint32_t pid, EventTime time_ns) {
  RecordBuffer out;
  append_comm(out, {.pid = pid, .tid = pid, .name = "made"}, {.time_ns = time_ns});
  return out;
}

// What a part of made_events() begins with: its prologue names process 1.
inline PartStart made_start(const std::string& data_path, const std::string& journal_path) {
  PartStart start;
  start.data = create_file(data_path);
  start.journal = create_file(journal_path);
  start.events = made_events();
  start.features = made_features();
  start.prologue = comm_of(1, 0);
  append_finished_init(start.prologue);
  return start;
}

// The same as a directory with `more` files beside `data`.
inline PartStart made_folder_start(const std::string& folder, const std::string& journal_path, std::size_t more) {
  std::filesystem::create_directory(folder);
  PartStart start = made_start(folder + "/data", journal_path);
  for (std::size_t i = 0; i < more; ++i) start.more.push_back(create_file(folder + "/" + bare_data_file(i)));
  return start;
}

// A directory in /tmp, removed with the object.
class StreamFolder {
 public:
  StreamFolder() {
    if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("mkdtemp");
  }
  ~StreamFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  StreamFolder(const StreamFolder&) = delete;
  StreamFolder& operator=(const StreamFolder&) = delete;
  [[nodiscard]] std::string path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_ = "/tmp/flight-stream-XXXXXX";
};

struct PerfSaid {
  std::string out, err;
  [[nodiscard]] std::size_t lines() const { return static_cast<std::size_t>(std::count(out.begin(), out.end(), '\n')); }
};

// The stock perf of this machine, or the command in FLIGHT_PERF. It exits 0 after fatal read errors: compare the lines,
// and that stderr is empty.
inline PerfSaid run_perf(const StreamFolder& folder, const std::string& arguments) {
  const std::string err_path = folder.path("stderr");
  const char* verifier = std::getenv("FLIGHT_PERF");
  const std::string command = fmt::format("LC_ALL=C PAGER=cat HOME={} {} {} 2>{} </dev/null", folder.path(""),
                                          verifier == nullptr ? "perf" : verifier, arguments, err_path);
  PerfSaid said;
  FILE* pipe = ::popen(command.c_str(), "re");
  EXPECT_NE(pipe, nullptr);
  if (pipe == nullptr) return said;
  std::array<char, 65536> part{};
  for (std::size_t count = 0; (count = ::fread(part.data(), 1, part.size(), pipe)) > 0;)
    said.out.append(part.data(), count);
  ::pclose(pipe);
  said.err = read_file(err_path).value_or("(stderr was not kept)");
  return said;
}

}  // namespace flight::test
