// SPDX-License-Identifier: Apache-2.0
// The content of a gzip file.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <array>
#include <cstring>
#include <string>

namespace flight::test {

inline std::string gunzipped(std::string packed) {
  z_stream stream{};
  EXPECT_EQ(::inflateInit2_(&stream, 15 + 16, ZLIB_VERSION, static_cast<int>(sizeof stream)), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string out;
  std::array<char, 4096> piece{};
  int status = Z_OK;
  while (status == Z_OK) {
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    status = ::inflate(&stream, Z_NO_FLUSH);
    out.append(piece.data(), piece.size() - stream.avail_out);
  }
  EXPECT_EQ(status, Z_STREAM_END);
  EXPECT_EQ(stream.avail_in, 0U);
  ::inflateEnd(&stream);
  return out;
}

}  // namespace flight::test
