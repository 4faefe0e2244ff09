// SPDX-License-Identifier: Apache-2.0
// The control socket without a client library: sends bytes that no Varlink client would send.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "libcore/base/unique_fd.hpp"
#include "tests/e2e/command.hpp"

namespace flight {

class RawSocket {
 public:
  [[nodiscard]] static RawSocket connect(const std::string& path);
  [[nodiscard]] bool connected() const { return static_cast<bool>(fd_); }
  // Sends as much as the other side reads within `limit`; false: it closed, or stopped reading.
  bool send(std::string_view bytes, Milliseconds limit = 5s);
  // A call with its NUL.
  bool call(std::string_view json) { return send(std::string(json) + '\0'); }
  // The next message without its NUL; nullopt: the other side closed, or sent nothing for `limit`.
  [[nodiscard]] std::optional<std::string> receive(Milliseconds limit = 20s);
  // Nothing more to read: the other side has closed.
  [[nodiscard]] bool closed(Milliseconds limit = 20s);
  void close() { fd_.reset(); }

 private:
  UniqueFd fd_;
  std::string received_;
};

}  // namespace flight
