// SPDX-License-Identifier: Apache-2.0
#include "ctl/plain.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <vector>

#include "ctl/fetch.hpp"
#include "ctl/output.hpp"
#include "ctl/remote_folder.hpp"
#include "ctl/screen.hpp"
#include "libcore/base/files.hpp"
#include "libcore/compress/zstd.hpp"
#include "libcore/perfdata/plain.hpp"
#include "libcore/store/names.hpp"

namespace flight::ctl {
namespace {

// A file that has no name, or loses it at once where the file system has no O_TMPFILE.
Result<UniqueFd> nameless_file() {
  const char* chosen = ::getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe): flightctl has one thread here
  const std::string folder = chosen != nullptr && *chosen != '\0' ? chosen : "/var/tmp";
  UniqueFd file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file) return file;
  std::string name = folder + "/flightctl-XXXXXX";
  file = UniqueFd(::mkostemp(name.data(), O_CLOEXEC));
  if (!file) return sys_error(errno, "make a temporary file in {} ($TMPDIR names another directory)", folder);
  ::unlink(name.c_str());
  return file;
}

Result<void> copy_all(int from, int to) {
  std::vector<std::byte> buffer(1U << 20U);
  for (off_t at = 0;;) {
    const ssize_t count = ::pread(from, buffer.data(), buffer.size(), at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return sys_error(errno, "read the temporary file");
    if (count == 0) return {};
    if (auto written = write_patiently(to, std::span(buffer).first(static_cast<std::size_t>(count))); !written)
      return written;
    at += count;
  }
}

Result<std::string> place_of(const RemoteFile& remote, const OutputFile& target) {
  if (!target.path.empty()) return target.path;
  const auto parsed = name_of(remote);
  if (!parsed)
    return flight::fail(std::errc::bad_message,
                        "flightd calls the snapshot '{}', which is not a snapshot name; use -o FILE",
                        printable(remote.name));
  return own_place(parsed->stem() + ".plain" + std::string(kDataSuffix), target);
}

}  // namespace

Answer<std::string> fetch_plain(const Common& common, const std::string& id, const OutputFile& target) {
  const auto failed = [](const Error& error) {
    return tl::unexpected(Refusal{std::string(kOutputFailed), error.what});
  };
  if (auto file = check_place(target); !file) return failed(file.error());
  auto remote = open_remote(common, id, SnapshotFile::data);
  if (!remote) return tl::unexpected(remote.error());
  auto where = place_of(*remote, target);
  if (!where) return failed(where.error());
  const auto reader = read_remote_data(*remote, nameless_file, "a temporary file ($TMPDIR names its directory)");
  if (!reader) return failed(reader.error());
  const ProgressLine line(!common.json);
  line.show("expanding");
  auto written = write_target(*where, [&](int to) -> Result<void> {
    struct stat found {};
    if (*where != "-" && ::fstat(to, &found) == 0 && S_ISREG(found.st_mode)) return write_plain(*reader, expand, to);
    auto plain = nameless_file();
    if (!plain) return propagate(plain.error());
    if (auto made = write_plain(*reader, expand, plain->get()); !made) return made;
    return copy_all(plain->get(), to);
  });
  if (!written) return failed(written.error());
  return *where;
}

}  // namespace flight::ctl
