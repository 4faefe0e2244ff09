// SPDX-License-Identifier: Apache-2.0
#include "ctl/fetch.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "ctl/new_file.hpp"
#include "ctl/output.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/units.hpp"
#include "libcore/store/names.hpp"
#include "libcore/store/pieces.hpp"

namespace flight::ctl {
namespace {

constexpr std::size_t kFetchBytes = 256U << 10U;

// The name comes from the daemon: root's flightctl creates only files with a snapshot's name, in the current
// directory.
Result<std::string> name_for(const RemoteFile& remote, const OutputFile& target) {
  if (!name_of(remote))
    return fail(std::errc::bad_message, "flightd calls the snapshot '{}', which is not a snapshot name; use -o FILE",
                printable(remote.name));
  return own_place(remote.name, target);
}

// A pipe or a device is written to. An empty file, as mktemp(1) makes it, may be overwritten.
Result<void> check_free(const std::string& path, bool force) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return {};
  if (S_ISDIR(found.st_mode)) return fail(std::errc::is_a_directory, "{} is a directory; name a file in it", path);
  if (!force && S_ISREG(found.st_mode) && found.st_size > 0)
    return fail(std::errc::file_exists, "{} exists already; --force overwrites it", path);
  return {};
}

tl::unexpected<Refusal> failed(const Error& error) {
  return tl::unexpected(Refusal{std::string(kOutputFailed), error.what});
}

}  // namespace

std::string check_target(const OutputFile& target) {
  if (target.path == "-" && ::isatty(STDOUT_FILENO) == 1)
    return "-o - would write a binary file to the terminal; send stdout elsewhere";
  return "";
}

Result<void> check_place(const OutputFile& target) {
  if (target.path.empty() || target.path == "-") return {};
  return check_free(target.path, target.force);
}

Result<std::string> own_place(const std::string& name, const OutputFile& target) {
  if (auto found = check_free(name, target.force); !found) return propagate(found.error());
  return name;
}

void CopyProgress::add(std::uint64_t bytes) {
  done_bytes_ += bytes;
  const std::uint64_t percent = done_bytes_ * 100 / std::max<std::uint64_t>(all_bytes_, 1);
  if (percent_ == percent) return;
  percent_ = percent;
  line_.show(fmt::format("{} {}% of {}", what_, percent, format_bytes(all_bytes_)));
}

Answer<RemoteFile> open_remote(const Common& common, const std::string& id, SnapshotFile file) {
  auto connection = Connection::open(common);
  if (!connection) return tl::unexpected(Refusal{std::string(kNotConnected), connection.error().what});
  const auto reply = connection->call({fmt::format("{}.ReadSnapshot", kInterface),
                                       to_json(ReadParameters{.id = id, .file = file}), false, false, true});
  if (!reply) return tl::unexpected(Refusal{std::string(kNotConnected), reply.error().what});
  if (!reply->error.empty()) return tl::unexpected(Refusal{reply->error, error_message(*reply)});
  auto opened = parse_read_reply(reply->parameters);
  if (!opened)
    return tl::unexpected(Refusal{std::string(kBadReply),
                                  "flightd answered ReadSnapshot without size_bytes and name; are "
                                  "flightd and flightctl of the same version?"});
  auto progress = std::make_unique<CopyProgress>(file == SnapshotFile::kallsyms ? "kernel symbols" : "copying",
                                                 opened->size_bytes, !common.json);
  return RemoteFile{std::move(*connection), std::move(opened->name), opened->size_bytes, std::move(progress)};
}

std::optional<SnapshotName> name_of(const RemoteFile& file) {
  std::string_view name = file.name;
  if (name.ends_with(kTarSuffix)) name.remove_suffix(kTarSuffix.size());
  return name.ends_with(kDataSuffix) ? parse_snapshot_name(name) : std::nullopt;
}

Result<std::size_t> read_next(RemoteFile& file, std::uint64_t left_bytes, std::span<char> buffer) {
  const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(left_bytes, buffer.size()));
  const auto count = file.connection.read_raw(buffer.first(most));
  if (count && *count == 0)
    return fail(std::errc::connection_reset,
                "flightd closed the connection {} before the end: it stopped, or its disk failed; see its journal",
                counted(left_bytes, "byte"));
  if (count) file.progress->add(*count);
  return count;
}

Result<void> read_remote(RemoteFile& file, const TakeBytes& take) {
  std::vector<char> buffer(kFetchBytes);
  for (std::uint64_t left_bytes = file.bytes; left_bytes > 0;) {
    const auto count = read_next(file, left_bytes, buffer);
    if (!count) return propagate(count.error());
    if (auto taken = take(std::as_bytes(std::span(buffer).first(*count))); !taken) return taken;
    left_bytes -= *count;
  }
  return {};
}

Result<void> write_target(const std::string& path, const std::function<Result<void>(int fd)>& write) {
  struct stat found {};
  if (path == "-") {
    auto written = write(STDOUT_FILENO);
    if (!written) end_if_reader_left(written.error().errno_value());
    return written;
  }
  if (::stat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode)) {
    auto to = open_file(path, O_WRONLY);
    if (!to) return propagate(to.error());
    return write(to->get());
  }
  auto file = NewFile::create(path);
  if (!file) return propagate(file.error());
  if (auto written = write(file->fd()); !written) return written;
  return file->keep();
}

Answer<std::string> fetch(const Common& common, const std::string& id, const OutputFile& target) {
  if (auto file = check_place(target); !file) return failed(file.error());
  auto remote = open_remote(common, id, SnapshotFile::data);
  if (!remote) return tl::unexpected(remote.error());
  auto where = target.path.empty() ? name_for(*remote, target) : Result<std::string>(target.path);
  if (!where) return failed(where.error());
  auto copied = write_target(*where, [&](int to) {
    return read_remote(*remote, [&](std::span<const std::byte> bytes) -> Result<void> {
      if (auto written = write_patiently(to, bytes); !written)
        return wrap(written.error(), "{}", *where == "-" ? "stdout" : *where);
      return {};
    });
  });
  if (!copied) return failed(copied.error());
  return *where;
}

}  // namespace flight::ctl
