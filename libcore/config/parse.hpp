// SPDX-License-Identifier: Apache-2.0
// The config's text: JSON with comments, checked to the last key. A config is refused whole, with file, line, path
// in the document, and what would be right.
#pragma once

#include <string>
#include <string_view>

#include "libcore/base/result.hpp"
#include "libcore/config/config.hpp"

namespace flight {

struct ConfigError {
  std::string file;
  int line = 0;
  std::string path;     // "channels.stacks.ring"
  std::string message;  // what is wrong and what would be right
  // "FILE:LINE: PATH: MESSAGE"
  [[nodiscard]] std::string text() const;
};

template <typename T>
using ConfigResult = tl::expected<T, ConfigError>;

// One text. `file` is for messages.
[[nodiscard]] ConfigResult<Config> parse_config(std::string_view text, const std::string& file);
// One file, and nothing else (--config FILE).
[[nodiscard]] ConfigResult<Config> load_config(const std::string& file);

// The config in force where there is no --config: `etc`/flightd.json, else `lib`/flightd.json; then conf.d/*.json of
// both, by name. Defaults: /etc/flightd and /usr/lib/flightd. Where neither has a flightd.json: the built-in default.
struct ConfigFolders {
  std::string etc = "/etc/flightd";
  std::string lib = "/usr/lib/flightd";
};
[[nodiscard]] ConfigResult<Config> load_config(const ConfigFolders& folders);

}  // namespace flight
