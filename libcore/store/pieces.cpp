// SPDX-License-Identifier: Apache-2.0
#include "libcore/store/pieces.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <numeric>
#include <utility>

namespace flight {
namespace {

constexpr std::size_t kTarBlockBytes = 512;
constexpr std::size_t kTarPrefixBytes = 155;
constexpr std::uint64_t kTarOctalEnd = std::uint64_t{1} << 33U;  // 11 octal digits
constexpr unsigned kTarFileMode = 0640;

void put_field(std::string& header, std::size_t at, std::string_view text) { header.replace(at, text.size(), text); }

// `width` with the NUL.
void put_octal(std::string& header, std::size_t at, std::size_t width, std::uint64_t value) {
  put_field(header, at, fmt::format("{:0{}o}", value, width - 1));
}

void put_size(std::string& header, std::uint64_t bytes) {
  constexpr std::size_t kAt = 124, kWidth = 12;
  if (bytes < kTarOctalEnd) return put_octal(header, kAt, kWidth, bytes);
  header[kAt] = static_cast<char>(0x80);
  for (std::size_t i = 0; i < sizeof bytes; ++i)
    header[kAt + kWidth - 1 - i] = static_cast<char>(bytes >> (8U * i) & 0xffU);
}

// The fields of pax(1), "ustar Interchange Format".
std::string tar_header(std::string_view folder, std::string_view name, std::uint64_t bytes, WallTime time) {
  constexpr std::size_t kChecksumAt = 148, kChecksumWidth = 8;
  std::string header(kTarBlockBytes, '\0');
  put_field(header, 0, name);
  put_octal(header, 100, 8, kTarFileMode);
  put_octal(header, 108, 8, 0);  // uid
  put_octal(header, 116, 8, 0);  // gid
  put_size(header, bytes);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time).count();
  put_octal(header, 136, 12, static_cast<std::uint64_t>(std::max<std::int64_t>(seconds, 0)));
  put_field(header, kChecksumAt, std::string(kChecksumWidth, ' '));
  header[156] = '0';  // a regular file
  put_field(header, 257,
            std::string_view("ustar\0"
                             "00",
                             8));
  put_field(header, 265, "root");
  put_field(header, 297, "root");
  put_octal(header, 329, 8, 0);
  put_octal(header, 337, 8, 0);
  put_field(header, 345, folder);
  const auto sum = std::accumulate(header.begin(), header.end(), std::uint64_t{0}, [](std::uint64_t before, char byte) {
    return before + static_cast<unsigned char>(byte);
  });
  put_octal(header, kChecksumAt, kChecksumWidth - 1, sum);  // then NUL and a space
  header[kChecksumAt + kChecksumWidth - 2] = '\0';
  return header;
}

std::string padding_after(std::uint64_t bytes) {
  return std::string(static_cast<std::size_t>((kTarBlockBytes - bytes % kTarBlockBytes) % kTarBlockBytes), '\0');
}

}  // namespace

void Pieces::add(std::string text, UniqueFd file, std::uint64_t file_bytes) {
  pieces_.push_back({.text = std::move(text), .text_at = 0, .file = std::move(file), .file_bytes = file_bytes});
}

std::uint64_t Pieces::bytes() const {
  std::uint64_t sum = 0;
  for (const Piece& piece : pieces_) sum += piece.text.size() - piece.text_at + piece.file_bytes;
  return sum;
}

std::size_t Pieces::read(std::span<char> buffer) {
  while (!pieces_.empty()) {
    Piece& piece = pieces_.front();
    if (piece.text_at < piece.text.size()) {
      const std::size_t count = piece.text.copy(buffer.data(), buffer.size(), piece.text_at);
      piece.text_at += count;
      return count;
    }
    if (piece.file_bytes == 0) {
      pieces_.pop_front();
      continue;
    }
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), piece.file_bytes));
    const ssize_t count = ::read(piece.file.get(), buffer.data(), wanted);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return 0;
    piece.file_bytes -= static_cast<std::uint64_t>(count);
    return static_cast<std::size_t>(count);
  }
  return 0;
}

Result<Pieces> tar_of(const DataFolder& folder, const SnapshotName& name) {
  std::string inside = name.data_file();
  if (inside.size() > kTarPrefixBytes) inside = fmt::format("snapshot-{}{}", name.seq, kDataSuffix);
  Pieces out;
  std::string padding;
  for (const DataFolderFile& one : folder.files()) {
    auto file = folder.open_file(one.name);
    if (!file) return propagate(file.error());
    out.add(padding + tar_header(inside, one.name, one.bytes, name.time), std::move(*file), one.bytes);
    padding = padding_after(one.bytes);
  }
  out.add(padding + std::string(2 * kTarBlockBytes, '\0'));
  return out;
}

}  // namespace flight
