// SPDX-License-Identifier: Apache-2.0
// flightctl report ID [PERF-ARGS…]: runs the stock perf report on a snapshot, with the kernel symbols of its boot.
//
// flightctl becomes perf (execve(2)), so exit status, terminal and signals are perf's own. The other files that perf
// reads are memfds, which end with the process: nothing remains after SIGPIPE or SIGKILL.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string_view>

#include "ctl/child.hpp"
#include "ctl/fetch.hpp"
#include "ctl/kallsyms.hpp"
#include "ctl/output.hpp"
#include "ctl/pager.hpp"
#include "ctl/remote_folder.hpp"
#include "ctl/screen.hpp"
#include "libcore/base/data_folder.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/inherited_state.hpp"
#include "libcore/perfdata/plain.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight::ctl {
namespace {

constexpr std::chrono::seconds kConfigLimit{5};
constexpr std::string_view kInstall =
    "install it (Debian: linux-perf, Ubuntu: linux-tools-generic, others: perf), or select one with --perf PATH or "
    "$PERF";

// perf opens the file by this path, as its own descriptor.
std::string path_of(const UniqueFd& fd) { return fmt::format("/proc/self/fd/{}", fd.get()); }

// Without MFD_CLOEXEC: perf inherits it.
Result<UniqueFd> memory_file(const char* name) {
  UniqueFd fd(::memfd_create(name, 0));
  if (!fd) return sys_error(errno, "memfd_create for {}", name);
  return fd;
}

// perf opens files that belong to root or to its user.
bool is_perfs(uid_t owner) { return owner == 0 || owner == ::geteuid(); }

bool is_readable_folder(const Sidecar& sidecar) {
  const auto folder = DataFolder::open_at(AT_FDCWD, sidecar.path, sidecar.path);
  if (!folder || folder->bytes() != sidecar.size_bytes) return false;
  return std::all_of(folder->files().begin(), folder->files().end(), [&](const DataFolderFile& one) {
    const auto file = folder->open_file(one.name);
    struct stat found {};
    return file && ::fstat(file->get(), &found) == 0 && is_perfs(found.st_uid);
  });
}

// Whether this process may read the store.
bool readable_in_place(const Common& common, const Sidecar& sidecar) {
  struct stat found {};
  if (!common.host.empty() || ::stat(sidecar.path.c_str(), &found) != 0) return false;
  if (S_ISDIR(found.st_mode)) return is_readable_folder(sidecar);
  return S_ISREG(found.st_mode) && is_perfs(found.st_uid) &&
         static_cast<std::uint64_t>(found.st_size) == sidecar.size_bytes && ::access(sidecar.path.c_str(), R_OK) == 0;
}

// perf reads no directory from memory: its files become one.
Result<void> join_folder(RemoteFile& remote, int to) {
  const auto reader = read_remote_data(
      remote, [] { return open_memfd("data"); }, "memory");
  if (!reader) return propagate(reader.error());
  return write_joined(*reader, to);
}

Answer<UniqueFd> fetch_data(const Common& common, const std::string& id) {
  const auto failed = [](const Error& error) {
    return tl::unexpected(Refusal{std::string(kOutputFailed), error.what});
  };
  auto remote = open_remote(common, id, SnapshotFile::data);
  if (!remote) return tl::unexpected(remote.error());
  auto fd = memory_file("perf.data");
  if (!fd) return failed(fd.error());
  auto copied =
      is_folder(*remote)
          ? join_folder(*remote, fd->get())
          : read_remote(*remote, [&](std::span<const std::byte> bytes) { return write_all(fd->get(), bytes); });
  if (!copied) return failed(copied.error());
  return std::move(*fd);
}

// nullopt: there are no symbols, and the reason was printed; perf then uses the names that it has.
std::optional<UniqueFd> symbols_of(const Common& common, const std::string& id, const std::string& boot_id) {
  const auto text = fetch_kallsyms(common, id, boot_id);
  auto fd = memory_file("kallsyms");
  Result<void> written = fd ? Result<void>() : propagate(fd.error());
  if (text && fd) written = write_all(fd->get(), *text);
  if (text && written) return std::move(*fd);
  static_cast<void>(print(stderr, fmt::format("flightctl: without the kernel symbols of its boot: {}\n",
                                              printable(text ? written.error().what : text.error().message))));
  return std::nullopt;
}

// "report.queue-size=64K": perf's own configuration limits its queue of events (perf-config(1)). It then ends within a
// snapshot with "Cannot allocate memory", and does not say why. Empty: it does not limit it.
std::string queue_limit(const std::string& perf) {
  auto asked = Child::start({perf, "config", "report.queue-size"});
  if (!asked) return {};
  const auto status = asked->wait(kConfigLimit);
  if (!status) {
    asked->kill();
    static_cast<void>(asked->wait(kConfigLimit));
  }
  if (status != 0) return {};
  const std::string text = asked->out();
  const std::string line = text.substr(0, text.find('\n'));
  return line.ends_with("=0") ? "" : line;
}

// Whether an option of perf is given, alone or with a value behind "=".
bool is_given(const std::vector<std::string>& arguments, std::string_view option) {
  return std::any_of(arguments.begin(), arguments.end(), [option](std::string_view word) {
    return word.starts_with(option) && (word.size() == option.size() || word[option.size()] == '=');
  });
}

// perf neither asks what the terminal can do, nor for $NO_COLOR: on a dumb one it ends with an error, or prints escape
// sequences.
std::vector<std::string> for_this_terminal(const std::vector<std::string>& arguments) {
  if (::isatty(STDOUT_FILENO) != 1) return {};
  const bool dumb = !takes_escapes(STDOUT_FILENO);
  const bool chosen = is_given(arguments, "--stdio") || is_given(arguments, "--stdio2") ||
                      is_given(arguments, "--tui") || is_given(arguments, "--gtk");
  const char* const no_color = std::getenv("NO_COLOR");
  std::vector<std::string> out;
  if (dumb && !chosen) out.emplace_back("--stdio");
  if (dumb || (no_color != nullptr && *no_color != '\0')) out.emplace_back("--stdio-color=never");
  return out;
}

// At a terminal perf shows a report itself, or prints it through a pager: with --stdio always, otherwise where it
// cannot show it, or prints something else. If that pager does not exist, perf gets none. Nor on a dumb terminal, if
// none is named: less(1) needs another one.
void settle_pager(const std::vector<std::string>& arguments) {
  if (::isatty(STDOUT_FILENO) != 1) return;
  const bool named = std::getenv("PERF_PAGER") != nullptr || std::getenv("PAGER") != nullptr;
  if (!named && !takes_escapes(STDOUT_FILENO)) ::setenv("PERF_PAGER", "cat", 1);
  const std::string missing = missing_pager();
  if (missing.empty()) return;
  ::setenv("PERF_PAGER", "cat", 1);
  if (is_given(arguments, "--stdio") || is_given(arguments, "--stdio2"))
    static_cast<void>(print(stderr, fmt::format("flightctl: {}: the report is printed without a pager\n", missing)));
}

int become(const Common& common, const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  restore_for_exec();
  ::execvp(arguments[0], arguments.data());
  const int why = errno;
  if (why == ENOENT)
    return complain(common, kNoPerf, fmt::format("perf is not installed: '{}' was not found; {}", words[0], kInstall),
                    kRefused);
  const Failure failure = sys_error(why, "start {}", words[0]);
  return complain(common, kNoPerf, failure.value().what, kRefused);
}

}  // namespace

int run_report(const Common& common, const ReportOptions& options) {
  // `latest` may be another snapshot in the next call.
  std::string id = options.id;
  std::string data_path;
  std::string boot_id;
  bool described = false;
  const auto text = ask(common, "DescribeSnapshot", id_parameters(id), "snapshot");
  if (!text && text.error().name == kNotConnected) return complain(common, text.error());
  if (text) {
    const auto sidecar = parse_sidecar(*text);
    if (!sidecar) return complain(common, kBadReply, sidecar.error().what, kRefused);
    described = true;
    id = sidecar->id;
    boot_id = sidecar->boot_id;
    if (readable_in_place(common, *sidecar)) data_path = sidecar->path;
  }
  UniqueFd data;
  if (data_path.empty()) {
    auto fetched = fetch_data(common, id);
    if (!fetched) return complain(common, fetched.error());
    data = std::move(*fetched);
    data_path = path_of(data);
  }
  std::optional<UniqueFd> symbols;
  if (described) symbols = symbols_of(common, id, boot_id);

  const char* from_environment = std::getenv("PERF");
  std::string perf = options.perf;
  if (perf.empty() && from_environment != nullptr) perf = from_environment;
  std::vector<std::string> words{perf.empty() ? "perf" : perf, "report", "-i", data_path};
  if (symbols) words.insert(words.end(), {"--kallsyms", path_of(*symbols)});
  std::vector<std::string> arguments = for_this_terminal(options.arguments);
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  words.insert(words.end(), arguments.begin(), arguments.end());
  if (const std::string limit = queue_limit(words[0]); !limit.empty())
    static_cast<void>(print(stderr, fmt::format("flightctl: perf's configuration has {}: if perf cannot allocate "
                                                "memory, remove that or set PERF_CONFIG=/dev/null\n",
                                                printable(limit))));
  settle_pager(arguments);
  return become(common, words);
}

}  // namespace flight::ctl
