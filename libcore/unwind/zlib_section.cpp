// SPDX-License-Identifier: Apache-2.0
#include "libcore/unwind/zlib_section.hpp"

#include <elf.h>
#include <zlib.h>

#include "libcore/unwind/byte_cursor.hpp"
#include "libcore/unwind/file_bytes.hpp"

namespace flight {

Result<std::vector<std::byte>> unpack_section(std::span<const std::byte> packed) {
  ByteCursor cursor(packed);
  const auto header = cursor.take<Elf64_Chdr>();
  if (!cursor.ok() || header.ch_type != ELFCOMPRESS_ZLIB)
    return fail(std::errc::invalid_argument, "a section's compression {} is not known", header.ch_type);
  if (header.ch_size > kMaxFileReadBytes)
    return fail(std::errc::file_too_large, "a section of {} bytes when unpacked", header.ch_size);
  const auto stream = packed.subspan(cursor.position());
  std::vector<std::byte> bytes(static_cast<std::size_t>(header.ch_size));
  uLongf size = bytes.size();
  const int status = ::uncompress(reinterpret_cast<Bytef*>(bytes.data()), &size,
                                  reinterpret_cast<const Bytef*>(stream.data()), stream.size());
  if (status != Z_OK || size != bytes.size())
    return fail(std::errc::invalid_argument, "a compressed section is damaged: zlib's status is {}", status);
  return bytes;
}

}  // namespace flight
