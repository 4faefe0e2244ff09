// SPDX-License-Identifier: Apache-2.0
#include "ctl/fetch.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include "ctl/new_file.hpp"
#include "ctl/output.hpp"
#include "libcore/base/files.hpp"
#include "libcore/control/client.hpp"
#include "libcore/store/names.hpp"

namespace flight::ctl {
namespace {

constexpr std::size_t kBufferBytes = 256U << 10U;

Result<void> copy_bytes(ControlClient& client, std::uint64_t left_bytes, int to, const std::string& target) {
  std::vector<char> buffer(kBufferBytes);
  while (left_bytes > 0) {
    const auto some =
        std::span(buffer).first(static_cast<std::size_t>(std::min<std::uint64_t>(left_bytes, kBufferBytes)));
    const auto count = client.read_raw(some);
    if (!count) return pass(count.error());
    if (*count == 0)
      return fail(std::errc::connection_reset,
                  "flightd closed the connection with {} bytes to go: it ends, or its disk fails; see its journal",
                  left_bytes);
    if (auto written = write_all(to, std::as_bytes(some.first(*count))); !written)
      return wrap(written.error(), "{}", target);
    left_bytes -= *count;
  }
  return {};
}

// The name is the daemon's: root's flightctl makes no other file for it than a snapshot, here.
Result<std::string> own_name(const std::string& name) {
  if (!parse_snapshot_name(name) || !name.ends_with(kDataSuffix))
    return fail(std::errc::bad_message, "flightd calls the snapshot '{}', which is no snapshot's name; use -o FILE",
                printable(name));
  if (::access(name.c_str(), F_OK) == 0)
    return fail(std::errc::file_exists, "{} is here already; -o FILE writes over a file", name);
  return name;
}

Result<void> copy_to(ControlClient& client, std::uint64_t bytes, const std::string& target) {
  struct stat found {};
  if (target == "-") return copy_bytes(client, bytes, STDOUT_FILENO, "stdout");
  if (::stat(target.c_str(), &found) == 0 && !S_ISREG(found.st_mode)) {
    auto to = open_file(target, O_WRONLY);
    if (!to) return pass(to.error());
    return copy_bytes(client, bytes, to->get(), target);
  }
  auto file = NewFile::create(target);
  if (!file) return pass(file.error());
  if (auto copied = copy_bytes(client, bytes, file->fd(), target); !copied) return copied;
  return file->keep();
}

tl::unexpected<Refusal> failed(const Error& error) {
  return tl::unexpected(Refusal{std::string(kOutputFailed), error.what});
}

}  // namespace

std::string check_target(const std::string& target) {
  if (target == "-" && ::isatty(STDOUT_FILENO) == 1)
    return "-o - would write a binary file to the terminal; send stdout elsewhere";
  return "";
}

Answer<std::string> fetch(const Common& common, const std::string& id, const std::string& target) {
  struct stat found {};
  if (!target.empty() && target != "-" && ::stat(target.c_str(), &found) == 0 && S_ISDIR(found.st_mode))
    return failed(Error{std::make_error_code(std::errc::is_a_directory), target + " is a folder; name a file in it"});
  auto client = ControlClient::connect(common.socket);
  if (!client) return tl::unexpected(Refusal{std::string(kNotConnected), client.error().what});
  const auto reply = client->call({fmt::format("{}.ReadSnapshot", kInterface), id_parameters(id), false, false, true});
  if (!reply) return tl::unexpected(Refusal{std::string(kNotConnected), reply.error().what});
  if (!reply->error.empty()) return tl::unexpected(Refusal{reply->error, error_message(*reply)});
  const auto snapshot = parse_read_reply(reply->parameters);
  if (!snapshot)
    return tl::unexpected(Refusal{std::string(kBadReply),
                                  "flightd answered ReadSnapshot without size_bytes and name; are "
                                  "flightd and flightctl of the same version?"});
  auto where = target.empty() ? own_name(snapshot->name) : Result<std::string>(target);
  if (!where) return failed(where.error());
  if (auto copied = copy_to(*client, snapshot->size_bytes, *where); !copied) return failed(copied.error());
  return *where;
}

}  // namespace flight::ctl
