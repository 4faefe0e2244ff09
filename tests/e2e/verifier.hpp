// SPDX-License-Identifier: Apache-2.0
// The verifiers: stock perf, the machine's own and those of other Debian releases (tests/verifiers/perf-of). perf
// often exits 0 after a fatal read error, so a result is always the number of printed samples, and an empty stderr.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/e2e/daemon_fixture.hpp"

namespace flight {

// The user that runs perf: root, or a user whose only group is the snapshots' own.
enum class Reader { root, member };
inline constexpr unsigned kMemberUid = 54321;

class Verifier {
 public:
  // The installed perf is the first. A perf whose root file system cannot be downloaded is left out, with a message.
  [[nodiscard]] static const std::vector<Verifier>& all();
  [[nodiscard]] static const Verifier& installed() { return all().front(); }

  [[nodiscard]] const std::string& name() const { return name_; }
  // Runs `perf ARGUMENTS` in `folder`; never with -f.
  [[nodiscard]] Outcome perf(const TempFolder& folder, const Arguments& arguments, Reader reader = Reader::root) const;
  // Whether it runs in this machine's own root file system, where it finds every DSO.
  [[nodiscard]] bool on_host() const { return suite_.empty(); }

 private:
  Verifier(std::string name, std::string suite) : name_(std::move(name)), suite_(std::move(suite)) {}
  std::string name_, suite_;
};

// What each of Verifier::all() prints, in their order. They run at the same time: each uses one CPU.
[[nodiscard]] std::vector<Outcome> perf_of_all(const TempFolder& folder, const Arguments& arguments);

// stderr is empty except for perf's own "lost … chunks" warning, which must appear if and only if the sidecar has
// holes.
[[nodiscard]] testing::AssertionResult stderr_is_right(const Outcome& outcome, bool has_holes);
// The sidecar of a recording's part with only those holes that perf knows of: LOST records, which have what the kernel
// counted while a snapshot paused the ring.
[[nodiscard]] Json as_perf_sees(Json part);
// This `perf script` printed a line for each of the sidecar's samples and nothing else, and its stderr is as expected.
[[nodiscard]] testing::AssertionResult prints_all(const Outcome& script, const Json& sidecar);
// The same of `perf script -F time`.
[[nodiscard]] testing::AssertionResult counts_all(const Verifier& verifier, const TempFolder& folder,
                                                  const Json& sidecar, Reader reader = Reader::root);
// counts_all for every verifier.
[[nodiscard]] testing::AssertionResult all_count_all(const TempFolder& folder, const Json& sidecar);
// counts_all for every verifier but the installed one, whose samples are counted already: see counted_samples().
[[nodiscard]] testing::AssertionResult others_count_all(const TempFolder& folder, const Json& sidecar);

// One sample as printed by perf, without its callchain.
struct NamedSample {
  std::string comm;
  int pid = 0, tid = 0, cpu = 0;
  std::uint64_t time_ns = 0;
  std::string event, symbol, dso;
  std::string line;  // perf's line
  // The kernel's vdso has names for functions that programs call, but not for its internal ones.
  [[nodiscard]] bool has_symbol() const { return symbol != "[unknown]" || dso == "[vdso]"; }
};
// All samples of a file, as the installed perf prints them.
[[nodiscard]] std::vector<NamedSample> named_samples(const TempFolder& folder, const std::string& file);
// The same of a snapshot's file, and expects what counts_all() does of this one run of perf.
[[nodiscard]] std::vector<NamedSample> counted_samples(const TempFolder& folder, const Json& sidecar);

// The build id of an ELF file by readelf, or of the kernel by its notes.
[[nodiscard]] std::string build_id_of(const std::string& path);
[[nodiscard]] std::string kernel_build_id();

}  // namespace flight
