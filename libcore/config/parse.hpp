// SPDX-License-Identifier: Apache-2.0
// Parses the configuration: JSON with comments. Every key is checked. An invalid configuration is refused completely,
// with file, line, path in the document, and the correct form.
#pragma once

#include <string>
#include <string_view>

#include "libcore/base/result.hpp"
#include "libcore/config/config.hpp"
#include "libcore/config/look.hpp"

namespace flight {

struct ConfigError {
  std::string file;
  int line = 0;
  std::string path;      // "channels.stacks.ring"
  std::string message;   // what is wrong and what is allowed
  int error_number = 0;  // of a file that could not be read
  // Nothing is known of it: a file system does not answer, or no process can read it (config_reader.hpp).
  bool unread = false;
  // "FILE:LINE: PATH: MESSAGE"; of an unread one: the message
  [[nodiscard]] std::string text() const;
};

template <typename T>
using ConfigResult = tl::expected<T, ConfigError>;

// One text. `file` is for messages.
[[nodiscard]] ConfigResult<Config> parse_config(std::string_view text, const std::string& file);

// The configuration without --config: `etc`/flightd.json, otherwise `lib`/flightd.json; then conf.d/*.json of both, by
// name. Defaults: /etc/flightd and /usr/lib/flightd. If neither has a flightd.json: the built-in default.
struct ConfigFolders {
  std::string etc = "/etc/flightd";
  std::string lib = "/usr/lib/flightd";
};
[[nodiscard]] ConfigResult<Config> load_config(const ConfigFolders& folders, const LookUp& look = look_up);
// One file and the profile that it names, and nothing else (--config FILE). Without "profile" and "channels" it uses
// the built-in profile; a profile is read from profiles/ beside the file, or from `lib`/profiles.
[[nodiscard]] ConfigResult<Config> load_config(const std::string& file, const ConfigFolders& folders = {},
                                               const LookUp& look = look_up);

}  // namespace flight
