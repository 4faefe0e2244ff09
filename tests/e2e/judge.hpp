// SPDX-License-Identifier: Apache-2.0
// The judges: stock perf, the machine's own and those of other Debian releases (tests/judges/perf-of). perf often exits
// 0 after a fatal read error, so a judgement is always the number of samples that were printed, and an empty stderr.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/e2e/daemon_fixture.hpp"

namespace flight {

// Whom perf runs as: root, or a user whose only group is the snapshots' own.
enum class Reader { root, member };
inline constexpr unsigned kMemberUid = 54321;

class Judge {
 public:
  // The installed one first. One whose root file system cannot be downloaded is left out, with a message.
  [[nodiscard]] static const std::vector<Judge>& all();
  [[nodiscard]] static const Judge& installed() { return all().front(); }

  [[nodiscard]] const std::string& name() const { return name_; }
  // Runs `perf ARGUMENTS` in `folder`; never with -f.
  [[nodiscard]] Outcome perf(const TempFolder& folder, const Arguments& arguments, Reader reader = Reader::root) const;
  // Is it this machine's own root file system, where it finds every DSO?
  [[nodiscard]] bool on_host() const { return suite_.empty(); }

 private:
  Judge(std::string name, std::string suite) : name_(std::move(name)), suite_(std::move(suite)) {}
  std::string name_, suite_;
};

// stderr is empty but for perf's own "lost … chunks" warning, which is there exactly when the sidecar has holes.
[[nodiscard]] testing::AssertionResult stderr_is_right(const Outcome& outcome, bool has_holes);
// `perf script -F time` prints as many lines as the sidecar has samples, and nothing is wrong with its stderr.
[[nodiscard]] testing::AssertionResult counts_all(const Judge& judge, const TempFolder& folder, const Json& sidecar,
                                                  Reader reader = Reader::root);
// counts_all by every judge.
[[nodiscard]] testing::AssertionResult all_count_all(const TempFolder& folder, const Json& sidecar);

// One sample as perf names it, without its callchain.
struct NamedSample {
  std::string comm;
  int pid = 0, tid = 0, cpu = 0;
  std::uint64_t time_ns = 0;
  std::string event, symbol, dso;
  std::string line;  // as perf wrote it
  // Or has none to have: the kernel's vdso names what programs call, and not the functions that those are made of.
  [[nodiscard]] bool has_symbol() const { return symbol != "[unknown]" || dso == "[vdso]"; }
};
// All samples of a file by the installed perf.
[[nodiscard]] std::vector<NamedSample> named_samples(const TempFolder& folder, const std::string& file);

// The build id of an ELF file, by readelf; of the kernel, from its notes.
[[nodiscard]] std::string build_id_of(const std::string& path);
[[nodiscard]] std::string kernel_build_id();

}  // namespace flight
