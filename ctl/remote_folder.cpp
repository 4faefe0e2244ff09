// SPDX-License-Identifier: Apache-2.0
#include "ctl/remote_folder.hpp"

#include <archive.h>
#include <archive_entry.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ctl/output.hpp"
#include "libcore/base/data_folder.hpp"
#include "libcore/base/files.hpp"
#include "libcore/store/pieces.hpp"

namespace flight::ctl {
namespace {

constexpr std::size_t kTarBufferBytes = 256U << 10U;

struct FreeTarReader {
  void operator()(archive* from) const { ::archive_read_free(from); }
};

// The bytes of the connection, for libarchive.
struct TarSource {
  RemoteFile* file;
  std::uint64_t left_bytes;
  std::vector<char> buffer;
  std::optional<Error> error;
};

la_ssize_t give_bytes(archive* from, void* data, const void** bytes) {
  TarSource& source = *static_cast<TarSource*>(data);
  *bytes = source.buffer.data();
  if (source.left_bytes == 0) return 0;
  const auto count = read_next(*source.file, source.left_bytes, source.buffer);
  if (!count) {
    source.error = count.error();
    ::archive_set_error(from, EIO, "the connection ended");
    return ARCHIVE_FATAL;
  }
  source.left_bytes -= *count;
  return static_cast<la_ssize_t>(*count);
}

// Behind the end of the tar. Only if all bytes came is it what flightd wanted to send.
Result<void> read_rest(TarSource& source) {
  while (source.left_bytes > 0) {
    const auto count = read_next(*source.file, source.left_bytes, source.buffer);
    if (!count) return propagate(count.error());
    source.left_bytes -= *count;
  }
  return {};
}

Failure broken_tar(archive* from, const TarSource& source) {
  if (source.error) return propagate(*source.error);
  const char* why = from != nullptr ? ::archive_error_string(from) : nullptr;
  return flight::fail(std::errc::bad_message, "flightd sent a directory that is no tar: {}",
                      why != nullptr ? why : "no memory");
}

// The name comes from the daemon, and may become a path.
Result<std::string> name_in_folder(archive_entry* entry) {
  const char* path = ::archive_entry_pathname(entry);
  const std::string_view whole = path != nullptr ? path : "";
  const std::string_view name = whole.substr(whole.rfind('/') + 1);
  if (::archive_entry_filetype(entry) != AE_IFREG || !is_data_file(name))
    return flight::fail(std::errc::bad_message, "flightd sent '{}', which is no file of a data directory",
                        printable(whole));
  return std::string(name);
}

}  // namespace

bool is_folder(const RemoteFile& file) { return file.name.ends_with(kTarSuffix); }

Result<void> read_remote_folder(RemoteFile& file, const BeginFile& begin, const TakeBytes& take) {
  TarSource source{
      .file = &file, .left_bytes = file.bytes, .buffer = std::vector<char>(kTarBufferBytes), .error = std::nullopt};
  const std::unique_ptr<archive, FreeTarReader> from(::archive_read_new());
  if (!from || ::archive_read_support_format_tar(from.get()) != ARCHIVE_OK ||
      ::archive_read_open(from.get(), &source, nullptr, give_bytes, nullptr) != ARCHIVE_OK)
    return broken_tar(from.get(), source);
  std::vector<std::byte> buffer(kTarBufferBytes);
  for (;;) {
    archive_entry* entry = nullptr;
    const int status = ::archive_read_next_header(from.get(), &entry);
    if (status == ARCHIVE_EOF) return read_rest(source);
    if (status != ARCHIVE_OK) return broken_tar(from.get(), source);
    const auto name = name_in_folder(entry);
    if (!name) return propagate(name.error());
    if (auto begun = begin(*name, static_cast<std::uint64_t>(::archive_entry_size(entry))); !begun) return begun;
    for (;;) {
      const la_ssize_t count = ::archive_read_data(from.get(), buffer.data(), buffer.size());
      if (count == 0) break;
      if (count < 0) return broken_tar(from.get(), source);
      if (auto taken = take(std::span(buffer).first(static_cast<std::size_t>(count))); !taken) return taken;
    }
  }
}

Result<FileReader> read_remote_data(RemoteFile& file, const std::function<Result<UniqueFd>()>& make,
                                    std::string_view what) {
  UniqueFd data;
  std::vector<UniqueFd> more;
  int to = -1;
  const BeginFile begin = [&](const std::string& name, std::uint64_t /*bytes*/) -> Result<void> {
    auto made = make();
    if (!made) return propagate(made.error());
    to = made->get();
    if (name == kMainDataFile)
      data = std::move(*made);
    else
      more.push_back(std::move(*made));
    return {};
  };
  const TakeBytes take = [&](std::span<const std::byte> bytes) -> Result<void> {
    if (auto written = write_all(to, bytes); !written) return wrap(written.error(), "{}", what);
    return {};
  };
  Result<void> received;
  if (is_folder(file)) {
    received = read_remote_folder(file, begin, take);
  } else {
    received = begin(std::string(kMainDataFile), file.bytes);
    if (received) received = read_remote(file, take);
  }
  if (!received) return propagate(received.error());
  if (!data) return flight::fail(std::errc::bad_message, "flightd sent a directory without a file `{}`", kMainDataFile);
  if (!is_folder(file)) return FileReader::open(fmt::format("/proc/self/fd/{}", data.get()));
  return FileReader::open_files(std::move(data), std::move(more), file.name);
}

}  // namespace flight::ctl
