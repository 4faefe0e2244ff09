// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/data_folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <utility>

#include "libcore/base/directory.hpp"
#include "libcore/base/file_calls.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/spare_descriptors.hpp"

namespace flight {
namespace {

// The N of data.N; nullopt: another name, or N in another form.
std::optional<std::size_t> number_of_bare(std::string_view name) {
  constexpr std::string_view kBare = "data.";
  if (!name.starts_with(kBare)) return std::nullopt;
  const std::string_view digits = name.substr(kBare.size());
  std::size_t number = 0;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool whole = !digits.empty() && error == std::errc{} && stop == digits.data() + digits.size();
  if (!whole || bare_data_file(number) != name) return std::nullopt;
  return number;
}

}  // namespace

std::string bare_data_file(std::size_t number) { return fmt::format("data.{}", number); }

bool is_data_file(std::string_view name) { return name == kMainDataFile || number_of_bare(name).has_value(); }

Result<DataFolder> DataFolder::open_at(int parent, const std::string& name, const std::string& path) {
  auto out = open_any(parent, name, path);
  if (out && (out->files_.empty() || out->files_.front().name != kMainDataFile))
    return fail(std::errc::bad_message,
                "{} is not a regular file, and not a data directory of perf: it has no file `{}`", path, kMainDataFile);
  return out;
}

Result<DataFolder> DataFolder::open_any(int parent, const std::string& name, const std::string& path) {
  auto entries = Directory::open_at(parent, name.c_str(), path);
  if (!entries) return propagate(entries.error());
  UniqueFd folder = with_spare([&] { return ::fcntl(entries->fd(), F_DUPFD_CLOEXEC, 0); });
  if (!folder) return sys_error(errno, "duplicate the descriptor of {}", path);
  DataFolder out(std::move(folder), path);
  std::vector<std::pair<std::size_t, DataFolderFile>> found;  // `data` has 0, data.N has N + 1
  auto read = entries->each([&](const Directory::Entry& entry) {
    const auto number = number_of_bare(entry.name);
    struct stat status {};
    std::string file(entry.name);
    const bool ours = (entry.name == kMainDataFile || number) &&
                      ::fstatat(out.fd(), file.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode);
    if (!ours) {
      out.other_ = std::move(file);
      return true;
    }
    found.emplace_back(number ? *number + 1 : 0, DataFolderFile{.name = std::move(file),
                                                                .bytes = static_cast<std::uint64_t>(status.st_size),
                                                                .disk_bytes = disk_bytes_of(status),
                                                                .links = status.st_nlink});
    return found.size() <= kMaxDataFiles;
  });
  if (!read) return propagate(read.error());
  if (found.size() > kMaxDataFiles)
    return fail(std::errc::bad_message, "{} has more than {} files", path, kMaxDataFiles);
  std::sort(found.begin(), found.end(), [](const auto& left, const auto& right) { return left.first < right.first; });
  for (auto& [number, file] : found) out.files_.push_back(std::move(file));
  return out;
}

std::uint64_t DataFolder::bytes() const {
  std::uint64_t sum = 0;
  for (const DataFolderFile& file : files_) sum += file.bytes;
  return sum;
}

Result<UniqueFd> DataFolder::open_file(const std::string& name) const {
  return open_regular_at(fd(), name, fmt::format("{}/{}", path_, name));
}

}  // namespace flight
