// SPDX-License-Identifier: Apache-2.0
#include "ctl/kallsyms.hpp"

#include <chrono>
#include <thread>

#include "ctl/fetch.hpp"
#include "ctl/output.hpp"
#include "ctl/screen.hpp"
#include "libcore/base/kernel_file.hpp"
#include "libcore/compress/zstd.hpp"

namespace flight::ctl {
namespace {

constexpr std::size_t kMaxKallsymsBytes = 64U << 20U;  // uncompressed; ten times the symbols of a large kernel
constexpr int kTries = 11;
constexpr int kTriesThere = 3;  // the other machine's boot is unknown, and each try is a connection
constexpr std::chrono::milliseconds kBetweenTries(500);

tl::unexpected<Refusal> broken(const std::string& what) {
  return tl::unexpected(Refusal{std::string(kBadReply), "the kernel's symbols: " + what});
}

}  // namespace

Answer<std::vector<std::byte>> fetch_kallsyms(const Common& common, const std::string& id, const std::string& boot_id,
                                              KernelSymbols how) {
  if (how == KernelSymbols::none) return tl::unexpected(Refusal{std::string(kBadReply), "they were not asked for"});
  const auto here = read_kernel_line("/proc/sys/kernel/random/boot_id");
  const bool may_come = how == KernelSymbols::wait && (!common.host.empty() || (here && *here == boot_id));
  const int tries = !may_come ? 1 : (common.host.empty() ? kTries : kTriesThere);
  const ProgressLine line(!common.json);
  line.show("kernel symbols");
  auto remote = open_remote(common, id, SnapshotFile::kallsyms);
  for (int attempt = 1; !remote && remote.error().name != kNotConnected && attempt < tries; ++attempt) {
    line.show("kernel symbols: waiting until flightd has written them");
    std::this_thread::sleep_for(kBetweenTries);
    remote = open_remote(common, id, SnapshotFile::kallsyms);
  }
  if (!remote) return tl::unexpected(remote.error());
  if (remote->bytes > kMaxKallsymsBytes) return broken(fmt::format("{} bytes are too many", remote->bytes));
  std::vector<std::byte> frame;
  auto read = read_remote(*remote, [&](std::span<const std::byte> bytes) -> Result<void> {
    frame.insert(frame.end(), bytes.begin(), bytes.end());
    return {};
  });
  if (!read) return broken(read.error().what);
  auto text = expand(frame, kMaxKallsymsBytes);
  if (!text) return broken(text.error().what);
  return std::move(*text);
}

}  // namespace flight::ctl
